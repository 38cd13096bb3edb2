//! Spans of time: `google.protobuf.Duration`, with a JSON format of our own.
//!
//! It is the same text as protobuf's (`"1.5s"`), but it is parsed strictly and without arithmetic
//! that outside data could overflow.

use std::fmt;

use model::Span;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Fault, Malformed};

const MICROS_A_SECOND: u64 = 1_000_000;
const NANOS_A_MICRO: u32 = 1_000;
const NANOS_A_SECOND: u32 = 1_000_000_000;

/// `google.protobuf.Duration`, as messages contain it; [`span`] checks whether it is a valid span.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The rest, of the same sign as the seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// The message of a span.
#[must_use]
pub fn duration(span: Span) -> Duration {
    let (seconds, micros) = (span.0 / MICROS_A_SECOND, span.0 % MICROS_A_SECOND);
    // Both fit: a span has fewer than 2^45 seconds, and the remainder is less than one second.
    Duration {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(micros * 1_000).unwrap_or(0),
    }
}

/// The span of a message from outside.
///
/// # Errors
/// If it is negative, finer than a microsecond, or longer than the longest span.
pub fn span(duration: &Duration) -> Result<Span, Malformed> {
    let whole = || {
        let seconds = u64::try_from(duration.seconds).ok()?;
        let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < NANOS_A_SECOND)?;
        let micros = (nanos % NANOS_A_MICRO == 0).then_some(nanos / NANOS_A_MICRO)?;
        seconds.checked_mul(MICROS_A_SECOND)?.checked_add(micros.into())
    };
    let fault = Fault::NotASpan { seconds: duration.seconds, nanos: duration.nanos };
    whole().map(Span).ok_or_else(|| fault.into())
}

/// Like protobuf: three, six or nine decimals, as many as needed.
impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (seconds, nanos) = (self.seconds, self.nanos);
        if (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0) {
            return Err(serde::ser::Error::custom("a duration has two signs"));
        }
        let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
        let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
        let text = match nanos {
            0 => format!("{sign}{seconds}s"),
            _ if nanos >= NANOS_A_SECOND => {
                return Err(serde::ser::Error::custom("a duration has a second of nanoseconds"));
            }
            _ if nanos % 1_000_000 == 0 => format!("{sign}{seconds}.{:03}s", nanos / 1_000_000),
            _ if nanos % 1_000 == 0 => format!("{sign}{seconds}.{:06}s", nanos / 1_000),
            _ => format!("{sign}{seconds}.{nanos:09}s"),
        };
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration, such as \"1.5s\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
                parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Parses `-`, digits, and after a point one to nine more; nothing else.
fn parse(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) if digits(decimals) && decimals.len() <= 9 => (whole, decimals),
        Some(_) => return None,
        None => (number, ""),
    };
    if !digits(whole) {
        return None;
    }
    let seconds = whole.parse::<i128>().ok()? * sign;
    // At most nine digits: they always fit.
    let nanos = format!("{decimals:0<9}").parse::<i32>().ok()?;
    let sign = i32::try_from(sign).ok()?;
    Some(Duration { seconds: i64::try_from(seconds).ok()?, nanos: nanos * sign })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_it_is_written() {
        for (seconds, nanos, text) in [
            (0, 0, "0s"),
            (1, 500_000_000, "1.500s"),
            (30, 1_000, "30.000001s"),
            (0, 1, "0.000000001s"),
            (0, -67_088, "-0.000067088s"),
            (-90, -2_456_301, "-90.002456301s"),
            (i64::MAX, 999_999_999, "9223372036854775807.999999999s"),
            (i64::MIN, -999_999_999, "-9223372036854775808.999999999s"),
        ] {
            let duration = Duration { seconds, nanos };
            let json = serde_json::to_string(&duration).expect("JSON");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Duration>(&json).expect(text), duration);
        }
        for (text, seconds, nanos) in [("1.5s", 1, 500_000_000), ("007s", 7, 0), ("-0s", 0, 0)] {
            assert_eq!(parse(text), Some(Duration { seconds, nanos }), "{text}");
        }
    }

    #[test]
    fn a_text_from_outside_is_refused_and_never_overflows() {
        for bad in [
            "",
            "s",
            "1",
            "1 s",
            "+1s",
            "--1s",
            "--9223372036854775808s",
            "9223372036854775808s",
            "-9223372036854775809s",
            "99999999999999999999999999999999999999999999s",
            "1.s",
            ".5s",
            "1.-5s",
            "1.+5s",
            "1.1234567891s",
            "1e3s",
            "١s",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for (seconds, nanos) in [(1, -1), (-1, 1), (0, 1_000_000_000), (0, i32::MIN)] {
            let json = serde_json::to_string(&Duration { seconds, nanos });
            assert!(json.is_err(), "{json:?}");
        }
    }
}
