//! Jobs that run after others, and tasks that run after tasks of others.

use event::{Death, KillReason};
use model::{CollectionId, TaskId, TaskIndex};
use spec::EndCondition;

use super::{Cell, Job, TaskState};

/// A job after whose end another one runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsAfter {
    /// The job.
    pub job: CollectionId,
    /// How it has to end.
    pub when: EndCondition,
    /// Whether each task waits for the task of the same index only.
    pub each_task: bool,
}

impl RunsAfter {
    /// Whether an end is the one that it needs.
    #[must_use]
    pub fn is_met(&self, death: &Death) -> bool {
        match self.when {
            EndCondition::Finished => *death == Death::Finished,
            EndCondition::Ended => true,
            EndCondition::Failed => *death != Death::Finished,
        }
    }

    /// Why a job is killed after an end of the other that is not the one that it needs.
    pub(crate) fn of_job(&self) -> KillReason {
        match self.when {
            EndCondition::Failed => KillReason::PredecessorFinished(self.job),
            EndCondition::Finished | EndCondition::Ended => KillReason::PredecessorEnded(self.job),
        }
    }

    /// The same for a task.
    fn of_task(&self, index: TaskIndex) -> KillReason {
        let task = TaskId { collection: self.job, index };
        match self.when {
            EndCondition::Failed => KillReason::CounterpartFinished(task),
            EndCondition::Finished | EndCondition::Ended => KillReason::CounterpartEnded(task),
        }
    }
}

impl Job {
    /// Whether it waits for other jobs, or its tasks for those of others.
    #[must_use]
    pub fn is_behind_others(&self) -> bool {
        !self.waits_for.is_empty() || !self.follows.is_empty()
    }

    /// The jobs for which it or some of its tasks wait.
    pub fn waits_or_follows(&self) -> impl Iterator<Item = CollectionId> + '_ {
        let alone = self.follows.iter().filter(|other| !self.waits_for.contains(other));
        self.waits_for.iter().chain(alone).copied()
    }
}

impl Cell {
    /// Whether a task of a job waits for a task of another one that has not ended for good. A task that has no
    /// counterpart waits for none.
    #[must_use]
    pub fn is_held_back(&self, job: &Job, index: TaskIndex) -> bool {
        job.follows.iter().any(|other| {
            let counterpart = self.task(TaskId { collection: *other, index });
            counterpart.is_some_and(|task| !matches!(task.state, TaskState::Dead { .. }))
        })
    }

    /// Why a task of a job is killed because of the end of its counterpart in another one, if it is.
    pub(crate) fn unmet(&self, job: &Job, index: TaskIndex) -> Option<KillReason> {
        job.after.iter().filter(|after| after.each_task).find_map(|after| {
            let death = self.task(TaskId { collection: after.job, index })?.state.death()?;
            (!after.is_met(death)).then(|| after.of_task(index))
        })
    }
}
