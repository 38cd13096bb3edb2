//! Users: added with a certificate, and revoked. A revocation affects only certificates: what the
//! user runs and may do is unchanged, for when they are added again.

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{Certificate, LogIndex, Serial, SessionId, Span, UserName};

use super::Events;
use crate::apply::mutation::Change;
use crate::bounds::{
    CERTIFICATE_VALIDITY_MAX, CERTIFICATE_VALIDITY_MIN, CERTIFICATES_OF_A_USER_MAX, USERS_MAX,
};
use crate::{Act, Cell, Countable, Permission, Rejection, Reply, User, UserPermission};

/// Issue a certificate to a user, who may be new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddUser {
    /// The user.
    pub user: UserName,
    /// The certificate's serial number.
    pub serial: Serial,
    /// How long it is valid, from the time of this operation.
    pub validity: Span,
}

impl Change for AddUser {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfUser {
            user: self.user.clone(),
            what: UserPermission::Add,
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { user: name, serial, validity } = self;
        let (serial, validity) = (*serial, *validity);
        if !(CERTIFICATE_VALIDITY_MIN..=CERTIFICATE_VALIDITY_MAX).contains(&validity) {
            return Err(Rejection::Validity(validity));
        }
        let mut user = cell.user_or_new(name)?;
        let now = cell.time;
        user.certificates.retain(|known| known.expires > now && known.serial != serial);
        let (has, most) = (user.certificates.len(), CERTIFICATES_OF_A_USER_MAX);
        if has >= most {
            let what = Countable::CertificatesOf(name.clone());
            return Err(Rejection::Full { what, has: has as u64, most: most as u64 });
        }
        let certificate = Certificate { serial, issued: now, expires: now + validity };
        user.certificates.push(certificate);
        user.added.get_or_insert_with(|| Act { at: now, by: by.clone() });
        cell.users.insert(name.clone(), Arc::new(user));
        events.add(Subject::Cell, EventKind::UserAdded { user: name.clone(), certificate });
        Ok(Reply::UserAdded(certificate))
    }
}

/// Revoke every certificate of a user. Their tasks keep running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeUser {
    /// The user.
    pub user: UserName,
}

impl Change for RevokeUser {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfUser {
            user: self.user.clone(),
            what: UserPermission::Revoke,
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let name = &self.user;
        if by == name {
            return Err(Rejection::RevokesOneself(name.clone()));
        }
        if cell.is_administrator(name) {
            cell.another_administers(name)?;
        }
        let known = cell.knows(name);
        let mut user = cell.user_or_new(name)?;
        user.certificates.clear();
        user.revoked = Some(Act { at: cell.time, by: by.clone() });
        cell.users.insert(name.clone(), Arc::new(user));
        events.add(Subject::Cell, EventKind::UserRevoked { user: name.clone() });
        Ok(Reply::UserRevoked { known })
    }
}

impl Cell {
    /// The user's record, or a new one, to be changed.
    fn user_or_new(&self, name: &UserName) -> Result<User, Rejection> {
        match self.users.get(name) {
            Some(user) => Ok(User::clone(user)),
            None if self.users.len() < USERS_MAX => Ok(User::default()),
            None => Err(Rejection::Full {
                what: Countable::Users,
                has: self.users.len() as u64,
                most: USERS_MAX as u64,
            }),
        }
    }

    /// Whether a user has a session.
    pub(super) fn has_sessions(&self, name: &UserName) -> bool {
        let session = (name.clone(), LogIndex(0), SessionId(0));
        let mut sessions = self.sessions_of_users.range(session..);
        sessions.next().is_some_and(|(user, ..)| user == name)
    }

    /// Whether the cell has any record of a user.
    fn knows(&self, name: &UserName) -> bool {
        self.users.contains_key(name)
            || self.is_administrator(name)
            || self.has_sessions(name)
            || self.jobs().any(|job| job.owner == *name)
    }
}
