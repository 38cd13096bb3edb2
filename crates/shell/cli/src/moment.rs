//! Moments on the command line: a log index (`88412`), a time (`2026-11-19 03:10`, UTC unless an
//! offset is given), or an age (`10m`).

use std::str::FromStr;

use model::{Span, Time};
use process::arguments::duration;
use process::clock::wall_clock;
pub(crate) use process::moment::{Moment, read_time, shown};

/// A future or past time: absolute, or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When(pub(crate) Time);

impl When {
    fn parse(text: &str, now: Time) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(wait) = duration(text) {
            return Ok(Self(now + Span(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))));
        }
        let at = read_time(text).ok_or_else(|| {
            format!(
                "'{}' is not a time: use one such as 2026-12-01 00:00, in UTC, or a delay \
                 such as 2h",
                text.escape_debug()
            )
        })?;
        at.map(Self)
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, wall_clock())
    }
}

/// A past time from which on something is shown: absolute, or an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(pub(crate) Time);

impl Since {
    fn parse(text: &str, now: Time) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(ago) = duration(text) {
            return Ok(Self(now - Span(u64::try_from(ago.as_micros()).unwrap_or(u64::MAX))));
        }
        let at = read_time(text).ok_or_else(|| {
            format!(
                "'{}' is not a time: use an age such as 1h, or a time such as 2026-11-19 03:10, \
                 in UTC",
                text.escape_debug()
            )
        })?;
        at.map(Self)
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, wall_clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = Time(1_700_000_000_000_000);
        assert_eq!(When::parse("2h", now), Ok(When(now + Span::from_secs(7_200))));
        assert_eq!(When::parse("1970-01-02 00:00", now), Ok(When(Time(86_400_000_000))));
        assert!(When::parse("soon", now).is_err());
        assert_eq!(Since::parse("2h", now), Ok(Since(now - Span::from_secs(7_200))));
        assert_eq!(Since::parse("1970-01-02 00:00", now), Ok(Since(Time(86_400_000_000))));
        assert!(Since::parse("88412x", now).is_err());
    }
}
