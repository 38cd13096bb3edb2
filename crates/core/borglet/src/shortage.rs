//! Whether the machine stays short of a resource, for the master: it then moves tasks away, and fills
//! the machine less for a while (paper, section 6.2).
//!
//! A report that changes ends the hold of a poll, so only a shortage that persists is told, and its
//! end.

use model::{Dimension, Shortage, ShortageState, Span, Time};

/// A shortage that goes on for so long is told to the master.
pub const PERSISTS_AFTER: Span = Span::from_secs(60);

/// A machine without a shortage for so long is short no more.
pub const EASED_AFTER: Span = Span::from_secs(30);

/// For so long after a shortage the machine is filled less.
pub const REMEMBERED_FOR: Span = Span::from_secs(600);

/// What is known of the shortages of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortages {
    by_dimension: [Known; Dimension::ALL.len()],
}

/// What is known of one resource. Moments are pairs: by the monotonic clock, and by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// When the present shortage began, and when the machine was last seen short.
    present: Option<(Moment, Moment)>,
    /// When the last shortage that mattered ended.
    ended: Option<Moment>,
}

/// A moment by both clocks of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the monotonic clock.
    pub now: Time,
    /// By the wall clock.
    pub wall: Time,
}

impl Known {
    fn persists(&self) -> Option<Time> {
        let (since, last) = self.present?;
        (last.now.since(since.now) >= PERSISTS_AFTER).then_some(since.wall)
    }

    fn look(&mut self, is_short: bool, at: Moment) {
        match (is_short, self.present) {
            (true, None) => self.present = Some((at, at)),
            (true, Some((since, _))) => self.present = Some((since, at)),
            (false, Some((_, last))) if at.now.since(last.now) >= EASED_AFTER => {
                if self.persists().is_some() {
                    self.ended = Some(at);
                }
                self.present = None;
            }
            (false, _) => {}
        }
        self.ended = self.ended.filter(|ended| at.now.since(ended.now) < REMEMBERED_FOR);
    }

    fn state(&self) -> Option<ShortageState> {
        match (self.persists(), self.ended) {
            (Some(since), _) => Some(ShortageState::Persists { since }),
            (None, Some(ended)) => Some(ShortageState::Eased { since: ended.wall }),
            (None, None) => None,
        }
    }
}

impl Shortages {
    /// Of which resources the machine is short at a moment. Called about once a second.
    pub fn look(&mut self, is_short: impl Fn(Dimension) -> bool, at: Moment) {
        for (known, dimension) in self.by_dimension.iter_mut().zip(Dimension::ALL) {
            known.look(is_short(dimension), at);
        }
    }

    /// A task was evicted because the machine was short of a resource. That helped, and what was
    /// evicted must not come back at once.
    pub fn evicted(&mut self, dimension: Dimension, at: Moment) {
        let all = self.by_dimension.iter_mut().zip(Dimension::ALL);
        for (known, _) in all.filter(|(_, of)| *of == dimension) {
            known.ended = Some(at);
        }
    }

    /// What the master is told: a shortage that persists before one that is over.
    #[must_use]
    pub fn told(&self) -> Option<Shortage> {
        let all = self.by_dimension.iter().zip(Dimension::ALL);
        let told = all.filter_map(|(known, dimension)| {
            known.state().map(|state| Shortage { dimension, state })
        });
        told.min_by_key(|shortage| !shortage.persists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Dimension::{Cpu, Ram};

    const WALL: u64 = 1_600_000_000;

    fn at(second: u64) -> Moment {
        let micros = |second: u64| Time(second * 1_000_000);
        Moment { now: micros(second), wall: micros(WALL + second) }
    }

    /// What is told after each second in which it changes, if the machine is short of `dimension` in
    /// these spans of seconds; `+` while it persists, `-` when it is over, with when that began.
    fn told(
        dimension: Dimension,
        short: &[std::ops::Range<u64>],
        until: u64,
    ) -> Vec<(u64, String)> {
        let (mut shortages, mut before, mut all) = (Shortages::default(), None, Vec::new());
        for second in 0..until {
            let is_short = short.iter().any(|span| span.contains(&second));
            shortages.look(|of| of == dimension && is_short, at(second));
            let now = shortages.told();
            if now != before {
                let words = now.map_or("none".to_owned(), |shortage| match shortage.state {
                    ShortageState::Persists { since } => format!("+{}", since.0 / 1_000_000 - WALL),
                    ShortageState::Eased { since } => format!("-{}", since.0 / 1_000_000 - WALL),
                });
                all.push((second, words));
            }
            before = now;
        }
        all
    }

    fn words(told: &[(u64, &str)]) -> Vec<(u64, String)> {
        told.iter().map(|(second, words)| (*second, (*words).to_owned())).collect()
    }

    #[test]
    fn only_a_shortage_that_persists_is_told_and_remembered_for_a_while() {
        // A short one is the Borglet's own affair.
        assert_eq!(told(Cpu, &[10..70], 1_000), []);
        let once = words(&[(70, "+10"), (109, "-109"), (709, "none")]);
        assert_eq!(told(Cpu, &[10..80], 1_000), once);
        // With gaps it is still one shortage, if they are not long.
        assert_eq!(told(Cpu, &[10..30, 50..80], 1_000), once);
        assert_eq!(told(Cpu, &[10..40, 69..100], 200), words(&[(70, "+10"), (129, "-129")]));
        assert_eq!(told(Cpu, &[10..40, 70..100], 1_000), []);
        // It comes back while it is remembered.
        let again = [(70, "+10"), (109, "-109"), (260, "+200"), (299, "-299"), (899, "none")];
        assert_eq!(told(Ram, &[10..80, 200..270], 1_000), words(&again));
    }

    #[test]
    fn an_eviction_is_remembered_at_once_and_what_persists_is_told_first() {
        let mut shortages = Shortages::default();
        shortages.evicted(Ram, at(5));
        let ram = Shortage { dimension: Ram, state: ShortageState::Eased { since: at(5).wall } };
        assert_eq!(shortages.told(), Some(ram));
        for second in 5..=65 {
            shortages.look(|dimension| dimension == Cpu, at(second));
        }
        let state = ShortageState::Persists { since: at(5).wall };
        assert_eq!(shortages.told(), Some(Shortage { dimension: Cpu, state }));
    }
}
