//! Users that the cell has a record of: those it issued certificates to, and those it revoked
//! (design, sections 3 and 7).

use model::{Certificate, Serial, Time, UserName};

/// A user whom administrators have added or revoked. A user without a record, such as the one who
/// bootstrapped the cell, is equally valid: a certificate of the cell's authority is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// When they were first added, and by whom; `None` if they were only revoked.
    pub added: Option<Act>,
    /// The certificates issued since the last revocation, oldest first. Expired ones are dropped
    /// when another is issued.
    pub certificates: Vec<Certificate>,
    /// The last revocation: since then only the certificates above are accepted.
    pub revoked: Option<Act>,
}

/// An action's author and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// When it happened.
    pub at: Time,
    /// Who did it.
    pub by: UserName,
}

impl User {
    /// Whether requests with that certificate are accepted.
    #[must_use]
    pub fn accepts(&self, serial: Serial) -> bool {
        self.revoked.is_none() || self.certificates.iter().any(|known| known.serial == serial)
    }

    /// Whether no certificate of theirs is accepted.
    #[must_use]
    pub fn is_shut_out(&self) -> bool {
        self.revoked.is_some() && self.certificates.is_empty()
    }
}
