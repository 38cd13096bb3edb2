//! Records of the certificates that the cell has issued (design, section 7).

use crate::{Serial, Time};

/// The cell's record of a certificate that it issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its serial number.
    pub serial: Serial,
    /// When it was issued.
    pub issued: Time,
    /// When it expires.
    pub expires: Time,
}
