//! The credentials of machines: their certificates, and the tokens with which they join (design,
//! section 7).

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{Certificate, KeyDigest, MachineName, Serial, Time};

use super::Act;
use crate::Cell;
use crate::bounds::CERTIFICATES_OF_A_MACHINE_MAX;

/// The cell's record of a machine's certificates. A machine without a record, such as one that was
/// added by hand, is equally valid: a certificate of the cell's authority is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The certificates issued since the last revocation, oldest first. Expired ones are dropped
    /// when another is issued.
    pub certificates: Vec<Certificate>,
    /// The last revocation: since then only the certificates above are accepted.
    pub revoked: Option<Act>,
}

/// A join token: its holder may join as that machine, once, until it expires; or, if it is for
/// many, as machines whose names begin with that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The machine; or the beginning of the names of many.
    pub machine: MachineName,
    /// When it was issued, and by whom.
    pub issued: Act,
    /// When it expires.
    pub expires: Time,
    /// Its use; `None` if it is unused, or for many machines.
    pub used: Option<TokenUse>,
    /// The machines that it admits if it is for many; `None` for one machine.
    pub many: Option<Admission>,
}

/// The uses of a join token for many machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// How many machines it admits.
    pub most: u32,
    /// Those that it has admitted. A name is admitted once, also if its machine is removed.
    pub admitted: OrdMap<MachineName, TokenUse>,
}

impl Token {
    /// The use by the machine of a certificate's holder, if there was one.
    #[must_use]
    pub fn use_by(&self, machine: &MachineName) -> Option<TokenUse> {
        match &self.many {
            Some(many) => many.admitted.get(machine).copied(),
            None => self.used.filter(|_| self.machine == *machine),
        }
    }

    /// The machine that joins with it and calls itself by a name, or by none.
    #[must_use]
    pub fn joins<'a>(&'a self, named: Option<&'a MachineName>) -> &'a MachineName {
        named.unwrap_or(&self.machine)
    }
}

/// The use of a join token. Only the same key can use it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUse {
    /// The key that used it.
    pub key: KeyDigest,
    /// The certificate that was issued for that key.
    pub certificate: Certificate,
}

impl Credentials {
    /// Whether the machine's certificate with that serial number is accepted.
    #[must_use]
    pub fn accepts(&self, serial: Serial) -> bool {
        self.revoked.is_none() || self.issued(serial).is_some()
    }

    /// A certificate that the cell issued after the last revocation.
    #[must_use]
    pub fn issued(&self, serial: Serial) -> Option<Certificate> {
        self.certificates.iter().copied().find(|known| known.serial == serial)
    }

    /// Adds a certificate. If there are too many, the oldest is dropped, except the one in use: a
    /// machine never locks itself out.
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
    /// Derived: the expiry of each.
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

    /// Number of unexpired tokens.
    pub(crate) fn live(&self, now: Time) -> usize {
        let expired = self.by_expiry.iter().take_while(|(expires, _)| *expires <= now).count();
        self.by_serial.len().saturating_sub(expired)
    }

    pub(crate) fn forget_expired(&mut self, now: Time) {
        while let Some((expires, serial)) = self.by_expiry.get_min().copied()
            && expires <= now
        {
            // A stale entry would never be removed otherwise.
            self.by_expiry.remove(&(expires, serial));
            self.by_serial.remove(&serial);
        }
    }

    /// Removes the tokens of a machine name.
    pub(crate) fn forget_machine(&mut self, name: &MachineName) {
        self.forget_named(name, |token| token.many.is_none());
    }

    /// Removes the tokens for many machines whose names begin with a name; tells whether there were
    /// any.
    pub(crate) fn forget_many(&mut self, name: &MachineName) -> bool {
        self.forget_named(name, |token| token.many.is_some())
    }

    fn forget_named(&mut self, name: &MachineName, which: impl Fn(&Token) -> bool) -> bool {
        let of_it = self.by_serial.iter();
        let of_it = of_it.filter(|(_, token)| token.machine == *name && which(token));
        let of_it: Vec<Serial> = of_it.map(|(serial, _)| *serial).collect();
        let any = !of_it.is_empty();
        of_it.into_iter().for_each(|serial| self.forget(serial));
        any
    }
}

impl Cell {
    /// A join token, by the serial number of its certificate. An expired one may still be present.
    #[must_use]
    pub fn token(&self, serial: Serial) -> Option<&Arc<Token>> {
        self.tokens.by_serial.get(&serial)
    }

    /// Every join token, used and expired ones included, by serial number.
    pub fn tokens(&self) -> impl Iterator<Item = (Serial, &Arc<Token>)> {
        self.tokens.by_serial.iter().map(|(serial, token)| (*serial, token))
    }

    /// The record of a machine's certificates, whether the machine exists or not; `None` if it
    /// never enrolled and was never revoked.
    #[must_use]
    pub fn credentials(&self, machine: &MachineName) -> Option<&Arc<Credentials>> {
        match self.machine_named(machine) {
            Some(machine) => machine.credentials.as_ref(),
            None => self.revoked_machines.get(machine),
        }
    }

    /// The revoked names that no machine currently has.
    pub fn revoked_machines(&self) -> impl Iterator<Item = (&MachineName, &Arc<Credentials>)> {
        self.revoked_machines.iter()
    }

    /// Whether a machine's certificate of the cell's authority is accepted: any if the machine was
    /// never revoked, else only those that the cell has issued since.
    #[must_use]
    pub fn accepts_machine(&self, machine: &MachineName, serial: &Serial) -> bool {
        self.credentials(machine).is_none_or(|said| said.accepts(*serial))
    }
}
