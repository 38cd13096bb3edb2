//! Whether the machine stays short of a resource, for the master: it then moves tasks away, and fills
//! the machine less for a while (paper, section 6.2).
//!
//! A report that changes ends the hold of a poll, so it has only a shortage that persists, and its
//! end.

use model::{Dimension, Shortage, ShortageState, Span, Time};

/// A shortage that goes on for so long is reported to the master.
pub const PERSISTS_AFTER: Span = Span::from_secs(60);

/// A pause of so long interrupts a shortage that has not been reported yet.
pub const INTERRUPTED_AFTER: Span = Span::from_secs(5);

/// A machine without a shortage for so long is short no more.
pub const EASED_AFTER: Span = Span::from_secs(30);

/// For so long after a shortage the machine is filled less.
pub const REMEMBERED_FOR: Span = Span::from_secs(600);

/// What is known of the shortages of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortages {
    by_dimension: [Known; Dimension::ALL.len()],
}

/// What is known of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// When the present shortage began, and when the machine was last seen short.
    present: Option<(Time, Time)>,
    /// When the last shortage that mattered ended.
    ended: Option<Time>,
}

impl Known {
    fn persists(&self) -> bool {
        self.present.is_some_and(|(since, last)| last.since(since) >= PERSISTS_AFTER)
    }

    fn look(&mut self, is_short: bool, now: Time) {
        let patience = if self.persists() { EASED_AFTER } else { INTERRUPTED_AFTER };
        if let Some((_, last)) = self.present
            && now.since(last) >= patience
        {
            if self.persists() {
                self.ended = Some(now);
            }
            self.present = None;
        }
        if is_short {
            let since = self.present.map_or(now, |(since, _)| since);
            self.present = Some((since, now));
        }
        self.ended = self.ended.filter(|ended| now.since(*ended) < REMEMBERED_FOR);
    }

    fn state(&self) -> Option<ShortageState> {
        match (self.persists(), self.ended) {
            (true, _) => Some(ShortageState::Persists),
            (false, Some(_)) => Some(ShortageState::Eased),
            (false, None) => None,
        }
    }
}

impl Shortages {
    /// Whether the machine is short of a resource now. Called every second or more often.
    pub(crate) fn look(&mut self, of: Dimension, is_short: bool, now: Time) {
        if let Some(known) = self.known(of) {
            known.look(is_short, now);
        }
    }

    /// A task was evicted because the machine was short of a resource. That helped, and what was
    /// evicted must not come back at once.
    pub(crate) fn evicted(&mut self, of: Dimension, now: Time) {
        if let Some(known) = self.known(of) {
            known.ended = Some(now);
        }
    }

    fn known(&mut self, of: Dimension) -> Option<&mut Known> {
        let mut all = self.by_dimension.iter_mut().zip(Dimension::ALL);
        all.find_map(|(known, dimension)| (dimension == of).then_some(known))
    }

    /// The shortage to report: one that persists before one that is over.
    pub(crate) fn reported(&self) -> Option<Shortage> {
        let all = self.by_dimension.iter().zip(Dimension::ALL);
        let known = all.filter_map(|(known, dimension)| {
            known.state().map(|state| Shortage { dimension, state })
        });
        known.min_by_key(|shortage| !shortage.persists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Dimension::{Cpu, Ram};
    use model::ShortageState::{Eased, Persists};

    fn at(second: u64) -> Time {
        Time(second * 1_000_000)
    }

    /// What is reported from each second in which it changes, if the machine is short of CPU in these
    /// spans of seconds.
    fn reported(short: &[(u64, u64)]) -> Vec<(u64, Option<ShortageState>)> {
        let (mut shortages, mut before, mut all) = (Shortages::default(), None, Vec::new());
        for second in 0..1_500 {
            let is_short = short.iter().any(|(from, to)| (*from..*to).contains(&second));
            shortages.look(Cpu, is_short, at(second));
            let now = shortages.reported().map(|shortage| shortage.state);
            if now != before {
                all.push((second, now));
            }
            before = now;
        }
        all
    }

    #[test]
    fn only_a_shortage_that_persists_is_reported_and_remembered_for_a_while() {
        // A short one is the Borglet's own affair, and so are many with pauses.
        assert_eq!(reported(&[(10, 70)]), []);
        assert_eq!(reported(&[(10, 15), (25, 30), (40, 45), (55, 60), (70, 75), (85, 90)]), []);
        let once = [(70, Some(Persists)), (109, Some(Eased)), (709, None)];
        assert_eq!(reported(&[(10, 80)]), once);
        // A short pause does not end it, nor does a longer one once it was reported.
        assert_eq!(reported(&[(10, 30), (33, 80)]), once);
        assert_eq!(reported(&[(10, 72), (79, 80)]), once);
        assert_eq!(reported(&[(10, 40), (43, 66)]), []);
        // It comes back while it is remembered.
        let again = [
            (70, Some(Persists)),
            (109, Some(Eased)),
            (260, Some(Persists)),
            (299, Some(Eased)),
            (899, None),
        ];
        assert_eq!(reported(&[(10, 80), (200, 270)]), again);
    }

    #[test]
    fn an_eviction_is_remembered_at_once_and_what_persists_is_reported_first() {
        let mut shortages = Shortages::default();
        shortages.evicted(Ram, at(5));
        assert_eq!(shortages.reported(), Some(Shortage { dimension: Ram, state: Eased }));
        for second in 5..=65 {
            shortages.look(Cpu, true, at(second));
            shortages.look(Ram, false, at(second));
        }
        assert_eq!(shortages.reported(), Some(Shortage { dimension: Cpu, state: Persists }));
        shortages.look(Cpu, false, at(65 + 30));
        shortages.look(Ram, false, at(5 + 600));
        assert_eq!(shortages.reported(), Some(Shortage { dimension: Cpu, state: Eased }));
    }
}
