//! Reads numbers, quantities and durations exactly from numbers or strings.

use std::str::FromStr;

use model::{Bytes, MilliCores, QuantityError, Span};

use crate::error::ErrorKind;
use crate::json::Json;
use crate::screen::quoted;
use crate::words;

/// Expected values, for messages.
pub(crate) const CORES: &str = "a number of cores, such as 0.1, '2' or '100m'";
pub(crate) const BYTES: &str = "a number of bytes, such as '64 MiB' or 67108864";
pub(crate) const WHOLE: &str = "a whole number, such as 3";
pub(crate) const SPAN: &str = "a span of time, such as '10s', '500ms', '2m' or a number of seconds";
pub(crate) const CMD: &str = "a list of strings, such as ['bourg', 'example-server']";

const BYTE_UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "kB", "MB", "GB", "TB"];
/// Largest first, with the length in microseconds.
const TIME_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
    ("µs", 1),
];
const TIME_UNIT_NAMES: &[&str] = &["d", "h", "m", "s", "ms", "us"];

/// 2^53: above it, a Jsonnet number cannot represent every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// From this number of bytes on, a fraction comes from a computation and is rounded up.
const ROUNDED_FROM: f64 = 1_024.0;
/// 2^63: outside the range of the wire format.
const LARGE: f64 = 9_223_372_036_854_775_808.0;

/// The error for a value of the wrong type.
pub(crate) fn wrong_type(expected: &'static str, value: &Json) -> ErrorKind {
    let found = match value {
        Json::Text(text) => format!("the string {}", quoted(text)),
        Json::Number(number) => format!("the number {}", number_text(*number)),
        Json::Bool(value) => value.to_string(),
        other => other.kind().to_owned(),
    };
    ErrorKind::WrongType { expected, found }
}

/// A string.
pub(crate) fn text<'j>(expected: &'static str, value: &'j Json) -> Result<&'j str, ErrorKind> {
    match value {
        Json::Text(text) => Ok(text),
        other => Err(wrong_type(expected, other)),
    }
}

/// An argument or a variable's value: numbers and booleans become strings, because flags are often
/// numbers.
pub(crate) fn word(value: &Json) -> Result<String, ErrorKind> {
    match value {
        Json::Text(text) => Ok(text.clone()),
        Json::Number(number) => Ok(number_text(*number)),
        Json::Bool(value) => Ok(value.to_string()),
        other => Err(wrong_type("a string, a number or a boolean", other)),
    }
}

/// A boolean.
pub(crate) fn truth(value: &Json) -> Result<bool, ErrorKind> {
    match value {
        Json::Bool(value) => Ok(*value),
        other => Err(wrong_type("true or false", other)),
    }
}

/// A number as a string: exact, and without an exponent where a flag could be meant.
pub(crate) fn number_text(number: f64) -> String {
    match number.abs() < 1e21 {
        // Adding zero turns a negative zero into zero.
        true => (number + 0.0).to_string(),
        false => format!("{number:e}"),
    }
}

/// A number times a factor, if the product is whole. Rounding errors of binary fractions (0.1 * 3
/// is not 0.3) are far below the tolerance, and anything a user writes is far above it.
fn scaled(number: f64, factor: f64) -> Result<Option<u64>, ErrorKind> {
    let is = || number_text(number);
    if number < 0.0 {
        return Err(ErrorKind::Negative { is: is() });
    }
    let scaled = number * factor;
    if scaled > EXACT_MAX {
        return Err(ErrorKind::TooLarge { is: is() });
    }
    let whole = scaled.round();
    let near = (scaled - whole).abs() <= 1e-9 * whole.clamp(1.0, 1e6);
    // In range: the value is whole and 0 to 2^53.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let value = whole as u64;
    Ok(near.then_some(value))
}

/// A whole number, possibly negative.
pub(crate) fn integer(number: f64) -> Result<i64, ErrorKind> {
    let is = || number_text(number);
    if number.fract() != 0.0 {
        return Err(ErrorKind::NotAnInteger { is: is() });
    }
    if number.abs() > EXACT_MAX {
        return Err(ErrorKind::NotExact { is: is() });
    }
    // In range: the value is whole and at most 2^53.
    #[expect(clippy::cast_possible_truncation)]
    Ok(number as i64)
}

