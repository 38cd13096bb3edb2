//! When records changed, for watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use cell::{Cell, Event, EventKind, Job, Service, Subject};
use imbl::{OrdMap, OrdSet};
use model::{CollectionId, InstanceId, JobName, LogIndex, UserName};
use thiserror::Error;

use crate::record::{is_behind, is_named, named};

/// The name of a job or a service: its owner, and its own.
pub type NameKey = Arc<(UserName, JobName)>;

/// The maximum number of names without a record that are remembered, for watches that still have to
/// learn that they are gone.
const GONE_MAX: usize = 10_000;

/// When the record of each job and service changed last: the index of the operation that changed it,
/// which is the same at every replica. Clones share their memory.
///
/// Changes are combined: a watch gets the newest record of each job that has changed since its index,
/// however often it did.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The index of the operation that was taken in last.
    index: LogIndex,
    /// Every change after this index is known.
    since: LogIndex,
    names: OrdMap<NameKey, Changed>,
    /// The jobs behind each service.
    behind: OrdMap<NameKey, OrdSet<CollectionId>>,
    by_index: OrdSet<(LogIndex, NameKey)>,
    /// The names without a record.
    gone: OrdSet<(LogIndex, NameKey)>,
    gone_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Changed {
    at: LogIndex,
    is_there: bool,
}

/// Changes after an index are not known any more: a watch has to begin with all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "changes of names are known after index {since}, not after {asked}: begin with all of them"
)]
pub struct Forgotten {
    /// The index that was asked for.
    pub asked: LogIndex,
    /// Changes after this one are known.
    pub since: LogIndex,
}

impl Changes {
    /// The changes of a cell from now on.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        let mut changes = Self {
            index: cell.index(),
            since: cell.index(),
            names: OrdMap::new(),
            behind: OrdMap::new(),
            by_index: OrdSet::new(),
            gone: OrdSet::new(),
            gone_max: GONE_MAX,
        };
        for service in cell.services() {
            changes.set(service_key(service), true);
        }
        for job in cell.jobs().filter(|job| is_named(job)) {
            changes.set(key(job), true);
            for service in cell.services_open_to(&job.owner) {
                changes.place(job.id, service, is_behind(service, job));
            }
        }
        changes
    }

    /// The index of the operation that was taken in last.
    #[must_use]
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// Takes in an operation: the cell after it, and what it caused. Every operation is to be taken in, in
    /// the order of the log: what changed and changed back is a change.
    pub fn applied(&mut self, cell: &Cell, events: &[Event]) {
        self.index = cell.index();
        let mut jobs = BTreeSet::new();
        for event in events {
            match (event.subject, &event.kind) {
                (Subject::Cell, EventKind::ServiceSet { service, .. }) => {
                    self.service_set(cell, service);
                }
                (Subject::Cell, EventKind::ServiceDeleted { owner, name }) => {
                    let key = Arc::new((owner.clone(), name.clone()));
                    self.behind.remove(&key);
                    self.set(key, has_record(cell, owner, name));
                }
                (Subject::Job(id), kind) if may_change_a_job(kind) => _ = jobs.insert(id),
                // The job has one more task, and so another size.
                (Subject::Task(id), EventKind::Submit { .. }) if on_every_machine(cell, id) => {
                    _ = jobs.insert(id.collection);
                }
                (Subject::Task(id), kind) if may_change_a_task(kind) => {
                    _ = jobs.insert(id.collection);
                }
                (Subject::Machine(id), kind) if may_change_a_machine(kind) => {
                    let there = cell.machine(id).into_iter().flat_map(|it| it.instances());
                    jobs.extend(there.map(|id| id.collection));
                }
                _ => {}
            }
        }
        jobs.into_iter().for_each(|id| self.job_changed(cell, id));
    }

    fn service_set(&mut self, cell: &Cell, service: &Service) {
        let name = service_key(service);
        let users = service.users.iter().chain([&service.owner]);
        let jobs = users.flat_map(|user| cell.jobs_of(user));
        let jobs = jobs.filter(|job| is_behind(service, job)).map(|job| job.id);
        let jobs: OrdSet<CollectionId> = jobs.collect();
        match jobs.is_empty() {
            true => self.behind.remove(&name),
            false => self.behind.insert(Arc::clone(&name), jobs),
        };
        self.set(name, true);
    }

    fn job_changed(&mut self, cell: &Cell, id: CollectionId) {
        // A job that is forgotten had no record any more, and nor have alloc sets.
        let Some(job) = cell.job(id).filter(|job| !job.spec.kind.is_alloc_set()) else { return };
        // Another job may have the name by now.
        self.set(key(job), has_record(cell, &job.owner, &job.spec.name));
        for service in cell.services_open_to(&job.owner) {
            let is = is_behind(service, job);
            if self.place(id, service, is) || is {
                self.set(service_key(service), true);
            }
        }
    }

    /// Puts a job behind a service, or takes it away. Whether it was there before.
    fn place(&mut self, job: CollectionId, service: &Service, is: bool) -> bool {
        let key = service_key(service);
        let mut jobs = self.behind.get(&key).cloned().unwrap_or_default();
        let was = jobs.contains(&job);
        if was == is {
            return was;
        }
        match is {
            true => jobs.insert(job),
            false => jobs.remove(&job),
        };
        match jobs.is_empty() {
            true => self.behind.remove(&key),
            false => self.behind.insert(key, jobs),
        };
        was
    }

    /// The jobs behind a service, oldest first.
    pub(crate) fn behind(&self, service: &Service) -> impl Iterator<Item = CollectionId> {
        let jobs = self.behind.get(&(service.owner.clone(), service.name.clone()));
        jobs.into_iter().flatten().copied()
    }

    fn set(&mut self, key: NameKey, is_there: bool) {
        let changed = Changed { at: self.index, is_there };
        if let Some(before) = self.names.insert(Arc::clone(&key), changed) {
            self.by_index.remove(&(before.at, Arc::clone(&key)));
            if !before.is_there {
                self.gone.remove(&(before.at, Arc::clone(&key)));
            }
        }
        self.by_index.insert((self.index, Arc::clone(&key)));
        if !is_there {
            self.gone.insert((self.index, key));
        }
        while self.gone.len() > self.gone_max
            && let Some((at, key)) = self.gone.get_min().cloned()
        {
            self.gone.remove(&(at, Arc::clone(&key)));
            self.by_index.remove(&(at, Arc::clone(&key)));
            self.names.remove(&key);
            self.since = self.since.max(at);
        }
    }

    /// The jobs and services whose record has changed after an index, each once, in the order of their last
    /// change.
    ///
    /// # Errors
    /// If not all of them are known.
    pub fn after(&self, index: LogIndex) -> Result<impl Iterator<Item = &NameKey>, Forgotten> {
        if index < self.since {
            return Err(Forgotten { asked: index, since: self.since });
        }
        let first = LogIndex(index.0.saturating_add(1));
        // Below every key of that index.
        let later = self.by_index.iter().rev().take_while(move |(at, _)| *at >= first);
        let mut keys: Vec<&NameKey> = later.map(|(_, key)| key).collect();
        keys.reverse();
        Ok(keys.into_iter())
    }

    /// The index at which the record of a job or service changed last; `None` if it has not changed since
    /// changes are known, and is not there.
    #[must_use]
    pub fn changed(&self, user: &UserName, job: &JobName) -> Option<LogIndex> {
        self.names.get(&(user.clone(), job.clone())).map(|changed| changed.at)
    }
}

