//! Whether a user may take more of what the users of a cell share: see [`model::SharedBound`].

use model::{Asker, FilePath, Held, Package, SharedBound, UserName};
use spec::JobSpec;

use crate::bounds::{
    BARE_LOCKS_MAX, DESCRIPTIONS_BYTES_MAX, EVERY_MACHINE_JOBS_MAX, FILES_BYTES_MAX, FILES_MAX,
    LOCK_SESSIONS_MAX, PACKAGE_BYTES_MAX, PACKAGES_MAX, SECRET_BYTES_IN_ALL_MAX, SECRETS_MAX,
    SERVICES_MAX, TASKS_MAX, WAITING_TASKS_MAX,
};
use crate::{Cell, Rejection, Shareable};

impl Cell {
    /// How a user asks for more.
    pub(super) fn asker(&self, by: &UserName) -> Asker {
        if self.is_administrator(by) { Asker::Administrator } else { Asker::User }
    }

    /// Rejects more tasks of a user's jobs than there is room for: `added` new ones, and `wait` that begin
    /// to wait.
    pub(super) fn room_for_tasks(
        &self,
        owner: &UserName,
        by: &UserName,
        added: u32,
        wait: u32,
    ) -> Result<(), Rejection> {
        let (all, own) = (self.tally.all().stages, self.tally.of_user(owner).stages);
        let asker = self.asker(by);
        let tasks = Held { all: self.tasks, own: own.all() };
        take(TASKS_MAX, tasks, added.into(), asker, Shareable::Tasks)?;
        let waiting = Held { all: all.waiting(), own: own.waiting() };
        take(WAITING_TASKS_MAX, waiting, wait.into(), asker, Shareable::WaitingTasks)
    }

    /// Rejects another description of a user's job for which there is no room.
    pub(super) fn room_for_description(
        &self,
        owner: &UserName,
        by: &UserName,
        spec: &JobSpec,
    ) -> Result<(), Rejection> {
        let own = self.tally.of_user(owner).description_bytes;
        let held = Held { all: self.tally.description_bytes, own };
        take(
            DESCRIPTIONS_BYTES_MAX,
            held,
            spec.bytes(),
            self.asker(by),
            Shareable::DescriptionBytes,
        )
    }

    /// Rejects a file with a new content of so many bytes for which there is no room.
    pub(super) fn room_for_content(
        &self,
        by: &UserName,
        path: &FilePath,
        content: u64,
    ) -> Result<(), Rejection> {
        let (locks, asker) = (&self.locks, self.asker(by));
        let (all, own) = (locks.held, locks.held_by(path.user()));
        let before = self.file(path).and_then(|file| file.content.as_ref());
        let before = before.map(|content| path.bytes().saturating_add(content.bytes.len() as u64));
        let files = Held { all: all.files, own: own.files };
        take(FILES_MAX, files, u64::from(before.is_none()), asker, Shareable::Files)?;
        let bytes = Held { all: all.bytes, own: own.bytes };
        let more = path.bytes().saturating_add(content).saturating_sub(before.unwrap_or_default());
        take(FILES_BYTES_MAX, bytes, more, asker, Shareable::FileBytes)
    }

    /// Rejects a lock of a file that does not exist if there is no room for it.
    pub(super) fn room_for_bare_lock(
        &self,
        by: &UserName,
        path: &FilePath,
    ) -> Result<(), Rejection> {
        let (all, own) = (self.locks.held, self.locks.held_by(path.user()));
        let held = Held { all: all.bare_locks, own: own.bare_locks };
        take(BARE_LOCKS_MAX, held, 1, self.asker(by), Shareable::BareLocks)
    }

    /// Rejects one more live job of a user with one task on every machine if there is no room for it.
    pub(super) fn room_for_every_machine(
        &self,
        owner: &UserName,
        spec: &JobSpec,
    ) -> Result<(), Rejection> {
        if !spec.is_on_every_machine() {
            return Ok(());
        }
        let own = self.every_machine_jobs().filter(|job| job.owner == *owner).count() as u64;
        let held = Held { all: self.every_machine.len() as u64, own };
        let what = Shareable::EveryMachineJobs;
        take(EVERY_MACHINE_JOBS_MAX, held, 1, self.asker(owner), what)
    }

    /// Rejects one more service of a user with `own` services if there is no room for it.
    pub(super) fn room_for_service(&self, by: &UserName, own: u64) -> Result<(), Rejection> {
        let held = Held { all: self.services.by_name.len() as u64, own };
        take(SERVICES_MAX, held, 1, self.asker(by), Shareable::Services)
    }

    /// Rejects a new package for which there is no room.
    pub(super) fn room_for_package(
        &self,
        by: &UserName,
        package: &Package,
    ) -> Result<(), Rejection> {
        let (all, asker) = (self.packages.all, self.asker(by));
        let own = self.packages.held_by(&package.id.owner);
        let versions = Held { all: all.versions, own: own.versions };
        take(PACKAGES_MAX, versions, 1, asker, Shareable::Packages)?;
        let bytes = Held { all: all.bytes, own: own.bytes };
        take(PACKAGE_BYTES_MAX, bytes, package.stored.0, asker, Shareable::PackageBytes)
    }

    /// Rejects another version of a secret, which may be new, for which there is no room.
    pub(super) fn room_for_secret(
        &self,
        by: &UserName,
        is_new: bool,
        bytes: u64,
    ) -> Result<(), Rejection> {
        let (all, own, asker) = (self.secrets.all, self.secrets.held_by(by), self.asker(by));
        let number = Held { all: all.number, own: own.number };
        take(SECRETS_MAX, number, is_new.into(), asker, Shareable::Secrets)?;
        let held = Held { all: all.bytes, own: own.bytes };
        take(SECRET_BYTES_IN_ALL_MAX, held, bytes, asker, Shareable::SecretBytes)
    }

    /// Rejects one more lock session for which there is no room.
    pub(super) fn room_for_lock_session(&self, by: &UserName) -> Result<(), Rejection> {
        let own = self.locks.sessions_of_users.get(by).copied().unwrap_or_default();
        let held = Held { all: self.locks.sessions.len() as u64, own: own.into() };
        take(LOCK_SESSIONS_MAX, held, 1, self.asker(by), Shareable::LockSessions)
    }
}

fn take(
    bound: SharedBound,
    held: Held,
    more: u64,
    asker: Asker,
    what: Shareable,
) -> Result<(), Rejection> {
    bound.take(held, more, asker).map_err(|why| Rejection::Shared { what, why })
}
