//! Where the time of a task's start went (paper, section 3.4: the median is 25 s, of which packages take 80 %).

use std::fmt;

use crate::Span;

/// A part of a task's start, in the order in which they follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartPart {
    /// It waited, and could have been placed, until the scheduler's pass that placed it began.
    Queue,
    /// From there until it had a machine.
    Decide,
    /// Its machine fetched its packages and its image; zero if they were there.
    Fetch,
    /// Everything else that its machine did until its program ran: from the order, without the fetch.
    Start,
    /// From there until its health check succeeded for the first time.
    Healthy,
}

impl StartPart {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Decide, Self::Fetch, Self::Start, Self::Healthy];

    /// Its name in words, metrics and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Decide => "decide",
            Self::Fetch => "fetch",
            Self::Start => "start",
            Self::Healthy => "healthy",
        }
    }
}

/// The parts of a task's start, each in whole milliseconds, as far as they are known. It is small,
/// because every task on a machine has one: a part of more than 49 days counts as that long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartLatency {
    /// Milliseconds plus one; zero if the part is not known (yet).
    parts: [u32; StartPart::ALL.len()],
}

impl StartLatency {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { parts: [0; StartPart::ALL.len()] };

    /// The same with this part, rounded down to milliseconds.
    #[must_use]
    pub fn with(mut self, part: StartPart, took: Span) -> Self {
        let milliseconds = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        if let Some(own) = self.parts.get_mut(part as usize) {
            *own = milliseconds.saturating_add(1);
        }
        self
    }

    /// The same with this part as another one has it, if that knows it.
    #[must_use]
    pub fn with_part_of(self, part: StartPart, other: Self) -> Self {
        other.part(part).map_or(self, |took| self.with(part, took))
    }

    /// How long a part took; `None` if that is not known.
    #[must_use]
    pub fn part(self, part: StartPart) -> Option<Span> {
        let stored = self.parts.get(part as usize).copied().unwrap_or_default();
        stored.checked_sub(1).map(|milliseconds| Span::from_millis(milliseconds.into()))
    }

    /// The parts that are known, in order.
    pub fn known(self) -> impl Iterator<Item = (StartPart, Span)> {
        StartPart::ALL.into_iter().filter_map(move |part| Some((part, self.part(part)?)))
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        self == Self::UNKNOWN
    }

    /// The sum of the parts that are known.
    #[must_use]
    pub fn total(self) -> Span {
        self.known().fold(Span::ZERO, |sum, (_, took)| sum + took)
    }
}

/// The parts that are known: `queue 12 s, decide 3 ms, fetch 20 s, start 80 ms`.
impl fmt::Display for StartLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (part, took)) in self.known().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{} {took}", part.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_or_not_and_bounded() {
        let nothing = StartLatency::default();
        assert!(nothing.is_unknown() && nothing.to_string().is_empty());
        assert_eq!(nothing.total(), Span::ZERO);

        let cases = [
            (Span::ZERO, Span::ZERO),
            (Span(999), Span::ZERO),
            (Span(1_999), Span::from_millis(1)),
            (Span::from_secs(25), Span::from_secs(25)),
            (Span(u64::MAX), Span::from_millis(u64::from(u32::MAX) - 1)),
        ];
        for (took, kept) in cases {
            for part in StartPart::ALL {
                let latency = nothing.with(part, took);
                assert_eq!(latency.part(part), Some(kept), "{part:?} of {took:?}");
                assert_eq!(latency.known().collect::<Vec<_>>(), [(part, kept)]);
                assert_eq!(nothing.with_part_of(part, latency), latency);
                assert_eq!(latency.with_part_of(part, nothing), latency);
            }
        }

        let known = nothing
            .with(StartPart::Start, Span::from_millis(80))
            .with(StartPart::Fetch, Span::from_secs(20));
        assert_eq!(known.to_string(), "fetch 20 s, start 80 ms");
        assert_eq!(known.total(), Span::from_millis(20_080));
    }
}
