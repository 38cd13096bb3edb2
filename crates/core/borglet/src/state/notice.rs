//! Notices: what a task is told before it is killed, and whether it had the time that it was
//! promised.

use model::{InstanceId, NoticeDelivery, Span, Time};
use poll::{Notice, Stop};

use super::{Borglet, Phase};

/// The notice of a task: as long as its description says, or shorter if the order says so.
pub(super) fn of(own: Span, stop: Option<Stop>) -> Notice {
    let Some(Stop { reason, cause, notice_max, .. }) = stop else {
        return Notice { reason: model::NoticeReason::Other, cause: String::new(), length: own };
    };
    Notice { reason, cause, length: notice_max.map_or(own, |most| own.min(most)) }
}

/// What became of the notice of a task that is being stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum GivenNotice {
    /// Its program has never run, or it is ended without notice: there is nobody to tell.
    NoneDue,
    /// It has time until its deadline.
    Due { begun: Time, deadline: Time },
    /// It is known how much it had.
    Delivered(NoticeDelivery),
    /// Its program did not run yet when its time began.
    NotRunning { begun: Time },
    /// Its program began to run after its time did.
    Late { begun: Time },
}

impl GivenNotice {
    /// It is ended without notice.
    pub(super) fn none_due() -> Self {
        Self::NoneDue
    }

    /// It has time from now until its deadline, if its program runs.
    pub(super) fn due(begun: Time, deadline: Time, runs: bool) -> Self {
        if runs { Self::Due { begun, deadline } } else { Self::NotRunning { begun } }
    }

    /// Its program runs only now, so it has less time than it was promised.
    pub(super) fn started(&mut self) {
        if let Self::NotRunning { begun } = *self {
            *self = Self::Late { begun };
        }
    }

    /// It is killed now.
    pub(super) fn killed(&mut self, now: Time) {
        *self = match *self {
            Self::Due { deadline, .. } if deadline <= now => Self::Delivered(NoticeDelivery::Full),
            Self::Due { .. } | Self::Late { .. } => Self::Delivered(NoticeDelivery::Partial),
            other => other,
        };
    }

    /// Its notice lasts at most so long. The new deadline, if it has one.
    pub(super) fn shorten(&mut self, most: Span) -> Option<Time> {
        match self {
            Self::Due { begun, deadline } => {
                *deadline = (*deadline).min(*begun + most);
                Some(*deadline)
            }
            Self::NotRunning { begun } | Self::Late { begun } => Some(*begun + most),
            Self::NoneDue | Self::Delivered(_) => None,
        }
    }

    /// It could not be told.
    fn failed(&mut self) {
        if !matches!(self, Self::NoneDue) {
            *self = Self::Delivered(NoticeDelivery::NotGiven);
        }
    }

    /// Whether the task, which has ended, had its notice; none if none was due.
    pub(super) fn delivery(self) -> Option<NoticeDelivery> {
        match self {
            Self::NoneDue | Self::NotRunning { .. } => None,
            Self::Late { .. } => Some(NoticeDelivery::Partial),
            // It ended by itself.
            Self::Due { .. } => Some(NoticeDelivery::Full),
            Self::Delivered(delivery) => Some(delivery),
        }
    }
}

impl Borglet {
    pub(super) fn notice_failed(&mut self, instance: InstanceId) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        if let Phase::Stopping { notice, .. } = &mut local.phase {
            notice.failed();
        }
    }
}
