//! What jobs and alloc sets each have.

use super::{ProblemKind, Problems, limits};
use crate::path::Location;
use crate::{JobSpec, Kind, LogPolicy};

impl Problems {
    pub(super) fn kind(&mut self, job: &JobSpec) {
        let top = Location::TOP;
        match &job.kind {
            Kind::Job { alloc_set } => {
                if job.task.image.is_none() || !job.task.cmd.is_empty() {
                    self.cmd(&top.field("cmd"), &job.task.cmd);
                }
                self.packages(&top.field("packages"), &job.task.packages);
                if alloc_set.as_ref().is_some_and(|set| set.user.is_none() && set.job == job.name) {
                    self.add(&top.field("allocSet"), ProblemKind::NamesItself);
                }
            }
            Kind::AllocSet { users } => {
                let allocs = top.field("allocs");
                let most = limits::ALLOC_SET_USERS_MAX;
                self.count(&allocs.field("users"), users.len(), most, "users");
                let task = &job.task;
                self.of_a_task(&top.field("cmd"), !task.cmd.is_empty());
                self.of_a_task(&top.field("image"), task.image.is_some());
                self.of_a_task(&top.field("packages"), !task.packages.is_empty());
                self.of_a_task(&top.field("env"), !task.env.is_empty());
                self.of_a_task(&top.field("files"), !task.files.is_empty());
                self.of_a_task(&top.field("secrets"), !task.secrets.is_empty());
                self.of_a_task(&top.field("secretEnv"), !task.secret_env.is_empty());
                let has_ports = !task.ports.is_empty() || task.numbers().next().is_some();
                self.of_a_task(&top.field("ports"), has_ports);
                self.of_a_task(&top.field("healthCheck"), task.health_check.is_some());
                self.of_a_task(&top.field("readiness"), task.readiness.is_some());
                self.of_a_task(&top.field("kernelFeatures"), !task.kernel_features.is_empty());
                self.of_a_task(&top.field("api"), task.api);
                self.of_a_task(&top.field("volumes"), !task.volumes.is_empty());
                self.of_a_task(&top.field("outputs"), !task.outputs.paths.is_empty());
                self.of_a_task(&top.field("memorySlack"), task.memory_slack);
                self.of_a_task(&top.field("metrics"), job.metrics.is_some());
                self.of_a_task(&top.field("logs"), task.logs != LogPolicy::default());
                let overrides = top.field("overrides");
                for (index, change) in &job.overrides {
                    let key = index.to_string();
                    let at = overrides.key(&key);
                    self.of_a_task(&at.field("cmd"), change.cmd.is_some());
                    self.of_a_task(&at.field("env"), !change.env.is_empty());
                    self.of_a_task(&at.field("ports"), change.ports.is_some());
                    self.of_a_task(&at.field("healthCheck"), change.health_check.is_some());
                }
            }
        }
    }

    pub(super) fn of_a_task(&mut self, at: &Location<'_>, given: bool) {
        if given {
            self.add(at, ProblemKind::OfATask);
        }
    }
}