/// Whether a task is of a job with one task on every machine.
fn on_every_machine(cell: &Cell, id: InstanceId) -> bool {
    cell.job(id.collection).is_some_and(|job| job.spec.is_on_every_machine())
}

/// Whether an event of a job may change its record. What is not known here does.
fn may_change_a_job(kind: &EventKind) -> bool {
    use EventKind as Kind;
    !matches!(
        kind,
        Kind::Queue
            | Kind::Enable
            | Kind::Schedule { .. }
            | Kind::UpdatePaused { .. }
            | Kind::UpdateResumed { .. }
            | Kind::UpdateClosed { .. }
            | Kind::InputsChanged { .. }
            | Kind::CapabilityUsed { .. }
    )
}

/// Whether an event of a task may change its record: only one that has a machine has any.
fn may_change_a_task(kind: &EventKind) -> bool {
    use EventKind as Kind;
    !matches!(
        kind,
        Kind::Submit { .. }
            | Kind::Queue
            | Kind::Enable
            | Kind::UpdatePending
            | Kind::UpdateSkipped { .. }
            | Kind::UpdateFailed { .. }
            | Kind::Suspect
            | Kind::SecretRead { .. }
            | Kind::InputsChanged { .. }
            | Kind::Saved { .. }
            | Kind::SaverGivenUp { .. }
            | Kind::ExecStarted { .. }
            | Kind::ExecEnded { .. }
            | Kind::CapabilityUsed { .. }
    )
}

/// Whether an event of a machine may change the records of the tasks on it: whether it answers, or
/// where it is.
fn may_change_a_machine(kind: &EventKind) -> bool {
    use EventKind as Kind;
    matches!(
        kind,
        Kind::MachineAdded | Kind::MachineUnreachable | Kind::MachineDown | Kind::MachineBack
    )
}

fn has_record(cell: &Cell, user: &UserName, name: &JobName) -> bool {
    named(cell, user, name).is_some() || cell.service(user, name).is_some()
}

fn service_key(service: &Service) -> NameKey {
    Arc::new((service.owner.clone(), service.name.clone()))
}

fn key(job: &Job) -> NameKey {
    Arc::new((job.owner.clone(), job.spec.name.clone()))
}
