//! Times as people write and read them. A moment in the cell's past is a log index (`88412`), a time
//! (`2026-11-19 03:10`, UTC unless an offset is given), or an age (`10m`).

use std::str::FromStr;

use api::v1;
use model::{Span, Time};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::arguments::duration;
use crate::clock::wall_clock;

/// A moment in the cell's past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Right after the operation at this index.
    Index(u64),
    /// At this time.
    Time(Time),
}

impl Moment {
    /// The moment as in a request.
    #[must_use]
    pub fn message(self) -> v1::Moment {
        let at = match self {
            Self::Index(index) => v1::moment::At::Index(index),
            Self::Time(time) => v1::moment::At::Time(time.0),
        };
        v1::Moment { at: Some(at) }
    }

    /// Parses an index, a time, or an age before `now`.
    ///
    /// # Errors
    /// A message for people if the text is no moment.
    pub fn parse(text: &str, now: Time) -> Result<Self, String> {
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

/// Formats a time in UTC, to the millisecond.
pub fn shown(at: Time) -> String {
    let nanos = i128::from(at.0) * 1_000;
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(nanos) else { return at.0.to_string() };
    format!(
        "{}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

/// Formats a time in UTC as in RFC 3339, to the millisecond.
pub fn rfc3339(at: Time) -> String {
    shown(at).replacen(' ', "T", 1) + "Z"
}

/// Parses RFC 3339 and common abbreviations: a space instead of the T, no seconds, no offset.
/// `None` if the text is not a time; an error if it is before 1970.
#[must_use]
pub fn read_time(text: &str) -> Option<Result<Time, String>> {
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
    fn a_time_is_shown_to_the_millisecond() {
        assert_eq!(shown(Time(86_401_002_003)), "1970-01-02 00:00:01.002");
        assert_eq!(rfc3339(Time(86_401_002_003)), "1970-01-02T00:00:01.002Z");
    }

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
    }
}
