//! When records changed, for watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use cell::{Cell, Job, Service};
use imbl::{OrdMap, OrdSet};
use model::{CollectionId, JobName, LogIndex, UserName};
use thiserror::Error;

use crate::record::{differs, is_behind, is_named, named};

/// The name of a job or a service: its owner, and its own.
pub type Key = Arc<(UserName, JobName)>;

/// The maximum number of names without a record that are remembered, for watches that still have to
/// learn that they are gone.
const GONE_MAX: usize = 10_000;

/// When the record of each job and service changed last. Clones share their memory.
///
/// Changes are combined: a watch gets the newest record of each job that has changed since its index,
/// however often it did.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The index of the cell that was followed last.
    index: LogIndex,
    /// Every change after this index is known.
    since: LogIndex,
    names: OrdMap<Key, Changed>,
    /// The jobs behind each service.
    behind: OrdMap<Key, OrdSet<CollectionId>>,
    by_index: OrdSet<(LogIndex, Key)>,
    /// The names without a record.
    gone: OrdSet<(LogIndex, Key)>,
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

    /// The index of the cell that was followed last.
    #[must_use]
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// Follows a cell from `before`, which was followed last, to `after`. What both share is not
    /// looked at.
    pub fn follow(&mut self, before: &Cell, after: &Cell) {
        self.index = after.index();
        let mut ids: BTreeSet<CollectionId> = after.jobs_changed_since(before).collect();
        for id in after.machines_changed_since(before) {
            let (one, other) = (before.machine(id), after.machine(id));
            let of_interest = |machine: &Option<&Arc<cell::Machine>>| {
                let machine = machine.as_ref()?;
                let up = matches!(machine.state, cell::MachineState::Up);
                Some((machine.name.clone(), Arc::clone(&machine.address), up))
            };
            if of_interest(&one) != of_interest(&other) {
                let there = [one, other].into_iter().flatten();
                ids.extend(there.flat_map(|it| it.instances()).map(|id| id.collection));
            }
        }
        for name in after.services_changed_since(before) {
            let name = Arc::new(name.clone());
            self.behind.remove(&name);
            let service = after.service(&name.0, &name.1);
            if let Some(service) = service {
                let jobs = after.jobs().filter(|job| is_behind(service, job));
                let jobs: OrdSet<CollectionId> = jobs.map(|job| job.id).collect();
                if !jobs.is_empty() {
                    self.behind.insert(Arc::clone(&name), jobs);
                }
            }
            let there = has_record(after, &name.0, &name.1);
            self.set(name, there);
        }
        for id in ids {
            let (one, other) = (before.job(id), after.job(id));
            let changed = match (one, other) {
                (Some(one), Some(other)) => differs((before, one), (after, other)),
                (Some(job), None) | (None, Some(job)) => is_named(job),
                (None, None) => false,
            };
            if let Some(job) = other.or(one).filter(|_| changed) {
                // Another job may have the name by now.
                let (user, name) = (&job.owner, &job.spec.name);
                self.set(key(job), has_record(after, user, name));
                for service in after.services_open_to(user) {
                    let is = other.is_some_and(|job| is_behind(service, job));
                    if self.place(id, service, is) || is {
                        self.set(service_key(service), true);
                    }
                }
            }
        }
    }

    /// Puts a job behind a service, or takes it away. Whether it was there before.
    fn place(&mut self, job: CollectionId, service: &Service, is: bool) -> bool {
        let key = service_key(service);
        let mut jobs = self.behind.get(&key).cloned().unwrap_or_default();
        let was = jobs.contains(&job);
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

    fn set(&mut self, key: Key, is_there: bool) {
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
    pub fn after(&self, index: LogIndex) -> Result<impl Iterator<Item = &Key>, Forgotten> {
        if index < self.since {
            return Err(Forgotten { asked: index, since: self.since });
        }
        let first = LogIndex(index.0.saturating_add(1));
        // Below every key of that index.
        let later = self.by_index.iter().rev().take_while(move |(at, _)| *at >= first);
        let mut keys: Vec<&Key> = later.map(|(_, key)| key).collect();
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

fn has_record(cell: &Cell, user: &UserName, name: &JobName) -> bool {
    named(cell, user, name).is_some() || cell.service(user, name).is_some()
}

fn service_key(service: &Service) -> Key {
    Arc::new((service.owner.clone(), service.name.clone()))
}

fn key(job: &Job) -> Key {
    Arc::new((job.owner.clone(), job.spec.name.clone()))
}
