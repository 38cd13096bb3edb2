//! The packages of tasks: how many, and that each has a place of its own.

use std::collections::BTreeSet;

use model::PackageReference;

use super::{ProblemKind, Problems};
use crate::limits;
use crate::path::Location;

impl Problems {
    pub(super) fn packages(&mut self, at: &Location<'_>, packages: &BTreeSet<PackageReference>) {
        self.count(at, packages.len(), limits::PACKAGES_MAX, "packages");
        let mut names = BTreeSet::new();
        for (position, package) in packages.iter().enumerate() {
            if !names.insert(&package.name) {
                self.add(&at.element(position), ProblemKind::SamePackageName);
            }
        }
    }
}
