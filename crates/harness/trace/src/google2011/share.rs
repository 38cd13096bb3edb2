//! Shares of the largest machine, the trace's unit of every quantity.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A share of the largest machine in one dimension, in units of 10⁻¹⁵: exact for every decimal of
/// the traces, of which 9.537e-07 and 0.0833740234375 are the finest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u64);

/// The text is not a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShareError {
    /// Not a decimal number.
    #[error("is not a decimal number, such as 0.0625 or 9.537e-07")]
    NotOne,
    /// More decimals than are stored.
    #[error("has more than {} decimals", Share::DECIMALS)]
    TooFine,
    /// Larger than the maximum.
    #[error("is more than {} of the largest machine", Share::MOST)]
    TooLarge,
}

impl Share {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The largest machine.
    pub const ONE: Self = Self(1_000_000_000_000_000);
    /// The number of decimals stored.
    pub const DECIMALS: u32 = 15;
    /// The maximum, in largest machines.
    pub const MOST: u64 = 1_000;

    /// The share in units of 10⁻¹⁵.
    #[must_use]
    pub fn parts(self) -> u64 {
        self.0
    }

    /// This share of an amount, rounded down.
    #[must_use]
    pub fn of(self, trace: u64) -> u64 {
        let part = u128::from(self.0) * u128::from(trace) / u128::from(Self::ONE.0);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// Parses a decimal number as the trace writes it: `0.5`, `1`, `9.537e-07`.
impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (trace, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = trace.bytes().chain(fraction.bytes());
        if trace.is_empty() || !digits.clone().all(|digit| digit.is_ascii_digit()) {
            return Err(ShareError::NotOne);
        }
        let mut value = 0_u128;
        for digit in digits {
            value = value * 10 + u128::from(digit - b'0');
            if value > u128::from(u64::MAX) * 1_000 {
                return Err(ShareError::TooFine);
            }
        }
        let decimals = i64::try_from(fraction.len()).map_err(|_| ShareError::TooFine)?;
        let shift = i64::from(Self::DECIMALS) - decimals + i64::from(exponent);
        let parts = shifted(value, shift)?;
        match u64::try_from(parts) {
            Ok(parts) if parts <= Self::ONE.0 * Self::MOST => Ok(Self(parts)),
            _ => Err(ShareError::TooLarge),
        }
    }
}

/// `-07`, `+2`, `3`: at most two digits.
fn read_exponent(text: &str) -> Result<i32, ShareError> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number: i32 = match digits.len() {
        1 | 2 if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            digits.parse().map_err(|_| ShareError::NotOne)?
        }
        _ => return Err(ShareError::NotOne),
    };
    Ok(sign * number)
}

/// A value with its decimal point moved to the right, or to the left if that loses no digits.
fn shifted(value: u128, places: i64) -> Result<u128, ShareError> {
    if value == 0 {
        return Ok(0);
    }
    let power = u32::try_from(places.unsigned_abs()).ok().and_then(|n| 10_u128.checked_pow(n));
    match (power, places >= 0) {
        (Some(power), true) => value.checked_mul(power).ok_or(ShareError::TooLarge),
        (None, true) => Err(ShareError::TooLarge),
        (Some(power), false) if value.is_multiple_of(power) => Ok(value / power),
        (_, false) => Err(ShareError::TooFine),
    }
}

/// Displays all decimals: `0.5`, `1`, `0.0000009537`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:015}", self.0 / Self::ONE.0, self.0 % Self::ONE.0);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        for (text, parts) in [
            ("0", 0),
            ("0.0", 0),
            ("1", 1_000_000_000_000_000),
            ("1.0", 1_000_000_000_000_000),
            ("0.5", 500_000_000_000_000),
            ("0.03085", 30_850_000_000_000),
            ("9.537e-07", 953_700_000),
            ("2.956e-05", 29_560_000_000),
            ("0.0833740234375", 83_374_023_437_500),
            ("1e+2", 100_000_000_000_000_000),
            ("0.000000000000001", 1),
            ("0.5000000000000000", 500_000_000_000_000),
            ("0e-99", 0),
        ] {
            assert_eq!(text.parse::<Share>().map(Share::parts), Ok(parts), "{text}");
        }
    }

    #[test]
    fn an_invalid_share_is_refused() {
        use ShareError::{NotOne, TooFine, TooLarge};
        for (text, error) in [
            ("", NotOne),
            (".5", NotOne),
            ("-1", NotOne),
            ("0x1", NotOne),
            ("1.2.3", NotOne),
            ("1e", NotOne),
            ("1e--1", NotOne),
            ("1e999", NotOne),
            ("nan", NotOne),
            ("0.0000000000000001", TooFine),
            ("1e-16", TooFine),
            ("1e-99", TooFine),
            ("1001", TooLarge),
            ("1e99", TooLarge),
            ("123456789012345678901234567890", TooFine),
        ] {
            assert_eq!(text.parse::<Share>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_share_reads_back_what_it_prints(parts in 0..=1_000 * 1_000_000_000_000_000_u64) {
            prop_assert_eq!(Share(parts).to_string().parse(), Ok(Share(parts)));
        }

        #[test]
        fn any_text_is_a_share_or_refused(text in "[0-9.eE+-]{0,40}") {
            let _either = text.parse::<Share>();
        }

        #[test]
        fn parts_of_shares_never_exceed_the_share_of_the_sum(
            shares in proptest::collection::vec(0..1_000_000_000_000_000_u64, 1..20),
            trace in 0..1_u64 << 50,
        ) {
            let parts: u64 = shares.iter().map(|share| Share(*share).of(trace)).sum();
            prop_assert!(parts <= Share(shares.iter().sum()).of(trace));
        }
    }
}
