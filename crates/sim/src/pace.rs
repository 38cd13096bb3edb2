//! How much happened in each second of a world: what is bounded by the second is looked up here.

use model::Span;

/// Something that is counted by the second of a world's age.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    seconds: Vec<u32>,
}

/// Seconds beyond this are not told apart: a world of a year is none that is watched so closely.
const SECONDS_MAX: usize = 366 * 86_400;

impl Pace {
    /// It happened once more, at that age.
    pub(crate) fn count(&mut self, age: Span) {
        let second = second(age).min(SECONDS_MAX);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] = self.seconds[second].saturating_add(1);
    }

    /// The most in any second that begins between two ages, the second of them not included.
    pub(crate) fn busiest(&self, from: Span, to: Span) -> u64 {
        self.between(from, to).iter().max().copied().unwrap_or(0).into()
    }

    /// All in the seconds that begin between two ages.
    pub(crate) fn all(&self, from: Span, to: Span) -> u64 {
        self.between(from, to).iter().map(|count| u64::from(*count)).sum()
    }

    fn between(&self, from: Span, to: Span) -> &[u32] {
        let end = second(to).min(self.seconds.len());
        self.seconds.get(second(from)..end).unwrap_or_default()
    }
}

fn second(age: Span) -> usize {
    usize::try_from(age.as_millis() / 1_000).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_second() {
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
}
