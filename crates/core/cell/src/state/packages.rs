//! Packages: what versions there are, who may use them, and which content they have.

use std::sync::Arc;

use imbl::OrdMap;
use model::{Package, PackageId, PackageName, PackageVersion, UserName};

/// All versions of packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packages {
    pub(crate) by_id: OrdMap<PackageId, Arc<Package>>,

    // Derived: recomputed when an image is loaded.
    /// What users have of them; users without any have no entry.
    pub(crate) of_users: OrdMap<UserName, HeldPackages>,
    /// The sum of it.
    pub(crate) all: HeldPackages,
}

/// An amount of packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldPackages {
    /// The number of versions.
    pub(crate) versions: u64,
    /// The bytes of their chunks.
    pub(crate) bytes: u64,
}

impl HeldPackages {
    fn of(package: &Package) -> Self {
        Self { versions: 1, bytes: package.stored.0 }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            versions: self.versions.saturating_add(more.versions),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            versions: self.versions.saturating_sub(less.versions),
            bytes: self.bytes.saturating_sub(less.bytes),
        }
    }
}

impl Packages {
    /// Inserts a version, or replaces what is known of it.
    pub(crate) fn put(&mut self, package: Arc<Package>) {
        self.remove(&package.id);
        let more = HeldPackages::of(&package);
        self.all = self.all.plus(more);
        let held = self.held_by(&package.id.owner).plus(more);
        self.of_users.insert(package.id.owner.clone(), held);
        self.by_id.insert(package.id.clone(), package);
    }

    /// Removes a version.
    pub(crate) fn remove(&mut self, id: &PackageId) -> Option<Arc<Package>> {
        let package = self.by_id.remove(id)?;
        let less = HeldPackages::of(&package);
        self.all = self.all.minus(less);
        let held = self.held_by(&id.owner).minus(less);
        if held == HeldPackages::default() {
            self.of_users.remove(&id.owner);
        } else {
            self.of_users.insert(id.owner.clone(), held);
        }
        Some(package)
    }

    /// What a user has.
    pub(crate) fn held_by(&self, user: &UserName) -> HeldPackages {
        self.of_users.get(user).copied().unwrap_or_default()
    }

    /// The same packages with everything derived computed anew.
    pub(crate) fn rebuilt(&self) -> Self {
        let mut rebuilt = Self::default();
        self.by_id.values().for_each(|package| rebuilt.put(Arc::clone(package)));
        rebuilt
    }
}

impl crate::Cell {
    /// A version of a package.
    #[must_use]
    pub fn package(&self, id: &PackageId) -> Option<&Arc<Package>> {
        self.packages.by_id.get(id)
    }

    /// The versions of a package.
    pub fn packages_named<'a>(
        &'a self,
        owner: &'a UserName,
        name: &'a PackageName,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Package>> {
        let is_it = move |id: &PackageId| id.owner == *owner && id.name == *name;
        // Before every version of the name, in the order of ids.
        let from = PackageId {
            owner: owner.clone(),
            name: name.clone(),
            version: PackageVersion::first(),
        };
        let versions: Vec<_> =
            self.packages.by_id.range(from..).take_while(|(id, _)| is_it(id)).collect();
        versions.into_iter().map(|(_, package)| package)
    }

    /// All versions of packages, by owner, name and version.
    pub fn packages(&self) -> impl Iterator<Item = &Arc<Package>> {
        self.packages.by_id.values()
    }
}
