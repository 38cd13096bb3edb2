//! What waits in the queue.

use std::cmp::Reverse;

use model::{CollectionId, Resources, Span, Time, UserName};
use thiserror::Error;

/// How long a task runs, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// It is ended after that time.
    Bounded(Span),
    /// Its job says so.
    Expected(Span),
    /// Earlier jobs of that user and name took so long.
    Earlier(Span),
    /// Nothing is known: the queue assumes something.
    Unknown,
}

impl Runtime {
    /// The time itself, or what is assumed.
    #[must_use]
    pub fn or(self, assumed: Span) -> Span {
        match self {
            Self::Bounded(span) | Self::Expected(span) | Self::Earlier(span) => span,
            Self::Unknown => assumed,
        }
    }
}

/// A job whose tasks wait, all with the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    /// Its id.
    pub id: CollectionId,
    /// Whose share it counts to.
    pub user: UserName,
    /// Jobs of a user with a higher priority are ahead.
    pub priority: u16,
    /// Since when it waits: of equal priority, the earlier one is ahead. A job that was preempted and is queued again
    /// has its first moment, and so its old place.
    pub since: Time,
    /// The number of tasks that wait.
    pub tasks: u32,
    /// What each task requests.
    pub request: Resources,
    /// Whether all tasks are enabled at once or none is.
    pub gang: bool,
    /// How many of its tasks may be enabled at once.
    pub at_once: Option<u32>,
    /// How long its tasks run.
    pub runtime: Runtime,
}

impl QueuedJob {
    /// The number of tasks that are enabled together.
    #[must_use]
    pub fn together(&self) -> u32 {
        if self.gang { self.tasks } else { 1 }
    }

    pub(crate) fn place(&self) -> PlaceInQueue {
        (Reverse(self.priority), self.since, self.id)
    }

    /// What is needed to enable the next tasks.
    #[must_use]
    pub fn needs(&self) -> Resources {
        self.request.times(self.together().into())
    }
}

/// A job's place among those of its user.
pub(crate) type PlaceInQueue = (Reverse<u16>, Time, CollectionId);

/// A job cannot wait in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadJob {
    /// It has no tasks.
    #[error("it has no tasks that could wait")]
    NoTasks,
    /// It waits already, or its tasks run.
    #[error("job {0} is in the queue already")]
    Twice(CollectionId),
    /// Even alone it would never fit.
    #[error("its next tasks need {needs}, and all machines together have {capacity}")]
    TooLarge {
        /// What it needs at once.
        needs: Resources,
        /// What there is when nothing else runs.
        capacity: Resources,
    },
    /// All tasks at once, and not all at once.
    #[error(
        "it is a gang of {tasks} tasks of which {at_once} may run at once: no gang could start"
    )]
    ThrottledGang {
        /// Its tasks.
        tasks: u32,
        /// The bound.
        at_once: u32,
    },
    /// A bound of zero tasks at once.
    #[error("none of its tasks may run: at least one at once is needed")]
    NoneAtOnce,
}
