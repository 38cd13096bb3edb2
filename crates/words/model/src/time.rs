//! Points in time and durations, in microseconds as in the published traces (trace v3, "time").

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time: microseconds since the start of 1970, UTC. Deterministic code never reads a
/// clock: time is always an argument, and the leader stamps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The start of 1970, the minimum.
    pub const ZERO: Self = Self(0);

    /// The duration from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// The empty duration.
    pub const ZERO: Self = Self(0);

    /// A duration of whole milliseconds.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000))
    }

    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Conversion to the standard library's type.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }

    /// The product, saturating at the maximum.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    /// A value after an age, if this is its half-life: halved in each, and on a straight line between. It never rises
    /// with the age.
    #[must_use]
    pub fn halved(self, value: u64, age: Self) -> u64 {
        let half_life = self.0.max(1);
        let halvings = u32::try_from(age.0 / half_life).unwrap_or(u32::MAX);
        let whole = value.checked_shr(halvings).unwrap_or_default();
        // At most half of `whole`, so this neither overflows nor goes below zero.
        let lost = u128::from(whole) * u128::from(age.0 % half_life) / (2 * u128::from(half_life));
        whole - u64::try_from(lost).unwrap_or(whole)
    }
}

impl Add<Span> for Time {
    type Output = Self;

    /// Saturates at the maximum.
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

/// Displayed with at most two units: `80 ms`, `1.1 s`, `4 m 10 s`, `3 d 2 h`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, s) = (self.0 / 1_000, self.0 / 1_000_000);
        match s {
            0 if self.0 == 0 => f.write_str("0 s"),
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
            (0, "0 s"),
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

    #[test]
    fn a_value_halves_in_each_half_life() {
        let hour = Span::from_secs(3_600);
        let of = |minutes: u64| hour.halved(1_000, Span::from_secs(60 * minutes));
        let table = [(0, 1_000), (30, 750), (60, 500), (90, 375), (120, 250), (600, 0)];
        for (minutes, value) in table {
            assert_eq!(of(minutes), value, "after {minutes} min");
        }
        assert_eq!(Span::ZERO.halved(u64::MAX, Span(u64::MAX)), 0);
        assert_eq!(Span(u64::MAX).halved(u64::MAX, Span(1)), u64::MAX);
        let ages: Vec<u64> = (0..400).map(of).collect();
        assert!(ages.is_sorted_by(|before, after| before >= after), "{ages:?}");
    }
}
