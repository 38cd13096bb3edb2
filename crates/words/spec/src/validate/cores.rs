//! Whole cores, and CPU beyond the limit.

use model::{Appclass, MilliCores};
use thiserror::Error;

use super::{ProblemKind, Problems};
use crate::path::Location;
use crate::{Cores, JobSpec};

/// Why tasks cannot have whole cores.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoresProblem {
    /// They are not latency-sensitive.
    #[error(
        "can be 'exclusive' for latency-sensitive tasks only, because batch tasks run on every core: add \
         appclass: 'latency-sensitive', or leave it out"
    )]
    OfBatch,
    /// They run in allocs.
    #[error("cannot be 'exclusive' in an alloc, whose tasks share its cores: leave it out")]
    InAlloc,
    /// Their limit is not a number of whole cores.
    #[error("must be a whole number of cores with cores: 'exclusive', is {is}")]
    NotWhole {
        /// The limit.
        is: MilliCores,
    },
}

impl Problems {
    pub(super) fn cores(&mut self, job: &JobSpec) {
        let (top, task) = (Location::TOP, &job.task);
        let at = top.field("cores");
        let exclusive = task.cores == Cores::Exclusive;
        if job.kind.is_alloc_set() {
            self.of_a_task(&at, exclusive);
            self.of_a_task(&top.field("cpuSlack"), !task.cpu_slack);
            return;
        }
        if !exclusive {
            return;
        }
        if job.appclass != Appclass::LatencySensitive {
            self.add(&at, ProblemKind::Cores(CoresProblem::OfBatch));
        }
        if job.kind.alloc_set().is_some() {
            self.add(&at, ProblemKind::Cores(CoresProblem::InAlloc));
        }
        self.whole(&top, task.limit.cpu);
        let overrides = top.field("overrides");
        for (index, change) in job.overrides.iter().filter(|(index, _)| index.0 < job.tasks) {
            if let Some(limit) = change.limit {
                self.whole(&overrides.key(&index.to_string()), limit.cpu);
            }
        }
    }

    fn whole(&mut self, at: &Location<'_>, is: MilliCores) {
        // Less than the least is reported as such.
        if !is.0.is_multiple_of(1_000) {
            self.add(&at.field("cpu"), ProblemKind::Cores(CoresProblem::NotWhole { is }));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Resources, TaskIndex};

    use super::*;
    use crate::testing::job;
    use crate::{Kind, TaskOverride};

    fn exclusive() -> JobSpec {
        let mut job = JobSpec { appclass: Appclass::LatencySensitive, ..job() };
        (job.task.cores, job.task.limit.cpu) = (Cores::Exclusive, MilliCores(2_000));
        job
    }

    #[test]
    fn whole_cores_need_a_latency_sensitive_task_and_a_whole_number() {
        type Change = fn(&mut JobSpec);
        let table: [(Change, &[&str]); 7] = [
            (|_| {}, &[]),
            (
                |job| job.appclass = Appclass::Batch,
                &[
                    "cores: can be 'exclusive' for latency-sensitive tasks only, because batch tasks run on \
                   every core: add appclass: 'latency-sensitive', or leave it out",
                ],
            ),
            (
                |job| job.task.limit.cpu = MilliCores(1_500),
                &["cpu: must be a whole number of cores with cores: 'exclusive', is 1.5 cores"],
            ),
            (
                |job| {
                    let limit = Resources { cpu: MilliCores(100), ..job.task.limit };
                    let change = TaskOverride { limit: Some(limit), ..TaskOverride::default() };
                    job.overrides.insert(TaskIndex(1), change);
                },
                &[
                    "overrides[\"1\"].cpu: must be a whole number of cores with cores: 'exclusive', is 0.1 \
                   cores",
                ],
            ),
            (
                |job| job.kind = Kind::Job { alloc_set: Some("ana/room".parse().expect("a set")) },
                &[
                    "cores: cannot be 'exclusive' in an alloc, whose tasks share its cores: leave it out",
                ],
            ),
            (
                |job| {
                    job.kind = Kind::AllocSet { users: [].into() };
                    job.task = crate::TaskSpec {
                        cores: Cores::Exclusive,
                        cpu_slack: false,
                        ..crate::TaskSpec::of(Vec::new())
                    };
                },
                &[
                    "cores: applies to tasks only, and an alloc runs no program: leave it out",
                    "cpuSlack: applies to tasks only, and an alloc runs no program: leave it out",
                ],
            ),
            (|job| job.task.cores = Cores::Shared, &[]),
        ];
        for (change, says) in table {
            let mut job = exclusive();
            change(&mut job);
            let found: Vec<String> = job.problems().iter().map(ToString::to_string).collect();
            assert_eq!(found, says);
        }
    }
}
