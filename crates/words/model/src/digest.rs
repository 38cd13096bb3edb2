//! Digests of content.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The BLAKE3 digest of some bytes: a chunk, a tree or a manifest of a package. Equal digests mean
/// equal bytes. This crate does not compute digests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; Self::BYTES]);

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

    /// The digest with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Displayed as 64 lower-case hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
        let mut text = String::with_capacity(Self::BYTES * 2);
        text.extend(self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        // Padding and width apply, so that digests can be columns of a table.
        f.pad(&text)
    }
}

/// The displayed form.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Parses exactly the displayed form.
impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> =
            text.as_bytes().chunks(2).take(Self::BYTES + 1).map(byte).collect();
        let digest = bytes.and_then(|bytes| Some(Self(bytes.try_into().ok()?)));
        digest.ok_or_else(|| DigestError(text.chars().take(100).collect()))
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
        assert_eq!(
            (format!("{digest:.12}"), text.parse()),
            ("00a700000000".to_owned(), Ok(digest))
        );
        let (upper, plus) = (text.to_uppercase(), format!("+1{}", "00".repeat(31)));
        for bad in ["", "00", &text[1..], &text[2..], &format!("{text}00"), &upper, &plus, "ü"] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError(bad.to_owned())));
        }
    }
}
