//! Moments and spans, in microseconds as in the published traces (trace v3, "time").

use std::fmt;
use std::ops::{Add, Sub};

/// A moment: microseconds since the start of 1970, UTC. What decides never reads a clock: a moment
/// is always an argument, and the one who leads the cell stamps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span between moments, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The start of 1970: before everything.
    pub const ZERO: Self = Self(0);

    /// How long after `earlier` this is; nothing where it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole milliseconds.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000))
    }

    /// A span of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// The standard library's form of it.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }

    /// A multiple of it, as long as a span can be at most.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Add<Span> for Time {
    type Output = Self;

    /// Saturates at the end of time.
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;

    /// Saturates at the start of 1970.
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Two units at most, the way a person would say it: `80 ms`, `1.1 s`, `4 m 10 s`, `3 d 2 h`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, s) = (self.0 / 1_000, self.0 / 1_000_000);
        match s {
            0 if ms == 0 => write!(f, "{} µs", self.0),
            0 => write!(f, "{ms} ms"),
            1..60 => {
                let tenths = self.0 / 100_000;
                match tenths % 10 {
                    0 => write!(f, "{s} s"),
                    tenth => write!(f, "{s}.{tenth} s"),
                }
            }
            60..3_600 => two(f, s / 60, "m", s % 60, "s"),
            3_600..86_400 => two(f, s / 3_600, "h", s % 3_600 / 60, "m"),
            _ => two(f, s / 86_400, "d", s % 86_400 / 3_600, "h"),
        }
    }
}

fn two(
    f: &mut fmt::Formatter<'_>,
    big: u64,
    unit: &str,
    small: u64,
    small_unit: &str,
) -> fmt::Result {
    match small {
        0 => write!(f, "{big} {unit}"),
        _ => write!(f, "{big} {unit} {small} {small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_a_person_would_say_them() {
        let cases = [
            (0, "0 µs"),
            (999, "999 µs"),
            (80_000, "80 ms"),
            (1_000_000, "1 s"),
            (1_100_000, "1.1 s"),
            (59_999_999, "59.9 s"),
            (60_000_000, "1 m"),
            (250_000_000, "4 m 10 s"),
            (3_600_000_000, "1 h"),
            (266_400_000_000, "3 d 2 h"),
        ];
        for (micros, text) in cases {
            assert_eq!(Span(micros).to_string(), text);
        }
    }

    #[test]
    fn clocks_that_jump_back_give_no_negative_span() {
        assert_eq!(Time(5).since(Time(9)), Span::ZERO);
        assert_eq!(Time(u64::MAX) + Span(1), Time(u64::MAX));
    }
}
