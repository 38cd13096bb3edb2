//! What holds for the tasks of a batch job together.

use model::Span;
use thiserror::Error;

use super::{ProblemKind, Problems};
use crate::path::Location;
use crate::{BatchPolicy, JobSpec, limits};

/// Why a job cannot wait and run as its description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchProblem {
    /// A gang of which not all may run.
    #[error("is less than the {tasks} tasks of the gang, which run together: leave it out")]
    ThrottledGang {
        /// Its tasks.
        tasks: u32,
    },
    /// A gang whose number of tasks follows the machines.
    #[error(
        "is not possible with tasks: 'every-machine', whose tasks come and go: give a number of tasks"
    )]
    GangOnEveryMachine,
    /// A gang in an alloc set.
    #[error("is not possible in an alloc set, whose allocs are placed one by one: leave one out")]
    GangInAlloc,
    /// A job whose number of tasks follows the machines, and whose tasks wait for those of another.
    #[error(
        "waits task by task, which is not possible with tasks: 'every-machine', whose tasks come and go: wait for the whole job"
    )]
    EachTaskOnEveryMachine,
    /// A gang whose tasks wait one by one.
    #[error(
        "waits task by task, and the tasks of a gang start together: wait for the whole job, or leave gang out"
    )]
    EachTaskOfAGang,
    /// A bound on tasks at once that wait one by one.
    #[error(
        "is not possible for tasks that wait one by one for those of another job: set it there, or wait for the whole job"
    )]
    EachTaskAtOnce,
    /// A gang whose tasks may need one volume for each.
    #[error(
        "is not possible with volumes, which tasks that are placed together may contend for: leave one out"
    )]
    GangWithVolumes,
    /// A gang of more tasks than one operation places.
    #[error("is not possible with {tasks} tasks: a gang has at most {most}")]
    LargeGang {
        /// Its tasks.
        tasks: u32,
        /// The maximum.
        most: u32,
    },
    /// The end comes before a task could have used its notice.
    #[error(
        "is not longer than the notice ({notice}): a task would be told to stop as soon as it runs"
    )]
    WithinNotice {
        /// The notice.
        notice: Span,
    },
}

impl Problems {
    pub(super) fn batch(&mut self, job: &JobSpec) {
        let (top, batch) = (Location::TOP, &job.batch);
        if job.kind.is_alloc_set() {
            for field in batch.set_fields() {
                self.add(&top.field(field), ProblemKind::OfATask);
            }
            return;
        }
        if let Some(at_once) = batch.at_once {
            let at = top.field("atOnce");
            self.range(&at, at_once, 1, limits::TASKS_MAX);
            if batch.gang && at_once < job.tasks {
                self.add(&at, BatchProblem::ThrottledGang { tasks: job.tasks }.into());
            }
        }
        if batch.at_once.is_some() && job.follows_task_by_task() {
            self.add(&top.field("atOnce"), BatchProblem::EachTaskAtOnce.into());
        }
        if batch.gang && job.is_on_every_machine() {
            self.add(&top.field("gang"), BatchProblem::GangOnEveryMachine.into());
        }
        if batch.gang && job.kind.alloc_set().is_some() {
            self.add(&top.field("gang"), BatchProblem::GangInAlloc.into());
        }
        for (position, other) in job.after.iter().enumerate() {
            if !other.each_task {
                continue;
            }
            let after = top.field("after");
            let at = after.element(position);
            if job.is_on_every_machine() {
                self.add(&at, BatchProblem::EachTaskOnEveryMachine.into());
            }
            if batch.gang {
                self.add(&at, BatchProblem::EachTaskOfAGang.into());
            }
        }
        if batch.gang && !job.task.volumes.is_empty() {
            self.add(&top.field("gang"), BatchProblem::GangWithVolumes.into());
        }
        let most = limits::GANG_TASKS_MAX;
        if batch.gang && job.tasks > most {
            let kind = BatchProblem::LargeGang { tasks: job.tasks, most };
            self.add(&top.field("gang"), kind.into());
        }
        let (least, most) = (Span::from_secs(1), Span::from_secs(limits::RUNTIME_SECONDS_MAX));
        if let Some(runtime) = batch.max_runtime {
            let (at, notice) = (top.field("maxRuntime"), job.task.notice);
            self.span(&at, runtime, least, most);
            if runtime <= notice {
                self.add(&at, BatchProblem::WithinNotice { notice }.into());
            }
        }
        if let Some(runtime) = batch.expected_runtime {
            let at = top.field("expectedRuntime");
            self.span(&at, runtime, least, most);
            if let Some(bound) = batch.max_runtime.filter(|bound| *bound < runtime) {
                let kind = ProblemKind::LongerThan { other: "maxRuntime", most: bound };
                self.add(&at, kind);
            }
        }
    }
}

