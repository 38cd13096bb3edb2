//! The caller of a request, and whether its certificate is still accepted.

pub(crate) mod tasks;

use cell::Cell;
use model::{Asker, Capability, Serial, Time, UserName};
use rpc::transport::Cause;
use tasks::Denied;

/// The caller of a request, and its certificate.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserName,
    pub(super) serial: Serial,
    /// When the certificate was issued, if the caller is a task of the user.
    pub(super) task: Option<Time>,
}

#[cfg(test)]
impl Caller {
    /// A user with some certificate.
    pub(super) fn of(name: &str) -> Self {
        let user = UserName::new(name).unwrap_or_else(|error| unreachable!("{error}"));
        let serial = Serial::from_bytes(&[1]).unwrap_or_else(|| unreachable!("one byte"));
        Self { user, serial, task: None }
    }

    /// A task of a user.
    pub(super) fn task_of(name: &str) -> Self {
        Self { task: Some(Time(1)), ..Self::of(name) }
    }
}

impl Caller {
    /// Whether the caller may act on everybody's jobs like their owners. Tasks never may, whoever
    /// their user is.
    pub(super) fn administers_jobs(&self, cell: &Cell) -> bool {
        self.task.is_none() && cell.may(&self.user, Capability::AdministerJobs)
    }

    /// What part of a shared bound it may take: tasks are never administrators, whoever their user is.
    pub(super) fn asker(&self, cell: &Cell) -> Asker {
        match self.task.is_none() && cell.is_administrator(&self.user) {
            true => Asker::Administrator,
            false => Asker::User,
        }
    }

    /// Whether its certificate is accepted in a cell at a time.
    pub(super) fn accepted(&self, cell: &Cell, now: Time) -> Result<(), Denied> {
        match self.task {
            Some(issued) => tasks::accepted(cell, &self.user, self.serial, issued, now).map(drop),
            None if cell.accepts(&self.user, self.serial) => Ok(()),
            None => Err(Denied { cause: Cause::Revoked, why: revoked(cell, &self.user, now) }),
        }
    }
}

/// The error for a user whose certificate was revoked.
pub(super) fn revoked(cell: &Cell, user: &UserName, now: Time) -> String {
    let revoked = cell.user(user).and_then(|known| known.revoked.as_ref());
    let since = revoked.map(|act| format!(" {} ago by {}", now.since(act.at), act.by));
    format!(
        "the certificates that {user} had were revoked{}: ask an administrator of the cell for a new \
         one (bourg user add {user})",
        since.unwrap_or_default()
    )
}
