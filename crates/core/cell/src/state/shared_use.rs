//! Who holds how much of what the users of a cell share, for those who look at it.

use std::collections::BTreeMap;

use model::{SharedBound, UserName};

use super::Cell;
use super::tally::Taken;
use crate::bounds::{
    BARE_LOCKS_MAX, DESCRIPTIONS_BYTES_MAX, EVERY_MACHINE_JOBS_MAX, FILES_BYTES_MAX, FILES_MAX,
    LOCK_SESSIONS_MAX, PACKAGE_BYTES_MAX, PACKAGES_MAX, RUNTIMES_MAX, SECRET_BYTES_IN_ALL_MAX,
    SECRETS_MAX, SERVICES_MAX, TASKS_MAX, WAITING_TASKS_MAX,
};
use crate::state::locks::HeldFiles;
use crate::state::packages::HeldPackages;
use crate::state::secrets::HeldSecrets;

/// What is used of a bound that users share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedUse {
    /// Its name: `tasks`.
    pub name: &'static str,
    /// The bound.
    pub bound: SharedBound,
    /// Who holds how much; users who hold nothing are left out.
    pub holders: BTreeMap<UserName, u64>,
}

impl Cell {
    /// Who holds how much of each bound. Takes time in proportion to the number of users and services.
    #[must_use]
    pub fn shared_use(&self) -> Vec<SharedUse> {
        let of_jobs = |name, bound, amount: fn(&Taken) -> u64| {
            let users = &self.tally.users;
            of(name, bound, users.iter().map(|(user, taken)| (user.clone(), amount(taken))))
        };
        let of_files = |name, bound, amount: fn(&HeldFiles) -> u64| {
            let users = self.locks.held_by_users.iter();
            let users =
                users.filter_map(|(user, held)| Some((UserName::new(user).ok()?, amount(held))));
            of(name, bound, users)
        };
        let of_packages = |name, bound, amount: fn(&HeldPackages) -> u64| {
            let users = self.packages.of_users.iter();
            of(name, bound, users.map(|(user, held)| (user.clone(), amount(held))))
        };
        let of_secrets = |name, bound, amount: fn(&HeldSecrets) -> u64| {
            let users = self.secrets.of_users.iter();
            of(name, bound, users.map(|(user, held)| (user.clone(), amount(held))))
        };
        let runtimes = &self.queue.runtimes.of_users;
        let runtimes = runtimes.iter().map(|(user, names)| (user.clone(), *names));
        let sessions = self.locks.sessions_of_users.iter();
        let every_machine = self.every_machine_jobs().map(|job| (job.owner.clone(), 1));
        let services = self.services.by_name.keys().map(|(user, _)| (user.clone(), 1));
        vec![
            of_jobs("tasks", TASKS_MAX, |of| of.stages.all()),
            of_jobs("waiting-tasks", WAITING_TASKS_MAX, |of| of.stages.waiting()),
            of_jobs("description-bytes", DESCRIPTIONS_BYTES_MAX, |of| of.description_bytes),
            of_files("files", FILES_MAX, |of| of.files),
            of_files("file-bytes", FILES_BYTES_MAX, |of| of.bytes),
            of_files("bare-locks", BARE_LOCKS_MAX, |of| of.bare_locks),
            of(
                "lock-sessions",
                LOCK_SESSIONS_MAX,
                sessions.map(|(user, number)| (user.clone(), u64::from(*number))),
            ),
            of("runtimes", RUNTIMES_MAX, runtimes),
            of("services", SERVICES_MAX, services),
            of("every-machine-jobs", EVERY_MACHINE_JOBS_MAX, every_machine),
            of_packages("packages", PACKAGES_MAX, |of| of.versions),
            of_packages("package-bytes", PACKAGE_BYTES_MAX, |of| of.bytes),
            of_secrets("secrets", SECRETS_MAX, |of| of.number),
            of_secrets("secret-bytes", SECRET_BYTES_IN_ALL_MAX, |of| of.bytes),
        ]
    }
}

/// Adds up what users hold of a bound.
fn of(
    name: &'static str,
    bound: SharedBound,
    held: impl Iterator<Item = (UserName, u64)>,
) -> SharedUse {
    let mut holders = BTreeMap::new();
    for (user, amount) in held.filter(|(_, amount)| *amount > 0) {
        *holders.entry(user).or_default() += amount;
    }
    SharedUse { name, bound, holders }
}
