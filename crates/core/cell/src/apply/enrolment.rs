//! Machines join with tokens, renew their certificates, and are revoked. A revocation affects only
//! certificates and tokens: the machine, and what runs there, is unchanged.

use std::sync::Arc;

use event::{EventKind, Subject};
use imbl::OrdMap;
use model::{
    Certificate, KeyDigest, Level, MachineId, MachineName, ReplicaId, Serial, Span, UserName,
};

use super::Events;
use crate::apply::mutation::Change;
use crate::bounds::{
    CERTIFICATE_VALIDITY_MAX, MACHINE_CERTIFICATE_VALIDITY_MIN, REVOKED_MACHINES_MAX,
    TOKEN_USES_MAX, TOKEN_VALIDITY_MAX, TOKEN_VALIDITY_MIN, TOKENS_MAX,
};
use crate::{
    Act, Admission, Cell, Countable, Credentials, MachinePermission, NotAdmitted, OutOfBounds,
    Permission, Rejection, ReplicaPermission, ReplicaToken, Reply, Token, TokenUse,
};

/// Issue a token with which a machine, which may be new, joins once; or with which many new ones
/// join, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueToken {
    /// The machine; or the beginning of the names of many.
    pub machine: MachineName,
    /// Serial number of the token's certificate, which identifies the token.
    pub serial: Serial,
    /// How long it is valid, from the time of this operation.
    pub validity: Span,
    /// How many machines it admits whose names begin with the name; `None` if it is for the machine
    /// of that name.
    pub most: Option<u32>,
}

impl Change for IssueToken {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || {
            let (machine, what) = (self.machine.clone(), MachinePermission::IssueToken);
            Permission::OfMachine { machine, what }
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { machine, serial, validity, most: uses } = self;
        let (serial, validity, uses) = (*serial, *validity, *uses);
        valid_for_token(validity)?;
        if let Some(uses) = uses.filter(|uses| !(1..=TOKEN_USES_MAX).contains(uses)) {
            return Err(Rejection::OutOfBounds(OutOfBounds::TokenUses(uses)));
        }
        let now = cell.time;
        if cell.token(serial).is_some_and(|known| known.expires > now) {
            return Err(Rejection::TokenExists(serial));
        }
        let (has, most) = (cell.tokens.live(now), TOKENS_MAX);
        if has >= most {
            let (has, most) = (has as u64, most as u64);
            return Err(Rejection::Full { what: Countable::JoinTokens, has, most });
        }
        cell.tokens.forget_expired(now);
        let (issued, expires) = (Act { at: now, by: by.clone() }, now + validity);
        let many = uses.map(|most| Admission { most, admitted: OrdMap::new() });
        let token = Token { machine: machine.clone(), issued, expires, used: None, many };
        cell.tokens.keep(serial, Arc::new(token));
        let (machine, token) = (machine.clone(), Certificate { serial, issued: now, expires });
        events.add(Subject::Cell, EventKind::TokenIssued { machine, token, most: uses });
        Ok(Reply::TokenIssued(token))
    }
}

/// Issue a token with which a replica's process joins once; it replaces an unused one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueReplicaToken {
    /// The replica: one that was added and whose process has not run yet.
    pub replica: ReplicaId,
    /// Serial number of the token's certificate, which identifies the token.
    pub serial: Serial,
    /// How long it is valid, from the time of this operation.
    pub validity: Span,
}

impl Change for IssueReplicaToken {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        let (replica, what) = (self.replica, ReplicaPermission::IssueToken);
        cell.only_administrators(by, || Permission::OfReplica { replica, what })
    }

    /// Allowed only until someone has joined with a token: a running replica has all that a token
    /// would give.
    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { replica: id, serial, validity } = *self;
        valid_for_token(validity)?;
        let now = cell.time;
        let replica = cell.replicas.records.get_mut(&id).filter(|replica| !replica.leaving);
        let replica = replica.ok_or(Rejection::NoSuchReplica(id))?;
        let joined = replica.token.is_some_and(|token| token.used.is_some());
        if joined || replica.level > Level(0) {
            return Err(Rejection::ReplicaHasJoined(id));
        }
        let certificate = Certificate { serial, issued: now, expires: now + validity };
        replica.token = Some(ReplicaToken { certificate, used: None });
        let issued = EventKind::ReplicaTokenIssued { replica: id, token: certificate };
        events.add(Subject::Cell, issued);
        Ok(Reply::TokenIssued(certificate))
    }
}

