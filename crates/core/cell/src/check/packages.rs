//! Packages: each is within its bounds, and every package that a live job uses exists.

use model::{PACKAGE_ARCHITECTURES_MAX, PackageReaders, SharedBound};

use super::{Violation, Violations};
use crate::Cell;
use crate::bounds::{
    PACKAGE_BYTES_MAX, PACKAGES_MAX, PACKAGES_OF_A_USER_MAX, READERS_OF_A_PACKAGE_MAX,
};

impl Cell {
    pub(super) fn check_packages_kept(&self, found: &mut Violations) {
        for (id, package) in &self.packages.by_id {
            found.at_most(
                "architectures of a package",
                package.architectures.len(),
                PACKAGE_ARCHITECTURES_MAX,
            );
            let mut wrong = |why| found.add(Violation::Package { id: id.clone(), why });
            if *id != package.id {
                wrong("is under another name");
            }
            if let PackageReaders::Users(users) = &package.readers {
                if users.contains(&id.owner) {
                    wrong("has its owner as a reader");
                }
                found.at_most("readers of a package", users.len(), READERS_OF_A_PACKAGE_MAX);
            }
        }
        for job in self.jobs().filter(|job| job.is_alive()) {
            for id in job.spec.packages(&job.owner) {
                if self.package(&id).is_none() {
                    found.add(Violation::Package {
                        id,
                        why: "is used by a live job and does not exist",
                    });
                }
            }
        }
        if self.packages.rebuilt() != self.packages {
            found.add(Violation::PackageCounts);
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let bound = |bound: SharedBound| count(bound.max());
        for held in self.packages.of_users.values() {
            found.at_most(
                "packages of a user",
                count(held.versions),
                count(PACKAGES_OF_A_USER_MAX),
            );
        }
        let all = self.packages.all;
        found.at_most("packages", count(all.versions), bound(PACKAGES_MAX));
        found.at_most("bytes of packages", count(all.bytes), bound(PACKAGE_BYTES_MAX));
    }
}
