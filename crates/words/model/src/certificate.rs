//! Records of the certificates that the cell has issued (design, section 7).

use crate::{Serial, Span, Time};

/// Maximum validity of a user's certificate: a year.
pub const CERTIFICATE_VALIDITY_MAX: Span = Span::from_secs(366 * 86_400);

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
