//! How the tasks of a batch job wait and run: the words of a batch queue.

use model::Span;

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
