//! Notices: what a task is told before it is killed, and whether it had the time that it was
//! promised.

use model::{InstanceId, NoticeDelivery, Span, Time};

use super::{Borglet, Phase};
use crate::{Notice, Stop};

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
    Due { deadline: Time },
    /// It is known how much it had.
    Delivered(NoticeDelivery),
    /// Its program did not run yet when its time began.
    NotRunning,
}

impl GivenNotice {
    /// It is ended without notice.
    pub(super) fn none_due() -> Self {
        Self::NoneDue
    }

    /// It has time until its deadline, if its program runs.
    pub(super) fn due(deadline: Time, runs: bool) -> Self {
        if runs { Self::Due { deadline } } else { Self::NotRunning }
    }

    /// Its program runs only now, so it has less time than it was promised.
    pub(super) fn started(&mut self) {
        if let Self::NotRunning = self {
            *self = Self::Delivered(NoticeDelivery::Partial);
        }
    }

    /// It is killed now.
    pub(super) fn killed(&mut self, now: Time) {
        if let Self::Due { deadline } = *self {
            let full = deadline <= now;
            let delivery = if full { NoticeDelivery::Full } else { NoticeDelivery::Partial };
            *self = Self::Delivered(delivery);
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
            Self::NoneDue | Self::NotRunning => None,
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
