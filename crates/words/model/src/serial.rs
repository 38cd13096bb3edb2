//! Serial numbers of certificates.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The serial number of a certificate as its authority assigned it: 20 bytes, most significant
/// first. Shorter numbers are padded with leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub [u8; Self::BYTES]);

/// The text is not a serial number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not the serial number of a certificate: that is 2 to {} lower-case hexadecimal \
     digits, without zeros before it",
    .0.escape_debug(), Serial::BYTES * 2
)]
pub struct SerialError(pub String);

impl Serial {
    /// The length in bytes.
    pub const BYTES: usize = 20;

    /// The serial number with these bytes, most significant first; `None` if there are more than
    /// [`Self::BYTES`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut serial = [0; Self::BYTES];
        let from = Self::BYTES.checked_sub(bytes.len())?;
        serial.get_mut(from..)?.copy_from_slice(bytes);
        Some(Self(serial))
    }
}

/// Displayed in hexadecimal, without leading zero bytes.
impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zeros = self.0.iter().take_while(|byte| **byte == 0).count();
        let mut shown = self.0.iter().skip(zeros.min(Self::BYTES - 1));
        shown.try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses exactly the displayed form.
impl FromStr for Serial {
    type Err = SerialError;

    fn from_str(text: &str) -> Result<Self, SerialError> {
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            text.as_bytes().chunks(2).take(Self::BYTES + 1).map(byte).collect();
        let serial = bytes.and_then(|bytes| Self::from_bytes(&bytes));
        let same = serial.filter(|serial| serial.to_string() == text);
        same.ok_or_else(|| SerialError(text.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_serial_numbers_are_zero_padded_and_long_ones_are_refused() {
        let shown = |bytes: &[u8]| Serial::from_bytes(bytes).map(|serial| serial.to_string());
        assert_eq!(shown(&[0x1a, 0x02]).as_deref(), Some("1a02"));
        assert_eq!(shown(&[]).as_deref(), Some("00"));
        assert_eq!(Serial::from_bytes(&[0, 0, 7]), Serial::from_bytes(&[7]));
        assert_eq!(shown(&[255; 20]).as_deref(), Some("ff".repeat(20).as_str()));
        assert_eq!(shown(&[1; 21]), None);
    }

    #[test]
    fn a_serial_number_is_read_as_it_is_shown() {
        for text in ["00", "07", "1a02", &"f0".repeat(20)] {
            assert_eq!(
                text.parse::<Serial>().map(|serial| serial.to_string()).as_deref(),
                Ok(text)
            );
        }
        for bad in ["", "7", "0007", "1A02", "+1", "xy", "ü", &"01".repeat(21)] {
            assert_eq!(bad.parse::<Serial>(), Err(SerialError(bad.to_owned())));
        }
    }
}
