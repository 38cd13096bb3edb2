//! Secrets: see [`model::Secret`]. Whether a content can be opened is not known here: masters seal it before they
//! propose the operation, with a nonce that they choose.

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{
    InstanceId, MachineName, Sealed, Secret, SecretKeyId, SecretName, SecretVersion, UserName,
};
use spec::JobSpec;

use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{SEALED_BYTES_MAX, SECRET_VERSIONS_MAX, SECRETS_OF_A_USER_MAX};
use crate::{Cell, CellPermission, Countable, Job, OutOfBounds, Permission, Rejection, Reply};

/// Add a version of a secret of the user, which may be new. The oldest version is dropped if there are too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSecret {
    /// Its name.
    pub name: SecretName,
    /// Its content.
    pub sealed: Sealed,
}

impl Change for SetSecret {
    fn within_bounds(&self) -> Result<(), Rejection> {
        let bytes = self.sealed.bytes.len() as u64;
        if bytes > SEALED_BYTES_MAX {
            return Err(Rejection::OutOfBounds(OutOfBounds::SealedBytes(bytes)));
        }
        Ok(())
    }

    /// Users change their own.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let before = cell.secret(by, &self.name);
        let mut versions = before.map(|secret| secret.versions.clone()).unwrap_or_default();
        let last = versions.last().map_or(0, |version| version.number);
        let Some(number) = last.checked_add(1) else {
            let most = u64::from(u32::MAX);
            return Err(Rejection::Full {
                what: Countable::SecretsOf(by.clone()),
                has: most,
                most,
            });
        };
        let is_new = before.is_none();
        if is_new {
            let of_user = cell.secrets.held_by(by).number;
            full(Countable::SecretsOf(by.clone()), of_user, SECRETS_OF_A_USER_MAX)?;
        }
        cell.room_for_secret(by, is_new, self.sealed.bytes.len() as u64)?;
        versions.push(SecretVersion { number, set: cell.time, sealed: self.sealed.clone() });
        let drop = versions.len().saturating_sub(SECRET_VERSIONS_MAX);
        versions.drain(..drop);
        let (owner, name) = (by.clone(), self.name.clone());
        cell.secrets.put(Arc::new(Secret { owner, name, versions }));
        let (owner, name) = (by.clone(), self.name.clone());
        events.add(Subject::Cell, EventKind::SecretSet { owner, name, version: number });
        Ok(Reply::SecretSet { version: number })
    }
}

/// Delete a secret of the user that no live job names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteSecret(pub SecretName);

impl Change for DeleteSecret {
    /// Users change their own.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let (owner, name) = (by.clone(), self.0.clone());
        if cell.secret(by, &name).is_none() {
            return Err(Rejection::NoSuchSecret { owner, name });
        }
        let names_it = |job: &&Arc<Job>| job.is_alive() && job.owner == *by && job.names(&name);
        if let Some(job) = cell.jobs().find(names_it) {
            let job = job.spec.name.clone();
            return Err(Rejection::SecretInUse { owner, name, job });
        }
        cell.secrets.remove(&(owner.clone(), name.clone()));
        events.add(Subject::Cell, EventKind::SecretDeleted { owner, name });
        Ok(Reply::Done)
    }
}

/// Replace the content of a secret by the same content sealed with another key. Versions that are not there any more
/// are ignored, as are those that are sealed with another key than that from which they were opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResealSecret {
    /// Its owner.
    pub owner: UserName,
    /// Its name.
    pub name: SecretName,
    /// Versions by number, each with the key with which it was sealed and its new content.
    pub versions: Vec<ResealedVersion>,
}

/// A version that is sealed anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResealedVersion {
    /// Its number.
    pub number: u32,
    /// The key with which it was sealed.
    pub from: SecretKeyId,
    /// Its content.
    pub sealed: Sealed,
}

impl Change for ResealSecret {
    fn within_bounds(&self) -> Result<(), Rejection> {
        let bytes = self.versions.iter().map(|version| version.sealed.bytes.len() as u64).max();
        match bytes {
            Some(bytes) if bytes > SEALED_BYTES_MAX => {
                Err(Rejection::OutOfBounds(OutOfBounds::SealedBytes(bytes)))
            }
            _ => Ok(()),
        }
    }

    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::RotateSecretKey))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let (owner, name) = (self.owner.clone(), self.name.clone());
        let Some(before) = cell.secret(&owner, &name).cloned() else {
            return Err(Rejection::NoSuchSecret { owner, name });
        };
        let mut secret = Secret::clone(&before);
        for version in &mut secret.versions {
            let from = (version.number, version.sealed.key);
            // Sealing adds the same number of bytes with every key.
            let fits = |new: &&ResealedVersion| {
                (new.number, new.from) == from
                    && new.sealed.bytes.len() == version.sealed.bytes.len()
            };
            if let Some(new) = self.versions.iter().find(fits) {
                version.sealed = new.sealed.clone();
            }
        }
        if secret != *before {
            cell.secrets.put(Arc::new(secret));
            events.add(Subject::Cell, EventKind::SecretResealed { owner, name });
        }
        Ok(Reply::Done)
    }
}

impl Job {
    /// Whether a description that it has or may go back to names a secret.
    fn names(&self, name: &SecretName) -> bool {
        let others = self.others.iter().map(|(_, spec)| spec);
        others.chain([&self.spec]).any(|spec| spec.secrets().any(|named| named == name))
    }
}

impl Cell {
    /// Rejects a description that names a secret that its owner does not have. Those that the job names already are
    /// there: they cannot be deleted.
    pub(super) fn check_secrets(&self, owner: &UserName, spec: &JobSpec) -> Result<(), Rejection> {
        match spec.secrets().find(|name| self.secret(owner, name).is_none()) {
            None => Ok(()),
            Some(name) => {
                let (owner, name) = (owner.clone(), name.clone());
                Err(Rejection::NoSuchSecret { owner, name })
            }
        }
    }

    /// The description with which an instance is on a machine, with its owner.
    ///
    /// # Errors
    /// If another one, or none, is there.
    pub fn placed_on(
        &self,
        machine: &MachineName,
        instance: InstanceId,
    ) -> Result<(&UserName, &Arc<JobSpec>), Rejection> {
        let InstanceId { collection, index, .. } = instance;
        let job = self.jobs.get(collection).ok_or(Rejection::NoSuchCollection(collection))?;
        let on = self.machine_named(machine);
        let is_there = on.is_some_and(|on| on.instances().contains(&instance));
        if !is_there || job.instance(index) != Some(instance) {
            let (owner, name) = (job.owner.clone(), job.spec.name.clone());
            return Err(Rejection::InstanceEnded { owner, name, index });
        }
        Ok((&job.owner, job.described(index)))
    }

    /// Records that a machine reads the secrets of an instance that is placed there, and the names to which its
    /// description refers.
    pub(super) fn read_secrets(
        &mut self,
        machine: &MachineName,
        instance: InstanceId,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let (owner, spec) = self.placed_on(machine, instance)?;
        for name in spec.secrets() {
            let version = self.secret(owner, name).and_then(|secret| secret.newest());
            let Some(version) = version.map(|version| version.number) else {
                let (owner, name) = (owner.clone(), name.clone());
                return Err(Rejection::NoSuchSecret { owner, name });
            };
            let name = name.clone();
            events.add(Subject::Task(instance), EventKind::SecretRead { name, version });
        }
        self.note_inputs(instance, events);
        Ok(Reply::Done)
    }
}
