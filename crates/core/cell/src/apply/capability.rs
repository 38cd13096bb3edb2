//! Authorisation: owners, administrators, and users with capabilities.

use event::{EventKind, Subject};
use model::{Capability, CollectionId, JobName, UserName};
use spec::JobSpec;

use super::Events;
use crate::apply::mutation::Change;
use crate::bounds::CAPABILITY_HOLDERS_MAX;
use crate::{Cell, Countable, JobPermission, Permission, Permitted, Rejection, Reply};

/// Record that a user accesses another user's job in a way that changes nothing in the cell, such
/// as reading its logs, and that only a capability allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseCapability {
    /// The capability.
    pub capability: Capability,
    /// The job.
    pub collection: CollectionId,
}

impl Change for UseCapability {
    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    /// Records the use of a capability on another user's job. Owners need none for their own.
    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { capability, collection: id } = *self;
        let job = cell.jobs.get(id).ok_or(Rejection::NoSuchCollection(id))?;
        if job.owner == *by {
            return Ok(Reply::Done);
        }
        if !cell.may(by, capability) {
            let (owner, name) = (job.owner.clone(), job.spec.name.clone());
            let what = Permission::UseCapability { owner, name, capability };
            return Err(not_allowed(by, what, Permitted::Holders(capability)));
        }
        events.add(Subject::Job(id), EventKind::CapabilityUsed { capability });
        Ok(Reply::Done)
    }
}

/// Grant a capability to a user, or take it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCapability {
    /// The user.
    pub user: UserName,
    /// The capability.
    pub capability: Capability,
    /// Whether to grant it.
    pub granted: bool,
}

impl Change for SetCapability {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        let Self { user, capability, granted } = self;
        let (capability, granted) = (*capability, *granted);
        cell.only_administrators(by, || {
            let user = user.clone();
            Permission::SetCapability { user, capability, granted }
        })
    }

    /// Grants a capability, or takes it away.
    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { user, capability, granted } = self;
        let (capability, granted) = (*capability, *granted);
        let first = capability == Capability::AdministerCell && cell.administrators.contains(user);
        if (first || cell.holds(user, capability)) == granted {
            return Ok(Reply::Done);
        }
        if capability == Capability::AdministerCell && !granted {
            cell.another_administers(user)?;
            // The bootstrap made the first administrator one without granting the capability.
            cell.administrators.remove(user);
        }
        let has = cell.capabilities.len();
        if granted && has >= CAPABILITY_HOLDERS_MAX && !cell.capabilities.contains_key(user) {
            let (what, most) = (Countable::CapabilityHolders, CAPABILITY_HOLDERS_MAX as u64);
            return Err(Rejection::Full { what, has: has as u64, most });
        }
        let mut of_user = cell.capabilities.get(user).cloned().unwrap_or_default();
        let user = user.clone();
        let kind = match granted {
            true => {
                of_user.insert(capability);
                EventKind::CapabilityGranted { user: user.clone(), capability }
            }
            false => {
                of_user.remove(&capability);
                EventKind::CapabilityRevoked { user: user.clone(), capability }
            }
        };
        match of_user.is_empty() {
            true => drop(cell.capabilities.remove(&user)),
            false => drop(cell.capabilities.insert(user, of_user)),
        }
        events.add(Subject::Cell, kind);
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Checks that an administrator is left without this user: one whose certificates are accepted.
    pub(super) fn another_administers(&self, user: &UserName) -> Result<(), Rejection> {
        // A name without a certificate or a session may be a typing error. The cell has no record of the first
        // administrator's certificates.
        let heard = |other: &&UserName| match self.users.get(*other) {
            Some(of) if of.is_shut_out() => false,
            Some(of) if of.certificates.iter().any(|known| known.expires > self.time) => true,
            _ => self.administrators.contains(*other) || self.has_sessions(other),
        };
        match self.administrators().filter(heard).any(|other| other != user) {
            true => Ok(()),
            false => Err(Rejection::LastAdministrator(user.clone())),
        }
    }

    /// Whether a user has a capability: administrators have all of them.
    #[must_use]
    pub fn may(&self, user: &UserName, capability: Capability) -> bool {
        self.is_administrator(user) || self.holds(user, capability)
    }

    /// Whether a user was granted a capability.
    pub(crate) fn holds(&self, user: &UserName, capability: Capability) -> bool {
        self.capabilities.get(user).is_some_and(|granted| granted.contains(&capability))
    }

    pub(super) fn only_holders(
        &self,
        by: &UserName,
        capability: Capability,
        what: impl FnOnce() -> Permission,
    ) -> Result<(), Rejection> {
        match self.may(by, capability) {
            true => Ok(()),
            false => Err(not_allowed(by, what(), Permitted::Holders(capability))),
        }
    }

    /// Emits the event that a capability was used. For administrators no event is emitted.
    pub(super) fn used(
        &self,
        by: &UserName,
        capability: Capability,
        on: Subject,
        events: &mut Events,
    ) {
        if self.holds(by, capability) && !self.is_administrator(by) {
            events.add(on, EventKind::CapabilityUsed { capability });
        }
    }

    /// The capabilities that are needed to submit a description, besides being its owner.
    fn check_needed_capabilities(&self, by: &UserName, spec: &JobSpec) -> Result<(), Rejection> {
        for (capability, _) in spec.capabilities() {
            self.only_holders(by, capability, || Permission::SubmitWith(capability))?;
        }
        Ok(())
    }

    /// Whether a user may submit a description, and its static ports can be had in this cell.
    pub(super) fn may_submit(&self, by: &UserName, spec: &JobSpec) -> Result<(), Rejection> {
        self.check_needed_capabilities(by, spec)?;
        for (port, number) in &spec.task.static_ports {
            let ranges = self.machines().map(|it| it.report.ports);
            let mut ranges = ranges.filter(|range| !range.is_empty());
            // With one machine that may have it, it waits for that one.
            if let Some(range) = ranges.next().filter(|range| range.contains(*number))
                && ranges.all(|range| range.contains(*number))
            {
                let (port, number) = (port.clone(), *number);
                return Err(Rejection::StaticPortOfMachines { port, number, range });
            }
        }
        Ok(())
    }

    /// Emits events for the capabilities that a submitted description needed.
    pub(super) fn used_for(
        &self,
        by: &UserName,
        job: CollectionId,
        spec: &JobSpec,
        events: &mut Events,
    ) {
        for (capability, _) in spec.capabilities() {
            self.used(by, capability, Subject::Job(job), events);
        }
    }
}

/// The rejection of what a user may not do with a job, and its owner may.
pub(super) fn not_the_owner(
    by: &UserName,
    (owner, name): (&UserName, &JobName),
    what: JobPermission,
    capability: Capability,
) -> Rejection {
    let who = Permitted::OwnerOrHolders { owner: owner.clone(), capability };
    not_allowed(by, what.of(owner, name), who)
}

/// The rejection of what a user may not do.
pub(super) fn not_allowed(by: &UserName, what: Permission, who: Permitted) -> Rejection {
    Rejection::NotAllowed { by: by.clone(), what, who }
}
