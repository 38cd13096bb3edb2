//! A fraction as operators write it: `1/3`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A fraction from 0 to 1, with a nonzero denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    partition: u32,
    whole: u32,
}

/// A text that is not a fraction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a fraction from 0/1 to 1/1, such as 1/3")]
pub struct NoShare(String);

impl Share {
    /// One third.
    pub const THIRD: Self = Self { partition: 1, whole: 3 };

    /// Whether `count` of `of` exceeds this share.
    #[must_use]
    pub fn is_less_than(self, count: u32, of: u32) -> bool {
        u64::from(count) * u64::from(self.whole) > u64::from(of) * u64::from(self.partition)
    }
}

impl FromStr for Share {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Self, NoShare> {
        let bad = || NoShare(text.escape_debug().to_string());
        let (partition, whole) = text.split_once('/').ok_or_else(bad)?;
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
        let (partition, whole) = (number(partition)?, number(whole)?);
        if whole == 0 || partition > whole { Err(bad()) } else { Ok(Self { partition, whole }) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.partition, self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_share_is_not_more_than_it() {
        let more = |share: &str, count, of| {
            share.parse::<Share>().expect("a share").is_less_than(count, of)
        };
        assert!(!more("1/3", 3, 9) && more("1/3", 4, 9) && !more("1/3", 4, 12));
        assert!(!more("1/1", u32::MAX, u32::MAX), "never");
        assert!(more("0/1", 1, u32::MAX) && !more("0/1", 0, 0), "with the first");
        for bad in ["", "1", "1/0", "2/1", "-1/3", "0.3/1", "1/3/3"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
        assert_eq!(Share::THIRD.to_string(), "1/3");
    }
}
