//! The changes of a round: which matter, and which come first if they are too many.

use std::num::NonZeroUsize;

use model::{InstanceId, Permille, Resources, Time};

use crate::estimate::Estimate;

/// A changed reservation, to be recorded in the log, with what another replica needs to continue:
/// [`Estimate::new`] takes it back. The start of the task is in the cell's state already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationChange {
    /// The task.
    pub instance: InstanceId,
    /// Its reservation from now on.
    pub reservation: Resources,
    /// The time of the newest sample in it; none if there was no sample yet.
    pub newest_sample: Option<Time>,
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// A resource rises. It comes first: until it is recorded, too much may be placed on the machine.
    Rise,
    /// Resources fall, and none rises.
    Fall,
}

/// Whether a change of the reservation in force matters. It does if
/// - the usage exceeds it, or it is below the limit and should be the limit, however little is missing;
/// - CPU or RAM differ by the share `change_min` of the limit.
pub(crate) fn direction(
    estimate: &Estimate,
    before: &Resources,
    limit: &Resources,
    change_min: Permille,
) -> Option<Direction> {
    let before = before.least(*limit);
    let after = estimate.reservation(limit);
    if after == before {
        return None;
    }
    // Of disk space and bandwidth only a reservation made before the limit rose can be below it.
    let kept = before.disk != limit.disk || before.disk_rate != limit.disk_rate;
    let back = |before: u64, after: u64, limit: u64| before < after && after == limit;
    let matters = |from: u64, to: u64, limit: u64| {
        let min = u128::from(limit) * u128::from(change_min.thousandths());
        to > from && u128::from(to - from) * 1_000 >= min
    };
    let amounts =
        [(before.cpu.0, after.cpu.0, limit.cpu.0), (before.ram.0, after.ram.0, limit.ram.0)];
    let rises = amounts
        .into_iter()
        .any(|(before, after, limit)| back(before, after, limit) || matters(before, after, limit));
    if rises || kept || estimate.exceeds(&before, limit) {
        return Some(Direction::Rise);
    }
    let falls = amounts.into_iter().any(|(before, after, limit)| matters(after, before, limit));
    falls.then_some(Direction::Fall)
}

/// The changes of one round, at most so many as a batch may have. Rises come before falls. Among
/// equals, those begin that come after the last one of the previous batch, so none waits forever.
#[derive(Debug)]
pub(crate) struct Batch {
    changes_max: usize,
    /// For rises and for falls: those after the last one, and those up to it.
    waiting: [[Vec<ReservationChange>; 2]; 2],
    /// The last rise and the last fall of a batch that had no room for all.
    last: [Option<InstanceId>; 2],
    /// The number of changes in this round.
    offered: usize,
    chosen: Vec<ReservationChange>,
}

impl Batch {
    pub(crate) fn new(changes_max: NonZeroUsize) -> Self {
        Self {
            changes_max: changes_max.get(),
            waiting: [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]],
            last: [None, None],
            offered: 0,
            chosen: Vec::new(),
        }
    }

    /// Begins a round.
    pub(crate) fn clear(&mut self) {
        self.waiting.iter_mut().flatten().for_each(Vec::clear);
        self.offered = 0;
        self.chosen.clear();
    }

    /// A change that matters.
    pub(crate) fn offer(&mut self, direction: Direction, change: ReservationChange) {
        self.offered = self.offered.saturating_add(1);
        let class = direction as usize;
        let again = self.last[class].is_some_and(|last| change.instance <= last);
        let waiting = &mut self.waiting[class][usize::from(again)];
        if waiting.len() < self.changes_max {
            waiting.push(change);
        }
    }

    /// Ends a round: the changes of the batch, and how many are left for the next ones.
    pub(crate) fn choose(&mut self) -> (&[ReservationChange], usize) {
        for (class, waiting) in self.waiting.iter().enumerate() {
            for change in waiting.iter().flatten() {
                if self.chosen.len() == self.changes_max {
                    break;
                }
                self.chosen.push(*change);
                self.last[class] = Some(change.instance);
            }
        }
        (&self.chosen, self.offered - self.chosen.len())
    }
}
