//! How many of the tasks that were stopped had their notice (paper, section 2.3), by reason.

use model::{End, FinalUsage, NoticeDelivery, NoticeReason};

use super::{Phase, Placement};

/// Counts of notices since the cell was bootstrapped, by reason and delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notices([[u64; NoticeDelivery::ALL.len()]; NoticeReason::ALL.len()]);

impl Notices {
    /// The count of a reason and a delivery.
    #[must_use]
    pub fn get(&self, reason: NoticeReason, delivery: NoticeDelivery) -> u64 {
        let (reason, delivery) = place(reason, delivery);
        self.0.get(reason).and_then(|row| row.get(delivery)).copied().unwrap_or_default()
    }

    /// Counts more notices.
    pub fn add(&mut self, reason: NoticeReason, delivery: NoticeDelivery, more: u64) {
        let (reason, delivery) = place(reason, delivery);
        if let Some(count) = self.0.get_mut(reason).and_then(|row| row.get_mut(delivery)) {
            *count = count.saturating_add(more);
        }
    }

    /// Every count above 0.
    pub fn iter(&self) -> impl Iterator<Item = (NoticeReason, NoticeDelivery, u64)> {
        let all = NoticeReason::ALL.into_iter().flat_map(|reason| {
            NoticeDelivery::ALL.into_iter().map(move |delivery| (reason, delivery))
        });
        all.map(|(reason, delivery)| (reason, delivery, self.get(reason, delivery)))
            .filter(|(.., count)| *count > 0)
    }

    /// Counts the notice of a task that leaves its machine, if it was due one.
    pub(crate) fn count(&mut self, placement: &Placement, end: &End, usage: FinalUsage) {
        let (Some(why), Phase::Started { .. }) = (placement.stop.as_deref(), placement.phase)
        else {
            return;
        };
        let delivery = match (usage.notice, end) {
            (Some(delivery), _) => delivery,
            // Its machine cannot tell.
            (None, End::Stopped | End::Lost { .. }) => NoticeDelivery::NotGiven,
            // It ended before its machine was told to stop it.
            (None, _) => return,
        };
        self.add(why.notice_reason(), delivery, 1);
    }
}

fn place(reason: NoticeReason, delivery: NoticeDelivery) -> (usize, usize) {
    let reason = NoticeReason::ALL.iter().position(|other| *other == reason);
    let delivery = NoticeDelivery::ALL.iter().position(|other| *other == delivery);
    (reason.unwrap_or(usize::MAX), delivery.unwrap_or(usize::MAX))
}
