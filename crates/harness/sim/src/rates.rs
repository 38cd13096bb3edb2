//! Event rates per second of a world, and intervals between polls of a machine: the basis of
//! assertions about bounds.

use model::{Span, Time};

/// A count per second of a world's age.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    seconds: Vec<u32>,
}

/// Maximum number of seconds that are distinguished: about a year.
const SECONDS_MAX: usize = 366 * 86_400;

impl Pace {
    /// Counts one event at that age.
    pub(crate) fn count(&mut self, age: Span) {
        let second = second(age).min(SECONDS_MAX);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] = self.seconds[second].saturating_add(1);
    }

    /// The maximum count of any second that begins in the half-open range of ages.
    pub(crate) fn busiest(&self, from: Span, to: Span) -> u64 {
        self.between(from, to).iter().max().copied().unwrap_or(0).into()
    }

    /// The sum over the seconds that begin in the half-open range of ages.
    pub(crate) fn all(&self, from: Span, to: Span) -> u64 {
        self.between(from, to).iter().map(|count| u64::from(*count)).sum()
    }

    fn between(&self, from: Span, to: Span) -> &[u32] {
        let end = second(to).min(self.seconds.len());
        self.seconds.get(second(from)..end).unwrap_or_default()
    }
}

/// The intervals between two polls of the same machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    /// When each machine was last polled.
    last: Vec<Option<Time>>,
    /// Number of intervals by length in steps.
    counts: Vec<u64>,
}

/// The resolution of intervals.
const STEP: Span = Span::from_millis(10);
/// Maximum length in steps; longer intervals count as this.
const STEPS_MAX: u64 = 10_000;

impl Intervals {
    /// Records a poll of a machine.
    pub(crate) fn count(&mut self, machine: usize, now: Time) {
        if self.last.len() <= machine {
            self.last.resize(machine + 1, None);
        }
        let Some(before) = self.last[machine].replace(now) else { return };
        let steps = now.since(before).0.div_ceil(STEP.0).min(STEPS_MAX);
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        if self.counts.len() <= steps {
            self.counts.resize(steps + 1, 0);
        }
        self.counts[steps] += 1;
    }

    /// The percentile of the intervals; zero if there are none.
    pub(crate) fn at(&self, percent: u64) -> Span {
        let wanted = (self.counts.iter().sum::<u64>() * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        STEP.saturating_mul(found.unwrap_or(0) as u64)
    }
}

fn second(age: Span) -> usize {
    usize::try_from(age.as_millis() / 1_000).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_counts_events_per_second() {
        let mut pace = Pace::default();
        for milliseconds in [0, 999, 1_000, 3_100, 3_200, 3_999] {
            pace.count(Span::from_millis(milliseconds));
        }
        for (from, to, busiest, all) in
            [(0, 9, 3, 6), (0, 3, 2, 3), (1, 2, 1, 1), (2, 3, 0, 0), (4, 9, 0, 0), (9, 4, 0, 0)]
        {
            let (from, to) = (Span::from_secs(from), Span::from_secs(to));
            assert_eq!((pace.busiest(from, to), pace.all(from, to)), (busiest, all), "{from} {to}");
        }
    }

    #[test]
    fn intervals_are_each_machines_own() {
        let mut intervals = Intervals::default();
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        assert_eq!(intervals.at(95), Span::ZERO, "none was polled twice");
        for (machine, ms) in [(7, 0), (0, 500), (7, 2_000), (0, 2_500), (7, 4_001), (7, 9_999_999)]
        {
            intervals.count(machine, at(ms));
        }
        let found = [50, 75, 100].map(|percent| intervals.at(percent));
        let longest = STEP.saturating_mul(STEPS_MAX);
        assert_eq!(found, [Span::from_secs(2), Span::from_millis(2_010), longest]);
    }
}
