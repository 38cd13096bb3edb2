//! Counts of notices in the head of an image.

use api::{At, Fault, Malformed, notice};
use cell::Notices;

use crate::v1;
use v1::image_head::{self, NoticeCount};

/// `None` if no notice was due yet.
pub(super) fn counts(notices: &Notices) -> Option<image_head::Notices> {
    let count = |(reason, delivery, count)| NoticeCount {
        reason: notice::reason_number(reason),
        delivery: notice::delivery_number(delivery),
        count,
    };
    let counts: Vec<_> = notices.iter().map(count).collect();
    (!counts.is_empty()).then_some(image_head::Notices { counts })
}

pub(super) fn notices_of(said: Option<&image_head::Notices>) -> Result<Notices, Malformed> {
    let mut notices = Notices::default();
    let counts = said.map(|said| said.counts.as_slice()).unwrap_or_default();
    for (position, said) in counts.iter().enumerate() {
        let read = || {
            let delivery = notice::delivery(said.delivery)?;
            let reason = notice::reason(said.reason)?;
            match notices.get(reason, delivery) {
                0 => Ok((reason, delivery)),
                _ => Err(Malformed::from(Fault::Twice)),
            }
        };
        let (reason, delivery) = read().element(position).field("notices")?;
        notices.add(reason, delivery, said.count);
    }
    Ok(notices)
}
