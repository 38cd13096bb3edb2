//! Moments on the command line: a log index (`88412`), a time (`2026-11-19 03:10`, UTC unless an
//! offset is given), or an age (`10m`).

use std::str::FromStr;

use model::{Span, Time};
use process::arguments::duration;
use process::clock::wall_clock;
pub(crate) use process::moment::shown;
use proto::v1;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment in the cell's past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Right after the operation at this index.
    Index(u64),
    /// At this time.
    Time(Time),
}

impl Moment {
    /// The moment as in a request.
    pub(crate) fn message(self) -> v1::Moment {
        let at = match self {
            Self::Index(index) => v1::moment::At::Index(index),
            Self::Time(time) => v1::moment::At::Time(time.0),
        };
        v1::Moment { at: Some(at) }
    }

    fn parse(text: &str, now: Time) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(index) = text.parse() {
            return Ok(Self::Index(index));
        }
        if let Ok(ago) = duration(text) {
            let ago = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
            return Ok(Self::Time(now - Span(ago)));
        }
        let at = read_time(text).ok_or_else(|| {
            format!(
                "'{}' is not a moment: use an index (88412), a time (2026-11-19 03:10, in UTC) or \
                 an age (10m)",
                text.escape_debug()
            )
        })?;
        at.map(Self::Time)
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, wall_clock())
    }
}

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

/// Parses RFC 3339 and common abbreviations: a space instead of the T, no seconds, no offset.
/// `None` if the text is not a time; an error if it is before 1970.
fn read_time(text: &str) -> Option<Result<Time, String>> {
    let at = text.replacen(' ', "T", 1);
    let (date, clock) = at.split_once('T')?;
    let ends = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
    let (clock, offset) = clock.split_at(ends);
    let seconds = if clock.matches(':').count() == 1 { ":00" } else { "" };
    let offset = if offset.is_empty() { "Z" } else { offset };
    let at = OffsetDateTime::parse(&format!("{date}T{clock}{seconds}{offset}"), &Rfc3339).ok()?;
    let micros = u64::try_from(at.unix_timestamp_nanos() / 1_000);
    Some(micros.map(Time).map_err(|_| format!("{text} is before 1970")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let now = Time(1_700_000_000_000_000);
        let at = |seconds: u64| Ok(Moment::Time(Time(seconds * 1_000_000)));
        let cases = [
            ("88412", Ok(Moment::Index(88_412))),
            ("10m", at(1_700_000_000 - 600)),
            ("1970-01-02 00:00", at(86_400)),
            ("1970-01-02 00:00:01", at(86_401)),
            ("1970-01-02T00:00:01Z", at(86_401)),
            ("1970-01-02 01:00+01:00", at(86_400)),
        ];
        for (text, expected) in cases {
            assert_eq!(Moment::parse(text, now), expected, "{text}");
        }
        for bad in ["", "yesterday", "2026-13-01 00:00", "2026-11-19", "1960-01-01 00:00", "-5"] {
            assert!(Moment::parse(bad, now).is_err(), "{bad}");
        }
        assert_eq!(When::parse("2h", now), Ok(When(now + Span::from_secs(7_200))));
        assert_eq!(When::parse("1970-01-02 00:00", now), Ok(When(Time(86_400_000_000))));
        assert!(When::parse("soon", now).is_err());
        assert_eq!(Since::parse("2h", now), Ok(Since(now - Span::from_secs(7_200))));
        assert_eq!(Since::parse("1970-01-02 00:00", now), Ok(Since(Time(86_400_000_000))));
        assert!(Since::parse("88412x", now).is_err());
    }
}
