//! Invariants of machines' certificates, of their join tokens, and of each use of a token.

use std::collections::BTreeSet;

use event::{Event, EventKind, Subject};
use model::MachineName;

use super::decision::Step;
use super::{Violation, Violations};
use crate::bounds::{
    CERTIFICATES_OF_A_MACHINE_MAX, REVOKED_MACHINES_MAX, TOKEN_USES_MAX, TOKENS_MAX,
};
use crate::{Cell, Credentials};

impl Cell {
    pub(super) fn check_enrolment(&self, found: &mut Violations) {
        self.check_tokens(found);
        for machine in self.machines() {
            if let Some(said) = &machine.credentials {
                self.check_credentials(&machine.name, said, found);
            }
        }
        let names = &self.revoked_machines;
        found.at_most("revoked names that no machine has", names.len(), REVOKED_MACHINES_MAX);
        for (name, said) in names {
            self.check_credentials(name, said, found);
            if said.revoked.is_none() || self.machine_named(name).is_some() {
                found.add(Violation::RevokedName(name.clone()));
            }
        }
    }

    fn check_tokens(&self, found: &mut Violations) {
        found.at_most("join tokens", self.tokens.by_serial.len(), TOKENS_MAX);
        for (serial, token) in self.tokens() {
            let machine_is_there = self.machine_named(&token.machine).is_some();
            if token.used.is_some() && !machine_is_there || token.expires < token.issued.at {
                found.add(Violation::Token(serial));
            }
            if let Some(many) = &token.many {
                let most = many.most.min(TOKEN_USES_MAX) as usize;
                found.at_most("machines that a token admitted", many.admitted.len(), most);
                let begins = |name: &MachineName| name.as_str().starts_with(token.machine.as_str());
                if token.used.is_some() || !many.admitted.keys().all(begins) {
                    found.add(Violation::Token(serial));
                }
            }
        }
        let kept: BTreeSet<_> = self.tokens.by_expiry.iter().copied().collect();
        let expire = self.tokens().map(|(serial, token)| (token.expires, serial)).collect();
        for (_, serial) in kept.symmetric_difference(&expire) {
            found.add(Violation::TokenExpiry(*serial));
        }
    }

    fn check_credentials(&self, name: &MachineName, said: &Credentials, found: &mut Violations) {
        let (has, most) = (said.certificates.len(), CERTIFICATES_OF_A_MACHINE_MAX);
        found.at_most("certificates of a machine", has, most);
        let revoked = said.revoked.as_ref().map(|act| act.at);
        for certificate in &said.certificates {
            let backwards = certificate.expires < certificate.issued;
            if backwards || revoked.is_some_and(|revoked| certificate.issued < revoked) {
                let (machine, serial) = (name.clone(), certificate.serial);
                found.add(Violation::MachineCertificate { machine, serial });
            }
        }
        if said.certificates.is_empty() && revoked.is_none() {
            found.add(Violation::NoCredentials(name.clone()));
        }
    }
}

impl Step<'_> {
    /// Each token is used once by a machine, by the key and for the certificate that are recorded
    /// with it, and by no more machines than it admits.
    pub(super) fn enrolments(&mut self, events: &[Event]) {
        for event in events {
            let EventKind::MachineEnrolled { token: serial, certificate } = &event.kind else {
                continue;
            };
            let Subject::Machine(machine) = event.subject else { continue };
            let Some(machine) = self.cell.machine(machine) else { continue };
            let before = self.before.token(*serial);
            let unused = before.is_some_and(|token| token.use_by(&machine.name).is_none());
            let unspent = before.is_some_and(|token| match &token.many {
                Some(many) => many.admitted.len() < many.most as usize,
                None => token.used.is_none(),
            });
            let unused = unused && unspent;
            let used = self.cell.token(*serial).and_then(|token| token.use_by(&machine.name));
            if !unused || used.is_none_or(|used| used.certificate != *certificate) {
                self.found.add(Violation::TokenAgain(*serial));
            }
        }
    }
}
