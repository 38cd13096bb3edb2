//! Secrets: those that live jobs name exist, versions ascend, and each is within its bounds.

use super::{Violation, Violations};
use crate::Cell;
use crate::bounds::{
    SEALED_BYTES_MAX, SECRET_BYTES_IN_ALL_MAX, SECRET_VERSIONS_MAX, SECRETS_MAX,
    SECRETS_OF_A_USER_MAX,
};

impl Cell {
    pub(super) fn check_secrets_kept(&self, found: &mut Violations) {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        for (key, secret) in &self.secrets.by_name {
            let mut wrong = |why| {
                let (owner, name) = (secret.owner.clone(), secret.name.clone());
                found.add(Violation::Secret { owner, name, why });
            };
            if (&secret.owner, &secret.name) != (&key.0, &key.1) {
                wrong("is under another name");
            }
            if secret.versions.is_empty() {
                wrong("has no version");
            }
            if secret.versions.iter().any(|version| version.number == 0) {
                wrong("has a version 0");
            }
            if secret.versions.windows(2).any(|pair| pair[0].number >= pair[1].number) {
                wrong("has versions that do not ascend");
            }
            found.at_most("versions of a secret", secret.versions.len(), SECRET_VERSIONS_MAX);
            for version in &secret.versions {
                let bytes = version.sealed.bytes.len();
                found.at_most("bytes of a secret", bytes, size(SEALED_BYTES_MAX));
            }
        }
        for job in self.jobs().filter(|job| job.is_alive()) {
            for name in job.spec.secrets().filter(|name| self.secret(&job.owner, name).is_none()) {
                let (owner, name) = (job.owner.clone(), name.clone());
                found.add(Violation::Secret {
                    owner,
                    name,
                    why: "is named by a live job, and is not there",
                });
            }
        }
        for held in self.secrets.of_users.values() {
            found.at_most("secrets of a user", size(held.number), size(SECRETS_OF_A_USER_MAX));
        }
        if self.secrets.rebuilt() != self.secrets {
            found.add(Violation::SecretCounts);
        }
        found.at_most("secrets", size(self.secrets.all.number), size(SECRETS_MAX.max()));
        found.at_most(
            "bytes of secrets",
            size(self.secrets.all.bytes),
            size(SECRET_BYTES_IN_ALL_MAX.max()),
        );
    }
}
