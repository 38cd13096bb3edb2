//! Digests of content.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The BLAKE3 digest of some bytes, by which package stores and machines know them: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; Self::BYTES]);

/// The text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not a digest: use {} lower-case hexadecimal digits",
    .0.escape_debug(), Digest::BYTES * 2
)]
pub struct DigestError(pub String);

impl Digest {
    /// The length in bytes.
    pub const BYTES: usize = 32;

    /// The digest of which these are the bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Displayed in hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses exactly the displayed form.
impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let malformed = || DigestError(text.chars().take(100).collect());
        let digits = text.as_bytes();
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(malformed()),
        };
        if digits.len() != Self::BYTES * 2 {
            return Err(malformed());
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_shown() {
        let mut bytes = [0; Digest::BYTES];
        (bytes[1], bytes[31]) = (0xa7, 0x0f);
        let text = format!("00a7{}0f", "00".repeat(29));
        let digest = Digest::from_bytes(bytes);
        assert_eq!((digest.to_string(), digest.as_bytes()), (text.clone(), &bytes));
        assert_eq!(text.parse(), Ok(digest));
        let (upper, plus) = (text.to_uppercase(), format!("+1{}", "00".repeat(31)));
        for bad in ["", "00", &text[1..], &text[2..], &format!("{text}00"), &upper, &plus, "ü"] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError(bad.to_owned())));
        }
    }
}
