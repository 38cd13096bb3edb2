//! Probable typos.

use super::{Problem, Problems};
use crate::JobSpec;
use crate::path::Location;

impl JobSpec {
    /// Probable typos that are valid as they stand: `${prot.http}`, which a task would see literally.
    ///
    /// They are not among the [problems](Self::problems): the cell checks those when it applies a submission,
    /// with the same result forever. Programs that read what a user has written call this as well.
    #[must_use]
    pub fn slips(&self) -> Vec<Problem> {
        let mut found = Problems::of(self);
        let task = &self.task;
        found.near_references(&Location::TOP, &task.cmd, &task.env, task.health_check.as_ref());
        found.near_references_of_files(task);
        let readiness = Location::TOP.field("readiness");
        found.near_references_of_check(&readiness, task.readiness.as_ref());
        let overrides = Location::TOP.field("overrides");
        for (index, change) in &self.overrides {
            let key = index.to_string();
            let at = overrides.key(&key);
            let cmd = change.cmd.as_deref().unwrap_or_default();
            found.near_references(&at, cmd, &change.env, change.health_check.as_ref());
        }
        found.problems
    }
}
