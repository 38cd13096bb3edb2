//! With what machines show who they are: their certificates, and the tokens with which they join
//! (design, section 7).

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{KeyDigest, MachineName, Serial, Time};

use super::Act;
use crate::bounds::CERTIFICATES_OF_A_MACHINE_MAX;
use crate::{Cell, Certificate};

/// What the cell has said of a machine's certificates. One of which it has said nothing, as one that
/// was added by hand, is no less a machine: a certificate of the cell's authority is what makes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The certificates that the cell has issued since the last revocation, the oldest first. Those
    /// that have expired go when there is another.
    pub certificates: Vec<Certificate>,
    /// The last revocation: no certificate is accepted from then on but those above.
    pub revoked: Option<Act>,
}

/// A join token: whoever holds it may join as that machine, once, until it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which machine joins with it.
    pub machine: MachineName,
    /// When it was issued, and by whom.
    pub issued: Act,
    /// When it expires.
    pub expires: Time,
    /// What came of it; nothing before its first use.
    pub used: Option<TokenUse>,
}

/// The use of a join token, which is not used again but by the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUse {
    /// The key that used it.
    pub key: KeyDigest,
    /// The certificate that was issued for that key.
    pub certificate: Certificate,
}

impl Credentials {
    /// Whether a certificate with that number is the machine's.
    #[must_use]
    pub fn accepts(&self, serial: Serial) -> bool {
        self.revoked.is_none() || self.issued(serial).is_some()
    }

    /// A certificate that the cell has issued since the last revocation.
    #[must_use]
    pub fn issued(&self, serial: Serial) -> Option<Certificate> {
        self.certificates.iter().copied().find(|known| known.serial == serial)
    }

    /// Keeps another one. Where there are too many, the oldest goes, but not the one in use: a
    /// machine never shuts itself out.
    pub(crate) fn add(&mut self, certificate: Certificate, in_use: Option<Serial>) {
        let (now, serial) = (certificate.issued, certificate.serial);
        self.certificates.retain(|known| known.expires > now && known.serial != serial);
        while self.certificates.len() >= CERTIFICATES_OF_A_MACHINE_MAX {
            let oldest = self.certificates.iter().position(|known| Some(known.serial) != in_use);
            let Some(oldest) = oldest else { break };
            self.certificates.remove(oldest);
        }
        self.certificates.push(certificate);
    }
}

/// The join tokens of a cell, by the serial numbers of their certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) by_serial: OrdMap<Serial, Arc<Token>>,
    /// Derived: when each expires.
    pub(crate) by_expiry: OrdSet<(Time, Serial)>,
}

impl Tokens {
    pub(crate) fn keep(&mut self, serial: Serial, token: Arc<Token>) {
        self.forget(serial);
        self.by_expiry.insert((token.expires, serial));
        self.by_serial.insert(serial, token);
    }

    fn forget(&mut self, serial: Serial) {
        if let Some(token) = self.by_serial.remove(&serial) {
            self.by_expiry.remove(&(token.expires, serial));
        }
    }

    /// How many have not expired.
    pub(crate) fn live(&self, now: Time) -> usize {
        let expired = self.by_expiry.iter().take_while(|(expires, _)| *expires <= now).count();
        self.by_serial.len().saturating_sub(expired)
    }

    pub(crate) fn forget_expired(&mut self, now: Time) {
        while let Some((expires, serial)) = self.by_expiry.get_min().copied()
            && expires <= now
        {
            // An entry of none would stay for ever otherwise.
            self.by_expiry.remove(&(expires, serial));
            self.by_serial.remove(&serial);
        }
    }

    /// Nobody joins under that name with what was issued so far.
    pub(crate) fn forget_machine(&mut self, name: &MachineName) {
        let of_it = self.by_serial.iter().filter(|(_, token)| token.machine == *name);
        let of_it: Vec<Serial> = of_it.map(|(serial, _)| *serial).collect();
        of_it.into_iter().for_each(|serial| self.forget(serial));
    }
}

impl Cell {
    /// A join token, by the serial number of its certificate. One that has expired may be there still.
    #[must_use]
    pub fn token(&self, serial: Serial) -> Option<&Arc<Token>> {
        self.tokens.by_serial.get(&serial)
    }

    /// Every join token, the used and expired ones included, by their serial numbers.
    pub fn tokens(&self) -> impl Iterator<Item = (Serial, &Arc<Token>)> {
        self.tokens.by_serial.iter().map(|(serial, token)| (*serial, token))
    }

    /// What was said of a machine's certificates, be the machine there or not; nothing where it never
    /// enrolled and was never revoked.
    #[must_use]
    pub fn credentials(&self, machine: &MachineName) -> Option<&Arc<Credentials>> {
        match self.machine_named(machine) {
            Some(machine) => machine.credentials.as_ref(),
            None => self.revoked_machines.get(machine),
        }
    }

    /// The names that were revoked and that no machine has now.
    pub fn revoked_machines(&self) -> impl Iterator<Item = (&MachineName, &Arc<Credentials>)> {
        self.revoked_machines.iter()
    }

    /// Whether a machine's certificate of the cell's authority is accepted: any where it was never
    /// revoked, else those that the cell has issued since.
    #[must_use]
    pub fn accepts_machine(&self, machine: &MachineName, serial: &Serial) -> bool {
        self.credentials(machine).is_none_or(|said| said.accepts(*serial))
    }
}
