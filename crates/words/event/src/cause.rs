//! Why things happen to jobs and tasks.

use std::fmt;

use model::{
    CollectionId, End, InstanceId, MachineId, MachineName, NoticeReason, TaskId, TaskIndex,
    UserName,
};

use crate::lifecycle::Transition;

/// Why a task is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingCause {
    /// It is new.
    Submitted,
    /// It failed and will be retried.
    Failed,
    /// It was lost: how it ended is not known.
    Lost,
    /// Its machine could not start it, for a reason that may pass: such as a package that it could not fetch.
    StartLost {
        /// How often in a row it was tried, or its program ended.
        tries: u32,
    },
    /// Its program exited with 0, and its job restarts it always.
    Finished,
    /// It was evicted from its machine.
    Evicted(EvictionCause),
}

/// Why a task was evicted (trace v3, EVICT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionCause {
    /// A task of higher priority needed its resources.
    Preempted {
        /// That task.
        by: InstanceId,
    },
    /// The machine ran out of an oversubscribed resource.
    OutOfResources,
    /// Its machine stopped answering.
    MachineFailure,
    /// Its machine is being drained.
    MachineShutdown,
    /// An update restarts or moves it.
    Updated,
    /// It was moved to another machine, so that less room is left over in pieces.
    Moved {
        /// The machine on which it had room when it was moved. It is placed there if it still fits.
        to: MachineId,
        /// What for.
        why: MoveReason,
    },
    /// Another task of its gang ended badly, left its machine or is new: all start again together.
    GangRestarts {
        /// That task.
        task: TaskIndex,
    },
    /// Anything else.
    Other,
}

/// What a running task is moved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveReason {
    /// A pending task fits on the machine that it leaves.
    Fits {
        /// That task.
        task: InstanceId,
    },
    /// The machine that it leaves becomes empty.
    Empties,
}

/// How a task or job ended for good (trace v3: FINISH, FAIL, KILL).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    /// Its program exited with 0.
    Finished,
    /// It failed more often than its job allows.
    Failed,
    /// It was killed by a user, or because another job ended.
    Killed(KillReason),
}

impl Death {
    /// The transition that leads to it.
    #[must_use]
    pub fn transition(&self) -> Transition {
        match self {
            Self::Finished => Transition::Finish,
            Self::Failed => Transition::Fail,
            Self::Killed(_) => Transition::Kill,
        }
    }
}

/// Why a task was killed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KillReason {
    /// A user killed it.
    User(UserName),
    /// A user killed it without notice.
    Now(UserName),
    /// The parent of its job ended.
    ParentEnded(CollectionId),
    /// The alloc set in which its job ran ended.
    AllocSetEnded(CollectionId),
    /// A job that its job runs after ended without finishing.
    PredecessorEnded(CollectionId),
    /// A job for whose failure its job waited has finished.
    PredecessorFinished(CollectionId),
    /// The task of another job that it runs after ended without finishing.
    CounterpartEnded(TaskId),
    /// The task of another job for whose failure it waited has finished.
    CounterpartFinished(TaskId),
    /// Its job has fewer tasks now, or it stood in for a task that is up again.
    Removed,
    /// Its job has one task on every machine, and this machine was removed or no longer matches the job.
    MachineLeft(MachineName),
    /// Another task of its gang failed for good, and the gang with it.
    GangFailed {
        /// That task.
        task: TaskIndex,
    },
}

/// Why a placed task is being stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It is being killed.
    Kill(KillReason),
    /// It is being evicted, and then becomes pending again.
    Evict(EvictionCause),
}

/// Why an update failed: a task did not become healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateFailure {
    /// The task, in the incarnation that ended or is not healthy.
    pub instance: InstanceId,
    /// How it ended; `None` if it was not healthy in time.
    pub end: Option<End>,
}

/// Why an update skipped a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It would have exceeded the number of disruptions that the update may cause.
    Disruptions,
    /// The job's disruption budget allows no disruption at all.
    Budget,
}

/// Why a task is pending, in words.
impl fmt::Display for PendingCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted => f.write_str("new"),
            Self::Failed => f.write_str("failed, will be retried"),
            Self::Lost => f.write_str("was lost"),
            Self::StartLost { tries: 0 | 1 } => f.write_str("could not start, tried once"),
            Self::StartLost { tries } => write!(f, "could not start, tried {tries} times"),
            Self::Finished => f.write_str("finished, will be restarted"),
            Self::Evicted(cause) => write!(f, "evicted: {cause}"),
        }
    }
}

/// The cause, in words.
impl fmt::Display for EvictionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preempted { by } => write!(f, "preempted by {by}"),
            Self::OutOfResources => f.write_str("the machine ran out of resources"),
            Self::MachineFailure => f.write_str("machine failure"),
            Self::MachineShutdown => f.write_str("machine shutdown"),
            Self::Updated => f.write_str("update"),
            Self::Moved { why, .. } => write!(f, "moved {why}"),
            Self::GangRestarts { task } => {
                write!(f, "its gang starts again because of task {task}")
            }
            Self::Other => f.write_str("other"),
        }
    }
}

/// The reason, as the end of a sentence.
impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fits { task } => write!(f, "so that {task} fits"),
            Self::Empties => f.write_str("to empty its machine"),
        }
    }
}

/// The reason, in words.
impl fmt::Display for KillReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "by {user}"),
            Self::Now(user) => write!(f, "by {user}, without notice"),
            Self::ParentEnded(parent) => write!(f, "its parent, job {parent}, ended"),
            Self::AllocSetEnded(set) => {
                write!(f, "the alloc set that it ran in, job {set}, ended")
            }
            Self::PredecessorEnded(job) => {
                write!(f, "job {job}, which it was to run after, did not finish")
            }
            Self::PredecessorFinished(job) => {
                write!(f, "job {job}, for whose failure it waited, has finished")
            }
            Self::CounterpartEnded(task) => {
                write!(f, "task {task}, which it was to run after, did not finish")
            }
            Self::CounterpartFinished(task) => {
                write!(f, "task {task}, for whose failure it waited, has finished")
            }
            Self::Removed => f.write_str("removed: its job needs it no more"),
            Self::MachineLeft(machine) => {
                write!(f, "its machine {machine} was removed or no longer matches its job")
            }
            Self::GangFailed { task } => write!(f, "task {task} of its gang failed"),
        }
    }
}

/// The reason, in words.
impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disruptions => "the update may cause no further disruption",
            Self::Budget => "the disruption budget of its job allows no disruption",
        })
    }
}

impl StopReason {
    /// The reason as the task is told.
    #[must_use]
    pub fn notice_reason(&self) -> NoticeReason {
        match self {
            Self::Kill(_) => NoticeReason::Killed,
            Self::Evict(EvictionCause::Preempted { .. }) => NoticeReason::Preempted,
            Self::Evict(EvictionCause::MachineShutdown) => NoticeReason::MachineShutdown,
            Self::Evict(EvictionCause::Updated) => NoticeReason::Updated,
            Self::Evict(
                EvictionCause::OutOfResources
                | EvictionCause::MachineFailure
                | EvictionCause::Moved { .. }
                | EvictionCause::GangRestarts { .. }
                | EvictionCause::Other,
            ) => NoticeReason::Other,
        }
    }
}
