//! Which changes of a running job need no restart of its tasks (paper, section 2.3).

use crate::{JobSpec, TaskOverride, TaskSpec};

impl JobSpec {
    /// The fields in which `other` differs and that a running task cannot adopt without a restart;
    /// empty if the job can be updated in place.
    ///
    /// Updated in place: priority, labels, scheduling class, restart policy, estimation, and (as
    /// long as the task still fits on its machine) limits and constraints.
    #[must_use]
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let mut found = Vec::new();
        let mut field = |name, differs| {
            if differs && !found.contains(&name) {
                found.push(name);
            }
        };
        field("name", self.name != other.name);
        field("allocs", self.kind.is_alloc_set() != other.kind.is_alloc_set());
        field("allocSet", self.kind.alloc_set() != other.kind.alloc_set());
        field("tasks", self.tasks != other.tasks);
        field("appclass", self.appclass != other.appclass);
        field("after", self.after != other.after);
        field("parent", self.parent != other.parent);
        let (one, two) = (&self.task, &other.task);
        for (name, differs) in task(one, two) {
            field(name, differs);
        }
        let indexes = self.overrides.keys().chain(other.overrides.keys());
        for index in indexes {
            let (one, two) = (self.overrides.get(index), other.overrides.get(index));
            let nothing = TaskOverride::default();
            let (one, two) = (one.unwrap_or(&nothing), two.unwrap_or(&nothing));
            field("overrides.cmd", one.cmd != two.cmd);
            field("overrides.env", one.env != two.env);
            field("overrides.processes", one.processes != two.processes);
            field("overrides.ports", one.ports != two.ports);
            field("overrides.healthCheck", one.health_check != two.health_check);
            field("overrides.notice", one.notice != two.notice);
        }
        found
    }
}

fn task(one: &TaskSpec, two: &TaskSpec) -> [(&'static str, bool); 8] {
    [
        ("cmd", one.cmd != two.cmd),
        ("env", one.env != two.env),
        ("processes", one.processes != two.processes),
        ("ports", one.ports != two.ports),
        ("healthCheck", one.health_check != two.health_check),
        ("notice", one.notice != two.notice),
        ("kernelFeatures", one.kernel_features != two.kernel_features),
        ("api", one.api != two.api),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use crate::{Constraint, Relation};
    use model::{Band, Bytes, SchedulingClass, TaskIndex};

    #[test]
    fn limits_constraints_and_words_change_in_place_and_programs_do_not() {
        let differs = |change: fn(&mut JobSpec)| {
            let mut other = job();
            change(&mut other);
            job().needs_restart(&other)
        };
        let none: [&str; 0] = [];
        assert_eq!(differs(|_| {}), none);
        assert_eq!(differs(|job| job.priority = Band::Free.usual()), none);
        assert_eq!(differs(|job| job.scheduling_class = SchedulingClass::default()), none);
        assert_eq!(differs(|job| job.task.limit.ram = Bytes(1 << 30)), none);
        assert_eq!(differs(|job| job.restart.failures_max = None), none);
        assert_eq!(
            differs(|job| job.task.constraints.push(Constraint {
                attribute: "gpu".to_owned(),
                relation: Relation::Present,
                value: String::new(),
                hard: true,
            })),
            none
        );
        assert_eq!(differs(|job| job.task.cmd.push("-v".to_owned())), ["cmd"]);
        assert_eq!(differs(|job| job.tasks += 1), ["tasks"]);
        assert_eq!(
            differs(|job| {
                job.task.processes += 1;
                for index in 0..2 {
                    let change = TaskOverride { processes: Some(3), ..TaskOverride::default() };
                    job.overrides.insert(TaskIndex(index), change);
                }
            }),
            ["processes", "overrides.processes"]
        );
    }
}