/// A whole number, or its decimal digits as a string, as canonical JSON writes 64-bit numbers.
pub(crate) fn whole(value: &Json) -> Result<u64, ErrorKind> {
    match value {
        Json::Number(number) if *number >= LARGE => {
            Err(ErrorKind::TooLarge { is: number_text(*number) })
        }
        Json::Number(number) if *number > EXACT_MAX => {
            Err(ErrorKind::NotExact { is: number_text(*number) })
        }
        Json::Number(number) if number.fract() != 0.0 => {
            Err(ErrorKind::NotAnInteger { is: number_text(*number) })
        }
        Json::Number(number) => match scaled(*number, 1.0)? {
            Some(whole) => Ok(whole),
            None => Err(ErrorKind::NotAnInteger { is: number_text(*number) }),
        },
        Json::Text(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            let number = text.parse::<u64>().ok().filter(|number| i64::try_from(*number).is_ok());
            number.ok_or_else(|| ErrorKind::TooLarge { is: quoted(text) })
        }
        other => Err(wrong_type(WHOLE, other)),
    }
}

/// A whole number of 32 bits.
pub(crate) fn whole_small(value: &Json) -> Result<u32, ErrorKind> {
    let number = whole(value)?;
    u32::try_from(number).map_err(|_| ErrorKind::TooLarge { is: number.to_string() })
}

/// A number of cores, or a string with `m` for thousandths.
pub(crate) fn cores(value: &Json) -> Result<MilliCores, ErrorKind> {
    match value {
        Json::Number(number) => match scaled(*number, 1_000.0)? {
            Some(milli) => Ok(MilliCores(milli)),
            None => {
                let (text, smallest) = (number_text(*number), "0.001 cores");
                Err(quantity(QuantityError::TooFine { text, smallest }))
            }
        },
        Json::Text(text) => MilliCores::from_str(text).map_err(quantity),
        other => Err(wrong_type(CORES, other)),
    }
}

/// A whole number of thousandths of a core.
pub(crate) fn milli_cores(value: &Json) -> Result<MilliCores, ErrorKind> {
    whole(value).map(MilliCores)
}

/// A number of bytes, or a string with a unit.
pub(crate) fn bytes(value: &Json) -> Result<Bytes, ErrorKind> {
    match value {
        Json::Number(number) => match whole(value) {
            // Such as borg.GiB(7.9).
            Err(ErrorKind::NotAnInteger { .. }) if *number >= ROUNDED_FROM => {
                whole(&Json::Number(number.ceil())).map(Bytes)
            }
            Err(ErrorKind::NotAnInteger { is: text }) => {
                Err(quantity(QuantityError::TooFine { text, smallest: "1 byte" }))
            }
            other => other.map(Bytes),
        },
        Json::Text(text) => Bytes::from_str(text).map_err(quantity),
        other => Err(wrong_type(BYTES, other)),
    }
}

/// A whole number of bytes.
pub(crate) fn whole_bytes(value: &Json) -> Result<Bytes, ErrorKind> {
    whole(value).map(Bytes)
}

fn quantity(error: QuantityError) -> ErrorKind {
    let nearest = match &error {
        QuantityError::NoSuchUnit { unit, .. } => words::nearest_unit(unit, BYTE_UNITS),
        _ => None,
    };
    ErrorKind::Quantity { error, nearest }
}

/// A duration: a string such as `10s`, `1.5 s` or `4 m 10 s`, or a number of seconds.
pub(crate) fn span(value: &Json) -> Result<Span, ErrorKind> {
    match value {
        Json::Number(number) => match scaled(*number, 1e6)? {
            Some(micros) => Ok(Span(micros)),
            None => Err(ErrorKind::TooFine { is: number_text(*number) }),
        },
        Json::Text(text) => span_text(text, value),
        other => Err(wrong_type(SPAN, other)),
    }
}

fn span_text(text: &str, value: &Json) -> Result<Span, ErrorKind> {
    let not_one = || wrong_type(SPAN, value);
    if text.trim_start().starts_with('-') {
        return Err(ErrorKind::Negative { is: quoted(text) });
    }
    let mut sum: u64 = 0;
    let mut rest = text.trim();
    let mut unit_before = u64::MAX;
    if rest.is_empty() {
        return Err(not_one());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after.trim_start();
        let (digits, places) = decimal(number).ok_or_else(not_one)?;
        if unit.is_empty() {
            return Err(not_one());
        }
        let micros = TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, micros)| *micros);
        let micros = micros.ok_or_else(|| ErrorKind::NoSuchTimeUnit {
            unit: unit.to_owned(),
            nearest: words::nearest_unit(unit, TIME_UNIT_NAMES),
        })?;
        // `1 s 2 h` is probably a typo.
        if micros >= unit_before {
            return Err(not_one());
        }
        unit_before = micros;
        let too_large = || ErrorKind::TooLarge { is: quoted(text) };
        let scaled = digits.checked_mul(micros.into()).ok_or_else(too_large)?;
        let divisor = 10_u128.pow(places);
        if scaled % divisor != 0 {
            return Err(ErrorKind::TooFine { is: quoted(text) });
        }
        let part = u64::try_from(scaled / divisor).map_err(|_| too_large())?;
        let whole = sum.checked_add(part).filter(|sum| i64::try_from(*sum).is_ok());
        sum = whole.ok_or_else(too_large)?;
    }
    Ok(Span(sum))
}

