//! What becomes of the cell after time 0, in a form that another scheduler can live through: what
//! people and hardware did has its moment, what followed from placements has a run time.

use model::{Span, Time};

use crate::cell::Job;

/// What becomes of a cell.
///
/// The trace tells what Borg's own placements led to; a replay has its own. So a task that finishes
/// or fails does so after it has *run* for a while, whenever that begins ([`Life`]); jobs arrive,
/// kills and removals happen when they did ([`Step`]). Evictions are the replay's own: those of the
/// trace are only counted, and a task that was evicted lives the same life again from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Churn {
    /// What happens, in the order of time. Removals go on after [`Churn::until`].
    pub steps: Vec<Step>,
    /// The lives of the tasks that were there at time 0: for each job of the snapshot, for each of
    /// its tasks. Their runs count from [`super::START`].
    pub standing: Vec<Vec<Vec<Life>>>,
    /// The jobs that come, in the order of time.
    pub arrivals: Vec<Arrival>,
    /// The machines that go, in the order of time.
    pub away: Vec<Away>,
    /// The moment up to which it is known what happens to tasks.
    pub until: Time,
    /// What there was, and what of it is not in the above.
    pub counts: Counts,
}

/// Something happens at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Time,
    /// What.
    pub what: Happening,
}

/// What people and hardware do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happening {
    /// A machine goes: the one of this place in [`Churn::away`].
    Remove(usize),
    /// A job comes: the one of this place in [`Churn::arrivals`].
    Arrive(usize),
    /// Tasks are killed by their user, or by a program on whose behalf they ran.
    Kill {
        /// Of which job.
        job: JobIn,
        /// Which, as places in [`Job::tasks`].
        tasks: Vec<usize>,
    },
}

/// A job of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobIn {
    /// The one of this place in the snapshot.
    Snapshot(usize),
    /// The one of this place in [`Churn::arrivals`].
    Arrivals(usize),
}

/// A job that comes.
///
/// The trace submits tasks, each again and again. Those of one job that come [`TOGETHER`] are one
/// arrival. A task that is submitted anew after it had ended is an arrival too, of a job with the
/// same id and the name `j7-2`, `j7-3`, …: the first may still be alive. One that is submitted
/// within [`TOGETHER`] after a failure or a kill is not: it goes on with its next [`Life`].
///
/// [`TOGETHER`]: super::TOGETHER
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// What. Its tasks are pending.
    pub job: Job,
    /// The lives of its tasks, in the order of [`Job::tasks`].
    pub lives: Vec<Vec<Life>>,
}

/// One life of a task: it comes to a machine, runs, and ends. After the last known one a task runs
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it had run on its last machine; nothing where it ended without having run.
    pub run: Option<Span>,
    /// When that was in the trace.
    pub at: Time,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It came to its end.
    Finished,
    /// It failed. Where another life follows, it was started again at once.
    Failed,
    /// It was killed. As the last life of a task it is also a [`Happening::Kill`], at its moment: a
    /// replay goes by one of the two. Where another life follows, it was started again at once.
    Killed,
}

/// A machine is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// From when on.
    pub at: Time,
    /// Which, as a place in the snapshot's machines.
    pub machine: usize,
    /// For how long. The trace's own returns are not in the data that is to be had: a machine is back
    /// after ten minutes, or half-way to its next removal where that comes first.
    pub lasts: Span,
}

/// What a history had, and what of it a replay does not live through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of task events.
    pub rows: u64,
    /// Tasks that were submitted after time 0.
    pub submitted: u64,
    /// Lives that began at once after one that had failed or been killed.
    pub restarts: u64,
    /// Placements after time 0.
    pub scheduled: u64,
    /// Evictions: left to the replay.
    pub evictions: u64,
    /// Lives that finished.
    pub finished: u64,
    /// Lives that failed.
    pub failed: u64,
    /// Lives that were killed.
    pub killed: u64,
    /// Tasks that were lost: as an eviction, left to the replay.
    pub lost: u64,
    /// Tasks that come and do not say what they ask for: they ask for nothing.
    pub without_request: u64,
    /// Changes of what a task asks for: not replayed.
    pub updates: u64,
    /// Rows of tasks that the snapshot leaves out.
    pub of_dropped_tasks: u64,
    /// Rows with a time before that of the row above: taken as if they had that time.
    pub out_of_order: u64,
    /// Rows that cannot be after those before: an end without a beginning, a second submission, an
    /// eviction of what was pending.
    pub impossible: u64,
    /// Rows whose user or scheduling class is another than that of their job's first row, which
    /// holds.
    pub contradicting: u64,
    /// Removals of machines that the cell does not have.
    pub removals_unknown: u64,
    /// Removals of machines that were removed at that very moment.
    pub removals_doubled: u64,
}