/// Revoke every certificate of a machine, and every token for it. The machine is kept, and its
/// tasks run until it is marked down as one that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeMachine {
    /// The machine; it need not exist.
    pub machine: MachineName,
}

impl Change for RevokeMachine {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfMachine {
            machine: self.machine.clone(),
            what: MachinePermission::Revoke,
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let name = &self.machine;
        let id = cell.machine_names.get(name).copied();
        let known = id.is_some()
            || cell.revoked_machines.contains_key(name)
            || cell.tokens().any(|(_, token)| token.machine == *name);
        if cell.tokens.forget_many(name) && !known_as_machine(cell, name) {
            events.add(Subject::Cell, EventKind::MachineRevoked { machine: name.clone() });
            return Ok(Reply::MachineRevoked { known });
        }
        let revoked = Some(Act { at: cell.time, by: by.clone() });
        let said = Arc::new(Credentials { certificates: Vec::new(), revoked });
        let subject = match id {
            Some(id) => {
                if let Some(machine) = cell.machines.get_mut(id) {
                    machine.credentials = Some(said);
                }
                Subject::Machine(id)
            }
            None => {
                cell.keep_revoked(name, said)?;
                Subject::Cell
            }
        };
        cell.tokens.forget_machine(name);
        events.add(subject, EventKind::MachineRevoked { machine: name.clone() });
        Ok(Reply::MachineRevoked { known })
    }
}

/// A machine that joins with a token.
pub(super) struct Joining<'a> {
    /// Its name, if the token is for many.
    pub(super) named: Option<&'a MachineName>,
    /// The address of its Borglet.
    pub(super) address: &'a str,
}

impl Cell {
    /// The same key gets the same answer again: the first one may have been lost.
    pub(super) fn enrol(
        &mut self,
        (serial, key): (Serial, KeyDigest),
        joins: &Joining<'_>,
        (certificate, validity): (Serial, Span),
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.enrolment_is_there()?;
        let token = self.token(serial).cloned().ok_or(Rejection::NoSuchToken(serial))?;
        let Joining { named, address } = *joins;
        let (name, now) = (token.joins(named), self.time);
        if token.expires <= now {
            return Err(Rejection::TokenExpired(name.clone()));
        }
        if let Some(used) = token.use_by(name) {
            if used.key != key {
                return Err(Rejection::TokenUsed(name.clone()));
            }
            // A name is admitted once, also if its machine was removed or revoked since.
            let is_there = self.machine_named(name).is_some()
                && self.accepts_machine(name, &used.certificate.serial);
            if token.many.is_some() && !is_there {
                let (machine, token) = (name.clone(), token.machine.clone());
                return Err(Rejection::NotAdmitted { machine, token, why: NotAdmitted::Known });
            }
            let machine = self.known_or_new_machine(name, address, events)?;
            return Ok(Reply::Enrolled { machine, certificate: used.certificate });
        }
        self.token_admits(&token, name)?;
        valid(validity)?;
        let machine = self.known_or_new_machine(name, address, events)?;
        let certificate = Certificate { serial: certificate, issued: now, expires: now + validity };
        self.certify(machine, certificate, None);
        let (used, mut token) = (TokenUse { key, certificate }, Token::clone(&token));
        match &mut token.many {
            Some(many) => drop(many.admitted.insert(name.clone(), used)),
            None => token.used = Some(used),
        }
        self.tokens.keep(serial, Arc::new(token));
        self.tokens.forget_expired(now);
        let enrolled = EventKind::MachineEnrolled { token: serial, certificate };
        events.add(Subject::Machine(machine), enrolled);
        Ok(Reply::Enrolled { machine, certificate })
    }

    /// Whether an unexpired token admits a machine that has not used it. One for many admits new
    /// machines only, so that it cannot be used in the place of another machine.
    fn token_admits(&self, token: &Token, name: &MachineName) -> Result<(), Rejection> {
        let why = match &token.many {
            None if *name == token.machine => return Ok(()),
            None => NotAdmitted::Name,
            Some(_)
                if *name == token.machine || !name.as_str().starts_with(token.machine.as_str()) =>
            {
                NotAdmitted::Name
            }
            Some(_) if known_as_machine(self, name) => NotAdmitted::Known,
            Some(Admission { most, admitted }) if admitted.len() >= *most as usize => {
                NotAdmitted::Spent { most: *most }
            }
            Some(_) => return Ok(()),
        };
        let (machine, token) = (name.clone(), token.machine.clone());
        Err(Rejection::NotAdmitted { machine, token, why })
    }

