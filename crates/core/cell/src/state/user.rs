//! Users whom the cell has said something of: whom it gave certificates, and whose it refuses
//! (design, sections 3 and 7).

use model::{Serial, Time, UserName};

use crate::Certificate;

/// A user whom administrators have added or revoked. One of whom nothing was said, as the founder of
/// a cell, is no less a user: a certificate of the cell's authority is what makes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// When they were first added, and by whom; nothing where they were only revoked.
    pub added: Option<Act>,
    /// The certificates that the cell has issued since the last revocation, the oldest first. Those
    /// that have expired go when there is another.
    pub certificates: Vec<Certificate>,
    /// The last revocation: no certificate is accepted from then on but those above.
    pub revoked: Option<Act>,
}

/// What somebody did, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// When.
    pub at: Time,
    /// Who.
    pub by: UserName,
}

impl User {
    /// Whether requests with that certificate are theirs.
    #[must_use]
    pub fn accepts(&self, serial: Serial) -> bool {
        self.revoked.is_none() || self.certificates.iter().any(|known| known.serial == serial)
    }

    /// Whether every certificate of theirs is refused.
    #[must_use]
    pub fn is_shut_out(&self) -> bool {
        self.revoked.is_some() && self.certificates.is_empty()
    }
}
