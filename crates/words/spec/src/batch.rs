//! How the tasks of a batch job wait and run: the words of a batch queue.

use model::{Appclass, Band, Span};

use crate::JobSpec;

/// What the batch queue is told of a job, and what holds for its tasks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Whether all of its tasks start together or none does, and all end when one ends badly.
    pub gang: bool,
    /// How many of its tasks may run at once; `None`: any number.
    pub at_once: Option<u32>,
    /// How long a task may run: it is ended after that time. `None`: as long as it likes.
    pub max_runtime: Option<Span>,
    /// How long a task is expected to run; the queue plans with it, and nothing happens to a task that takes longer.
    pub expected_runtime: Option<Span>,
    /// Whether its tasks keep their place in the queue after a preemption.
    pub requeue: bool,
}

impl BatchPolicy {
    /// The names of its fields in descriptions, in this order.
    pub const FIELDS: [&'static str; 5] =
        ["gang", "atOnce", "maxRuntime", "expectedRuntime", "requeue"];
}

impl JobSpec {
    /// Whether its tasks wait in a cell's batch queue, if that is on: those of best-effort batch jobs, except in an alloc
    /// set, whose resources are taken already, except one on every machine, and except tasks that wait one by one for those
    /// of another job.
    #[must_use]
    pub fn waits_in_queue(&self) -> bool {
        self.appclass == Appclass::Batch
            && self.priority.band() == Band::BestEffortBatch
            && !self.kind.is_alloc_set()
            && self.kind.alloc_set().is_none()
            && !self.is_on_every_machine()
            && !self.follows_task_by_task()
    }

    /// Whether its tasks start one by one, each after a task of another job.
    #[must_use]
    pub fn follows_task_by_task(&self) -> bool {
        self.after.iter().any(|after| after.each_task)
    }

    /// How many of its tasks are enabled at once at most, also if the job does not wait in the queue.
    #[must_use]
    pub fn enabled_at_once(&self) -> Option<u32> {
        let each = !self.kind.is_alloc_set()
            && !self.is_on_every_machine()
            && !self.follows_task_by_task();
        self.batch.at_once.filter(|_| each)
    }
}