impl BatchPolicy {
    /// The fields that say something.
    fn set_fields(&self) -> impl Iterator<Item = &'static str> {
        let set = [
            self.gang,
            self.at_once.is_some(),
            self.max_runtime.is_some(),
            self.expected_runtime.is_some(),
            self.requeue,
        ];
        Self::FIELDS.into_iter().zip(set).filter_map(|(field, set)| set.then_some(field))
    }
}

#[cfg(test)]
mod tests {
    use model::Span;

    use crate::testing::job;
    use crate::{BatchPolicy, JobSpec, Kind, Sizing};

    #[test]
    fn what_a_batch_job_says_of_its_tasks_must_be_possible() {
        type Change = fn(&mut JobSpec);
        let table: [(Change, &[&str]); 12] = [
            (|job| job.batch.gang = true, &[]),
            (
                |job| (job.tasks, job.batch.gang) = (5_001, true),
                &["gang: is not possible with 5001 tasks: a gang has at most 5000"],
            ),
            (|job| job.batch.at_once = Some(0), &["atOnce: must be 1 to 100000, is 0"]),
            (
                |job| {
                    (job.tasks, job.batch.gang, job.batch.at_once) = (8, true, Some(4));
                },
                &["atOnce: is less than the 8 tasks of the gang, which run together: leave it out"],
            ),
            (
                |job| (job.batch.gang, job.sizing) = (true, Sizing::EveryMachine),
                &[
                    "gang: is not possible with tasks: 'every-machine', whose tasks come and go: give a number of tasks",
                ],
            ),
            (
                |job| {
                    job.batch.gang = true;
                    job.kind = Kind::Job { alloc_set: "room".parse().ok() };
                },
                &[
                    "gang: is not possible in an alloc set, whose allocs are placed one by one: leave one out",
                ],
            ),
            (
                |job| {
                    job.sizing = Sizing::EveryMachine;
                    job.after =
                        ["load", "extract:each-task"].map(|one| one.parse().expect("a job")).into();
                },
                &[
                    "after[0]: waits task by task, which is not possible with tasks: 'every-machine', whose tasks come and go: wait for the whole job",
                ],
            ),
            (
                |job| {
                    job.batch.gang = true;
                    job.after = ["extract:ended:each-task".parse().expect("a job")].into();
                },
                &[
                    "after[0]: waits task by task, and the tasks of a gang start together: wait for the whole job, or leave gang out",
                ],
            ),
            (
                |job| job.batch.max_runtime = Some(Span::from_secs(10)),
                &[
                    "maxRuntime: is not longer than the notice (10 s): a task would be told to stop as soon as it runs",
                ],
            ),
            (
                |job| job.batch.max_runtime = Some(Span::from_secs(400 * 86_400)),
                &["maxRuntime: must be 1 s to 366 d, is 400 d"],
            ),
            (
                |job| {
                    job.batch.max_runtime = Some(Span::from_secs(60));
                    job.batch.expected_runtime = Some(Span::from_secs(61));
                },
                &["expectedRuntime: is longer than maxRuntime (1 m)"],
            ),
            (
                |job| {
                    job.kind = Kind::AllocSet { users: [].into() };
                    job.task.cmd = Vec::new();
                    job.batch = BatchPolicy { gang: true, requeue: true, ..BatchPolicy::default() };
                },
                &[
                    "gang: applies to tasks only, and an alloc runs no program: leave it out",
                    "requeue: applies to tasks only, and an alloc runs no program: leave it out",
                ],
            ),
        ];
        for (change, expected) in table {
            let mut job = job();
            change(&mut job);
            let found: Vec<String> = job.problems().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        }
    }
}
