//! Notices: `cell.proto`.

use model::{NoticeDelivery, NoticeReason};

use crate::error::Malformed;
use crate::{read, v1};

/// The number of a reason.
#[must_use]
pub fn reason_number(reason: NoticeReason) -> i32 {
    let reason = match reason {
        NoticeReason::Killed => v1::NoticeReason::NoticeKilled,
        NoticeReason::Preempted => v1::NoticeReason::NoticePreempted,
        NoticeReason::MachineShutdown => v1::NoticeReason::NoticeMachineShutdown,
        NoticeReason::Updated => v1::NoticeReason::NoticeUpdated,
        NoticeReason::Unhealthy => v1::NoticeReason::NoticeUnhealthy,
        NoticeReason::OverRuntime => v1::NoticeReason::NoticeOverRuntime,
        NoticeReason::Other => v1::NoticeReason::NoticeOther,
    };
    reason.into()
}

/// A reason, by its number.
///
/// # Errors
/// If this build does not know it.
pub fn reason(number: i32) -> Result<NoticeReason, Malformed> {
    let meaning = |reason| match reason {
        v1::NoticeReason::Unspecified => None,
        v1::NoticeReason::NoticeKilled => Some(NoticeReason::Killed),
        v1::NoticeReason::NoticePreempted => Some(NoticeReason::Preempted),
        v1::NoticeReason::NoticeMachineShutdown => Some(NoticeReason::MachineShutdown),
        v1::NoticeReason::NoticeUpdated => Some(NoticeReason::Updated),
        v1::NoticeReason::NoticeUnhealthy => Some(NoticeReason::Unhealthy),
        v1::NoticeReason::NoticeOverRuntime => Some(NoticeReason::OverRuntime),
        v1::NoticeReason::NoticeOther => Some(NoticeReason::Other),
    };
    read::value(number, meaning, "reason")
}

/// The number of a delivery.
#[must_use]
pub fn delivery_number(delivery: NoticeDelivery) -> i32 {
    let delivery = match delivery {
        NoticeDelivery::Full => v1::NoticeDelivery::NoticeInFull,
        NoticeDelivery::Partial => v1::NoticeDelivery::NoticeInPart,
        NoticeDelivery::NotGiven => v1::NoticeDelivery::NoticeNotGiven,
    };
    delivery.into()
}

/// A delivery, by its number.
///
/// # Errors
/// If this build does not know it.
pub fn delivery(number: i32) -> Result<NoticeDelivery, Malformed> {
    let meaning = |delivery| match delivery {
        v1::NoticeDelivery::Unspecified => None,
        v1::NoticeDelivery::NoticeInFull => Some(NoticeDelivery::Full),
        v1::NoticeDelivery::NoticeInPart => Some(NoticeDelivery::Partial),
        v1::NoticeDelivery::NoticeNotGiven => Some(NoticeDelivery::NotGiven),
    };
    read::value(number, meaning, "notice")
}