/// The digits of a decimal number and the number of them after the point.
fn decimal(text: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || fraction.contains('.') || text.len() > 30 {
        return None;
    }
    let places = u32::try_from(fraction.len()).ok()?;
    Some((format!("{whole}{fraction}").parse().ok()?, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(cores(&Json::Number(0.1)), Ok(MilliCores(100)));
        assert_eq!(cores(&Json::Number(0.1 * 3.0)), Ok(MilliCores(300)));
        assert_eq!(cores(&Json::Number(1_000_000.001)), Ok(MilliCores(1_000_000_001)));
        assert_eq!(cores(&text("100m")), Ok(MilliCores(100)));
        assert_eq!(bytes(&Json::Number(67_108_864.0)), Ok(Bytes(64 << 20)));
        assert_eq!(bytes(&text("1.5 GiB")), Ok(Bytes(3 << 29)));
        assert_eq!(bytes(&text("7.9 GiB")), Ok(Bytes(8_482_560_410)));
        assert_eq!(bytes(&Json::Number(7.9 * 1_073_741_824.0)), Ok(Bytes(8_482_560_410)));
        assert_eq!(whole(&text("9223372036854775807")), Ok(i64::MAX as u64));
        assert_eq!(whole(&Json::Number(EXACT_MAX)), Ok(1 << 53));
        assert_eq!(whole(&Json::Number(-0.0)), Ok(0));
    }

    #[test]
    fn an_invalid_quantity_says_why() {
        let cores = |value: Json| cores(&value).expect_err("not cores").to_string();
        assert_eq!(cores(Json::Number(0.0005)), "'0.0005' is finer than 0.001 cores");
        assert_eq!(cores(Json::Number(1.000_000_1)), "'1.0000001' is finer than 0.001 cores");
        assert_eq!(cores(Json::Number(-1.0)), "must not be negative, is -1");
        assert_eq!(cores(Json::Number(1e300)), "1e300 is too large");
        assert_eq!(
            cores(Json::Bool(true)),
            "must be a number of cores, such as 0.1, '2' or '100m', is true"
        );
        let bytes = |value: Json| bytes(&value).expect_err("not bytes").to_string();
        assert_eq!(
            bytes(text("64 mib")),
            "there is no unit 'mib': use one of B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB; \
             the nearest is 'MiB'"
        );
        assert_eq!(bytes(Json::Number(0.5)), "'0.5' is finer than 1 byte");
        assert_eq!(
            bytes(Json::Number(1e16)),
            "10000000000000000 is beyond 2^53, where numbers are no longer exact: write it as a string"
        );
        let whole = |value: Json| whole(&value).expect_err("not whole").to_string();
        assert_eq!(whole(Json::Number(1.5)), "must be a whole number, is 1.5");
        assert_eq!(whole(text("99999999999999999999")), "'99999999999999999999' is too large");
        assert_eq!(whole(text("3x")), "must be a whole number, such as 3, is the string '3x'");
    }

    #[test]
    fn spans_are_read_as_people_and_protobuf_write_them() {
        for (text_, micros) in [
            ("10s", 10_000_000),
            ("1.5 s", 1_500_000),
            ("500ms", 500_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("1h30m", 5_400_000_000),
            ("4 m 10 s", 250_000_000),
            ("3.500s", 3_500_000),
            ("0.000001s", 1),
            ("7 µs", 7),
            ("0s", 0),
        ] {
            assert_eq!(span(&text(text_)), Ok(Span(micros)), "{text_}");
        }
        assert_eq!(span(&Json::Number(0.25)), Ok(Span(250_000)));
        let says = |value: Json| span(&value).expect_err("no span").to_string();
        let expected =
            "must be a span of time, such as '10s', '500ms', '2m' or a number of seconds";
        for bad in ["", "10", "s", "1..5s", "1 s 2 h", "s10", "\u{1b}"] {
            assert!(says(text(bad)).starts_with(expected), "{bad}");
        }
        assert_eq!(
            says(text("3 sec")),
            "there is no unit 'sec': use one of d, h, m, s, ms, us; the nearest is 's'"
        );
        assert_eq!(says(text("0.1us")), "'0.1us' is finer than 1 µs");
        assert_eq!(says(text("-1s")), "must not be negative, is '-1s'");
        assert_eq!(says(text("99999999999999999999d")), "'99999999999999999999d' is too large");
        assert_eq!(says(Json::Number(1e-9)), "0.000000001 is finer than 1 µs");
    }
}
