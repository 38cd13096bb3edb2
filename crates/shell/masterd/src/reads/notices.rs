//! The shares of notices that were delivered in full.

use api::v1;
use cell::Notices;
use model::{NoticeDelivery, NoticeReason};

/// By reason, where a notice was due.
pub(crate) fn shares(notices: &Notices) -> Vec<v1::NoticeShare> {
    let share = |reason: NoticeReason| v1::NoticeShare {
        reason: reason.name().to_owned(),
        full: notices.get(reason, NoticeDelivery::Full),
        partial: notices.get(reason, NoticeDelivery::Partial),
        none: notices.get(reason, NoticeDelivery::NotGiven),
    };
    let due = |share: &v1::NoticeShare| share.full + share.partial + share.none > 0;
    NoticeReason::ALL.into_iter().map(share).filter(due).collect()
}
