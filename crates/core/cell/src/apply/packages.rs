//! Packages: see [`model::Package`]. Whether a store has the content is not checked here: the master does, before
//! it proposes the operation.

use std::collections::BTreeSet;
use std::sync::Arc;

use event::{EventKind, Subject};
use model::{
    Capability, InstanceId, MachineName, PACKAGE_ARCHITECTURES_MAX, Package, PackageId,
    PackageKind, PackageReaders, UserName,
};
use spec::JobSpec;

use super::capability::not_allowed;
use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{PACKAGES_OF_A_USER_MAX, READERS_OF_A_PACKAGE_MAX};
use crate::{
    Cell, Countable, Job, LastIncarnation, PackagePermission, PackageProblem, Permission,
    Permitted, Rejection, Reply, TaskState,
};

/// Add a version of a package, or change who may use one. The content of a version never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPackage(pub Arc<Package>);

impl Change for SetPackage {
    fn within_bounds(&self) -> Result<(), Rejection> {
        let Package { id, readers, architectures, .. } = &*self.0;
        let invalid = |why| Err(Rejection::InvalidPackage { id: id.clone(), why });
        if architectures.len() > PACKAGE_ARCHITECTURES_MAX {
            let number = architectures.len() as u64;
            return invalid(PackageProblem::Architectures { number });
        }
        let PackageReaders::Users(users) = readers else { return Ok(()) };
        if users.contains(&id.owner) {
            return invalid(PackageProblem::OwnerAsReader);
        }
        if users.len() > READERS_OF_A_PACKAGE_MAX {
            return invalid(PackageProblem::Readers { number: users.len() as u64 });
        }
        Ok(())
    }

    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_change_package(by, &self.0.id, PackagePermission::Set)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let Package { id, digest, readers, .. } = &*self.0;
        let before = cell.package(id).cloned();
        let package = match &before {
            Some(before) if before.digest != *digest => {
                let (id, digest) = (id.clone(), before.digest);
                return Err(Rejection::PackageVersionExists { id, digest });
            }
            Some(before) if before.readers == *readers => {
                return Ok(Reply::PackageSet { existed: true });
            }
            Some(before) => {
                Arc::new(Package { readers: readers.clone(), ..Package::clone(before) })
            }
            None => {
                cell.room_for_version(by, &self.0)?;
                Arc::clone(&self.0)
            }
        };
        cell.packages.put(Arc::clone(&package));
        cell.change_of_package(by, id, events);
        let existed = before.is_some();
        events.add(Subject::Cell, EventKind::PackageSet { package, replaced: existed });
        Ok(Reply::PackageSet { existed })
    }
}

impl Cell {
    /// Rejects a new version for which there is no room.
    fn room_for_version(&self, by: &UserName, package: &Package) -> Result<(), Rejection> {
        let owner = &package.id.owner;
        let what = Countable::PackagesOf(owner.clone());
        full(what, self.packages.held_by(owner).versions, PACKAGES_OF_A_USER_MAX)?;
        self.room_for_package(by, package)
    }

    /// The version that the outputs of an instance become, which is the last of its task and has ended on a machine.
    /// `None` if its job wants none.
    ///
    /// # Errors
    /// If it has not ended there, or is not the last any more.
    pub fn left_on(
        &self,
        machine: &MachineName,
        instance: InstanceId,
    ) -> Result<Option<PackageId>, Rejection> {
        let InstanceId { collection, index, generation } = instance;
        let job = self.jobs.get(collection).ok_or(Rejection::NoSuchCollection(collection))?;
        let task = job.task(index).filter(|task| matches!(task.state, TaskState::Dead { .. }));
        let last = task.and_then(|task| task.last_incarnation.as_deref());
        let on = self.machine_named(machine).map(|machine| machine.id);
        let is_left =
            |last: &LastIncarnation| last.generation == generation && Some(last.machine) == on;
        if !last.is_some_and(is_left) {
            let (owner, name) = (job.owner.clone(), job.spec.name.clone());
            return Err(Rejection::InstanceEnded { owner, name, index });
        }
        Ok(job.described(index).task.outputs.version_of(&job.owner, instance))
    }

    /// Adds the version that the outputs of an instance become, in the name of the owner of the job.
    pub(super) fn add_outputs(
        &mut self,
        machine: &MachineName,
        instance: InstanceId,
        package: &Arc<Package>,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        SetPackage(Arc::clone(package)).within_bounds()?;
        let id = &package.id;
        if self.left_on(machine, instance)?.as_ref() != Some(id) {
            return Err(Rejection::NoSuchPackage { id: id.clone() });
        }
        match self.package(id) {
            // The machine has not heard of it. Its owner may have shared it since.
            Some(before) if before.digest == package.digest => {
                return Ok(Reply::PackageSet { existed: true });
            }
            Some(before) => {
                let (id, digest) = (id.clone(), before.digest);
                return Err(Rejection::PackageVersionExists { id, digest });
            }
            None => self.room_for_version(&id.owner, package)?,
        }
        self.packages.put(Arc::clone(package));
        let package = Arc::clone(package);
        events.add(Subject::Task(instance), EventKind::PackageSet { package, replaced: false });
        Ok(Reply::PackageSet { existed: false })
    }
}

