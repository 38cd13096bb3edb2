//! What happens in the cell after time 0, in a form that another scheduler can replay: actions of
//! users and failures of hardware have a time; consequences of placements have a run time.

use model::{Span, Time};

use crate::cell::Job;

/// The churn of a cell.
///
/// The trace records the consequences of Borg's own placements; a replay has its own. Therefore a
/// task that finishes or fails does so after it has *run* for a while, whenever that run starts
/// ([`Run`]); jobs arrive, and kills and removals happen, at the times of the trace ([`ChurnStep`]).
/// Evictions belong to the replay: those of the trace are only counted, and a task that is evicted
/// repeats the same run from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Churn {
    /// What happens, ordered by time. Removals continue after [`Churn::until`].
    pub steps: Vec<ChurnStep>,
    /// The runs of the tasks that exist at time 0: for each job of the snapshot, for each of its
    /// tasks. Their run times count from [`super::START`].
    pub standing: Vec<Vec<Vec<Run>>>,
    /// The arriving jobs, ordered by time.
    pub arrivals: Vec<Arrival>,
    /// The removed machines, ordered by time.
    pub outages: Vec<Outage>,
    /// The time up to which events of tasks are known.
    pub until: Time,
    /// Counts of what the trace contains and of what is not represented above.
    pub counts: ChurnCounts,
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChurnStep {
    /// The time.
    pub at: Time,
    /// The event.
    pub what: StepKind,
}

/// An action of users or a failure of hardware.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// A machine is removed: the position in [`Churn::outages`].
    Remove(usize),
    /// A job arrives: the position in [`Churn::arrivals`].
    Arrive(usize),
    /// Tasks are killed by their user, or by a program on whose behalf they ran.
    Kill {
        /// The job.
        job: JobIn,
        /// The tasks, as positions in [`Job::tasks`].
        tasks: Vec<usize>,
    },
}

/// A job of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobIn {
    /// The position in the snapshot.
    Snapshot(usize),
    /// The position in [`Churn::arrivals`].
    Arrivals(usize),
}

/// An arriving job.
///
/// The trace submits tasks individually, and again after each end. Tasks of one job that arrive
/// [`TOGETHER`] are one arrival. A task that is submitted again after it ended is an arrival too,
/// of a job with the same id and the name `j7-2`, `j7-3`, …, because the first may still be
/// running. A task that is submitted within [`TOGETHER`] after a failure or a kill is not an
/// arrival: it continues with its next [`Run`].
///
/// [`TOGETHER`]: super::TOGETHER
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time.
    pub at: Time,
    /// The job, with pending tasks.
    pub job: Job,
    /// The runs of its tasks, in the order of [`Job::tasks`].
    pub runs: Vec<Vec<Run>>,
}

/// One run of a task: it is placed on a machine, runs, and ends. After the last known one the task
/// keeps running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How it ended.
    pub outcome: RunOutcome,
    /// How long it had run on its last machine; `None` if it ended without having run.
    pub run: Option<Span>,
    /// When it ended in the trace.
    pub at: Time,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunOutcome {
    /// It finished.
    Finished,
    /// It failed. If another run follows, it was restarted at once.
    Failed,
    /// It was killed. A task's last run that was killed is also a [`StepKind::Kill`] at its time:
    /// a replay uses one of the two. If another run follows, it was restarted at once.
    Killed,
}

/// The absence of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it starts.
    pub at: Time,
    /// The machine, as a position in the snapshot.
    pub machine: usize,
    /// How long it lasts. The available data does not contain the returns: a machine returns after
    /// ten minutes, or half-way to its next removal if that is earlier.
    pub lasts: Span,
}

/// Counts of what a history contains, and of what a replay omits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChurnCounts {
    /// Rows of task events.
    pub rows: u64,
    /// Tasks submitted after time 0.
    pub submitted: u64,
    /// Runs that started at once after a failure or a kill.
    pub restarts: u64,
    /// Placements after time 0.
    pub scheduled: u64,
    /// Evictions; a replay has its own.
    pub evictions: u64,
    /// Runs that finished.
    pub finished: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were killed.
    pub killed: u64,
    /// Lost tasks; as with evictions, a replay has its own.
    pub lost: u64,
    /// Arriving tasks without a request: they request nothing.
    pub without_request: u64,
    /// Changes of requests: not replayed.
    pub updates: u64,
    /// Rows of tasks that the snapshot omits.
    pub of_dropped_tasks: u64,
    /// Rows with an earlier time than the row before: treated as if they had that row's time.
    pub out_of_order: u64,
    /// Rows that contradict earlier ones: an end without a start, a second submission, an eviction
    /// of a pending task.
    pub impossible: u64,
    /// Rows whose user or scheduling class differs from that of their job's first row, which is
    /// used.
    pub contradicting: u64,
    /// Removals of unknown machines.
    pub removals_unknown: u64,
    /// Repeated removals of a machine at the same time.
    pub removals_doubled: u64,
}
