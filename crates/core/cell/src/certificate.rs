//! What the cell knows of the certificates that it has issued (design, section 7).

use model::{Serial, Time};

/// What the cell knows of a certificate that it issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its number.
    pub serial: Serial,
    /// When it was issued.
    pub issued: Time,
    /// When it expires.
    pub expires: Time,
}
