//! Jobs with one task on every machine.

use thiserror::Error;

use super::Problems;
use crate::JobSpec;
use crate::path::Location;

/// Why a job cannot have one task on every machine as it is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EveryMachineProblem {
    /// It describes an alloc set.
    #[error("cannot be 'every-machine' for an alloc set: give a number of allocs")]
    OfAllocs,
    /// It runs in an alloc set.
    #[error(
        "cannot be 'every-machine' in an alloc set: leave out allocSet, or give a number of tasks"
    )]
    InAlloc,
    /// Some of its tasks are to be different.
    #[error(
        "are not possible with tasks: 'every-machine', because indexes say nothing about machines: submit \
         a second job with other constraints instead"
    )]
    Overrides,
}

impl Problems {
    pub(super) fn every_machine(&mut self, job: &JobSpec) {
        if !job.is_on_every_machine() {
            return;
        }
        let (top, tasks) = (Location::TOP, Location::TOP.field("tasks"));
        if job.kind.is_alloc_set() {
            self.add(&tasks, EveryMachineProblem::OfAllocs.into());
        }
        if job.kind.alloc_set().is_some() {
            self.add(&tasks, EveryMachineProblem::InAlloc.into());
        }
        if !job.overrides.is_empty() {
            self.add(&top.field("overrides"), EveryMachineProblem::Overrides.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use model::TaskIndex;

    use crate::{JobSpec, Kind, Sizing, TaskOverride};

    #[test]
    fn one_task_on_every_machine_is_for_plain_jobs() {
        type Change = fn(&mut JobSpec);
        let table: [(Change, &[&str]); 5] = [
            (|_| {}, &[]),
            (|job| job.tasks = 12, &[]),
            (|job| job.sizing = Sizing::Number, &["tasks: must be 1 to 100000, is 0"]),
            (
                |job| job.kind = Kind::Job { alloc_set: "room".parse().ok() },
                &[
                    "tasks: cannot be 'every-machine' in an alloc set: leave out allocSet, or give a \
                   number of tasks",
                ],
            ),
            (
                |job| drop(job.overrides.insert(TaskIndex(0), TaskOverride::default())),
                &["overrides: are not possible with tasks: 'every-machine', because indexes say \
                   nothing about machines: submit a second job with other constraints instead"],
            ),
        ];
        for (change, expected) in table {
            let mut job = crate::testing::job();
            (job.tasks, job.sizing) = (0, Sizing::EveryMachine);
            change(&mut job);
            let found: Vec<_> = job.problems().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        }
    }
}