    /// The same key gets the same answer again: the first one may have been lost.
    pub(super) fn join_replica(
        &mut self,
        id: ReplicaId,
        serial: Serial,
        key: KeyDigest,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.enrolment_is_there()?;
        let now = self.time;
        let replica = self.replicas.records.get_mut(&id).filter(|replica| !replica.leaving);
        let token = replica.and_then(|replica| replica.token.as_mut());
        let token = token.filter(|token| token.certificate.serial == serial);
        let token = token.filter(|token| token.certificate.expires > now);
        let token = token.ok_or(Rejection::NoSuchToken(serial))?;
        match token.used {
            Some(used) if used == key => {}
            Some(_) => return Err(Rejection::ReplicaTokenUsed(id)),
            None => {
                token.used = Some(key);
                let joined = EventKind::ReplicaJoined { replica: id, token: serial };
                events.add(Subject::Cell, joined);
            }
        }
        Ok(Reply::Done)
    }

    /// A certificate that was already issued is returned again: the first answer may have been
    /// lost.
    pub(super) fn renew_machine(
        &mut self,
        name: &MachineName,
        old: Serial,
        (serial, validity): (Serial, Span),
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.enrolment_is_there()?;
        let id = self.machine_id(name)?;
        if !self.accepts_machine(name, &old) {
            return Err(Rejection::MachineRevoked(name.clone()));
        }
        valid(validity)?;
        let now = self.time;
        let known = self.credentials(name).and_then(|said| said.issued(serial));
        if let Some(known) = known.filter(|known| known.expires > now) {
            return Ok(Reply::MachineRenewed(known));
        }
        let certificate = Certificate { serial, issued: now, expires: now + validity };
        self.certify(id, certificate, Some(old));
        events.add(Subject::Machine(id), EventKind::MachineRenewed { certificate });
        Ok(Reply::MachineRenewed(certificate))
    }

    /// Removes the certificates and tokens of a machine that is removed; a revocation is kept, in
    /// case a machine of that name is added again.
    pub(super) fn credentials_leave(&mut self, id: MachineId) -> Result<(), Rejection> {
        let Some(machine) = self.machines.get(id) else { return Ok(()) };
        let name = machine.name.clone();
        if let Some(said) = machine.credentials.clone().filter(|said| said.revoked.is_some()) {
            self.keep_revoked(&name, said)?;
        }
        self.tokens.forget_machine(&name);
        Ok(())
    }

    fn keep_revoked(
        &mut self,
        name: &MachineName,
        said: Arc<Credentials>,
    ) -> Result<(), Rejection> {
        let (has, most) = (self.revoked_machines.len(), REVOKED_MACHINES_MAX);
        if has >= most && !self.revoked_machines.contains_key(name) {
            let what = Countable::RevokedMachines;
            return Err(Rejection::Full { what, has: has as u64, most: most as u64 });
        }
        self.revoked_machines.insert(name.clone(), said);
        Ok(())
    }

    fn certify(&mut self, id: MachineId, certificate: Certificate, in_use: Option<Serial>) {
        if let Some(machine) = self.machines.get_mut(id) {
            let said = machine.credentials.get_or_insert_default();
            Arc::make_mut(said).add(certificate, in_use);
        }
    }

    fn enrolment_is_there(&self) -> Result<(), Rejection> {
        if self.name.is_none() {
            return Err(Rejection::NotBootstrapped);
        }
        Ok(())
    }
}

/// Whether there is a machine of that name, or the name is revoked.
fn known_as_machine(cell: &Cell, name: &MachineName) -> bool {
    cell.machine_names.contains_key(name) || cell.revoked_machines.contains_key(name)
}

fn valid_for_token(validity: Span) -> Result<(), Rejection> {
    let may = TOKEN_VALIDITY_MIN..=TOKEN_VALIDITY_MAX;
    if may.contains(&validity) { Ok(()) } else { Err(Rejection::TokenValidity(validity)) }
}

fn valid(validity: Span) -> Result<(), Rejection> {
    let may = MACHINE_CERTIFICATE_VALIDITY_MIN..=CERTIFICATE_VALIDITY_MAX;
    if may.contains(&validity) { Ok(()) } else { Err(Rejection::Validity(validity)) }
}