/// Delete a version of a package that no live job uses. Its name and version can then be given to another content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletePackage(pub PackageId);

impl Change for DeletePackage {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_change_package(by, &self.0, PackagePermission::Delete)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let id = &self.0;
        if cell.package(id).is_none() {
            return Err(Rejection::NoSuchPackage { id: id.clone() });
        }
        if let Some(job) = cell.jobs().find(|job| job.is_alive() && job.uses(id)) {
            let (owner, job) = (job.owner.clone(), job.spec.name.clone());
            return Err(Rejection::PackageInUse { id: id.clone(), owner, job });
        }
        cell.packages.remove(id);
        cell.change_of_package(by, id, events);
        events.add(Subject::Cell, EventKind::PackageDeleted { id: id.clone() });
        Ok(Reply::Done)
    }
}

impl Job {
    /// Whether a description that it has or may go back to uses a version of a package.
    #[must_use]
    pub fn uses(&self, id: &PackageId) -> bool {
        self.packages().any(|used| used == *id)
    }

    /// The versions of packages that its descriptions use: the one that it has, and those that it may go back to.
    pub fn packages(&self) -> impl Iterator<Item = PackageId> + '_ {
        let others = self.others.iter().map(|(_, spec)| spec);
        others.chain([&self.spec]).flat_map(|spec| spec.packages(&self.owner))
    }
}

impl Cell {
    /// The versions of packages that live jobs use or may go back to; the others can be deleted.
    #[must_use]
    pub fn used_packages(&self) -> BTreeSet<PackageId> {
        self.jobs().filter(|job| job.is_alive()).flat_map(|job| job.packages()).collect()
    }

    /// Rejects a description of a user's job that uses packages that do not exist, that the user may not use, or that
    /// are not of the kind that it needs.
    /// Those that the job has already are not checked again: what was admitted goes on.
    pub(super) fn check_packages(
        &self,
        owner: &UserName,
        spec: &JobSpec,
        had: Option<&Job>,
    ) -> Result<(), Rejection> {
        let root = spec.task.image.as_ref().map(|image| image.of(owner));
        let is_new = |job: &Job| {
            job.spec.task.image != spec.task.image || job.spec.task.packages != spec.task.packages
        };
        if let Some(id) = &root
            && had.is_none_or(is_new)
            && spec.task.packages.iter().any(|package| package.of(owner) == *id)
        {
            let why = PackageProblem::UsedTwice;
            return Err(Rejection::InvalidPackage { id: id.clone(), why });
        }
        for id in spec.packages(owner).filter(|id| !had.is_some_and(|job| job.uses(id))) {
            let Some(package) = self.package(&id) else {
                return Err(Rejection::NoSuchPackage { id });
            };
            if !package.admits(owner) {
                let user = id.owner.clone();
                let what = Permission::OfPackage { id, what: PackagePermission::Use };
                return Err(not_allowed(owner, what, Permitted::User(user)));
            }
            let is_root = root.as_ref() == Some(&id);
            let why = match (is_root, package.kind) {
                (true, PackageKind::Files) => PackageProblem::NotAnImage,
                (false, PackageKind::Image) => PackageProblem::IsAnImage,
                (true, PackageKind::Image) | (false, PackageKind::Files) => continue,
            };
            return Err(Rejection::InvalidPackage { id, why });
        }
        Ok(())
    }

    /// Whether a user may add a version of a package, or change who may use it.
    ///
    /// # Errors
    /// When the user may not.
    pub fn may_set_package(&self, by: &UserName, id: &PackageId) -> Result<(), Rejection> {
        self.may_change_package(by, id, PackagePermission::Set)
    }

    /// A user may change a package who may change its owner's jobs.
    fn may_change_package(
        &self,
        by: &UserName,
        id: &PackageId,
        what: PackagePermission,
    ) -> Result<(), Rejection> {
        let (owner, capability) = (id.owner.clone(), Capability::AdministerJobs);
        if *by == owner || self.may(by, capability) {
            return Ok(());
        }
        let what = Permission::OfPackage { id: id.clone(), what };
        Err(not_allowed(by, what, Permitted::OwnerOrHolders { owner, capability }))
    }

    /// Emits the event that somebody used a capability for a package of another user.
    fn change_of_package(&self, by: &UserName, id: &PackageId, events: &mut Events) {
        if *by != id.owner {
            self.used(by, Capability::AdministerJobs, Subject::Cell, events);
        }
    }
}
