//! When records changed, for watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use cell::{Cell, Job};
use imbl::{OrdMap, OrdSet};
use model::{CollectionId, JobName, LogIndex, UserName};
use thiserror::Error;

use crate::record::{differs, is_named, named};

/// The name of a job: its owner, and its own.
pub type Key = Arc<(UserName, JobName)>;

/// The maximum number of names without a record that are remembered, for watches that still have to
/// learn that they are gone.
const GONE_MAX: usize = 10_000;

/// When the record of each job changed last. Clones share their memory.
///
/// Changes are combined: a watch gets the newest record of each job that has changed since its index,
/// however often it did.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The index of the cell that was followed last.
    index: LogIndex,
    /// Every change after this index is known.
    since: LogIndex,
    jobs: OrdMap<Key, Changed>,
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
            jobs: OrdMap::new(),
            by_index: OrdSet::new(),
            gone: OrdSet::new(),
            gone_max: GONE_MAX,
        };
        for job in cell.jobs().filter(|job| is_named(job)) {
            changes.set(key(job), true);
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
                self.set(key(job), named(after, user, name).is_some());
            }
        }
    }

    fn set(&mut self, key: Key, is_there: bool) {
        let changed = Changed { at: self.index, is_there };
        if let Some(before) = self.jobs.insert(Arc::clone(&key), changed) {
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
            self.jobs.remove(&key);
            self.since = self.since.max(at);
        }
    }

    /// The jobs whose record has changed after an index, each once, in the order of their last change.
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

    /// The index at which the record of a job changed last; `None` if it has not changed since
    /// changes are known, and is not there.
    #[must_use]
    pub fn changed(&self, user: &UserName, job: &JobName) -> Option<LogIndex> {
        self.jobs.get(&(user.clone(), job.clone())).map(|changed| changed.at)
    }
}

fn key(job: &Job) -> Key {
    Arc::new((job.owner.clone(), job.spec.name.clone()))
}
