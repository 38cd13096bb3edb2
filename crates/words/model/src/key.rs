//! Digests of public keys.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The digest of a public key: 32 bytes. The caller chooses the hash and the encoding of the key;
/// digests computed the same way are equal when the keys are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest(pub [u8; Self::BYTES]);

/// The text is not the digest of a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not the digest of a key: use {} lower-case hexadecimal digits",
    .0.escape_debug(), KeyDigest::BYTES * 2
)]
pub struct KeyDigestError(pub String);

impl KeyDigest {
    /// The length in bytes.
    pub const BYTES: usize = 32;
}

/// Displayed in hexadecimal.
impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses exactly the displayed form.
impl FromStr for KeyDigest {
    type Err = KeyDigestError;

    fn from_str(text: &str) -> Result<Self, KeyDigestError> {
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            text.as_bytes().chunks(2).take(Self::BYTES + 1).map(byte).collect();
        let digest = bytes.and_then(|bytes| Some(Self(bytes.try_into().ok()?)));
        let same = digest.filter(|digest| digest.to_string() == text);
        same.ok_or_else(|| KeyDigestError(text.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_shown() {
        let mut bytes = [0; KeyDigest::BYTES];
        (bytes[1], bytes[31]) = (0xa7, 0x0f);
        let text = format!("00a7{}0f", "00".repeat(29));
        assert_eq!(KeyDigest(bytes).to_string(), text);
        assert_eq!(text.parse(), Ok(KeyDigest(bytes)));
        let (upper, plus) = (text.to_uppercase(), format!("+1{}", "00".repeat(31)));
        for bad in ["", "00", &text[1..], &text[2..], &format!("{text}00"), &upper, &plus, "ü"] {
            assert_eq!(bad.parse::<KeyDigest>(), Err(KeyDigestError(bad.to_owned())));
        }
    }
}
