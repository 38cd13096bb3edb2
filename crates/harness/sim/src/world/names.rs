//! A reader of names that goes on at another replica each time, after the index of its last answer: what
//! it has is always what is.

use std::collections::BTreeMap;

use bns::{Changes, NameKey};
use cell::Cell;
use model::{LogIndex, RestoreEpoch};
use replica::Codec;

use crate::injected_bug::InjectedBug;
use crate::world::World;

/// What the reader has.
#[derive(Debug, Default)]
pub(crate) struct NameReader {
    /// The epoch of the cell that it has read: one that was restored is another history.
    epoch: RestoreEpoch,
    /// The index of the last answer.
    after: LogIndex,
    records: BTreeMap<NameKey, String>,
    /// With the injected bug: the records of each replica when it was asked last.
    views: BTreeMap<usize, BTreeMap<NameKey, String>>,
}

/// A record in words; `None` if there is none under the name.
fn record(cell: &Cell, changes: &Changes, key: &NameKey) -> Option<String> {
    if let Some(job) = bns::named(cell, &key.0, &key.1) {
        let (size, labels) = (job.spec.tasks, &job.spec.labels);
        let tasks: Vec<_> = bns::tasks(cell, job).collect();
        return Some(format!("job {} of {size}, {labels:?}: {tasks:?}", job.id));
    }
    let service = cell.service(&key.0, &key.1)?;
    let tasks: Vec<_> =
        bns::service_tasks(cell, changes, service).map(|(job, task)| (job.id, task)).collect();
    Some(format!("{service:?}: {tasks:?}"))
}

/// All records.
fn all(cell: &Cell, changes: &Changes) -> BTreeMap<NameKey, String> {
    let jobs = cell.named_jobs().map(|job| (job.owner.clone(), job.spec.name.clone()));
    let services = cell.services().map(|service| (service.owner.clone(), service.name.clone()));
    let keys = jobs.chain(services).map(NameKey::new);
    keys.filter_map(|key| Some((key.clone(), record(cell, changes, &key)?))).collect()
}

impl NameReader {
    /// Takes in what a replica answers; how what the reader then has differs from what is.
    fn ask(
        &mut self,
        cell: &Cell,
        changes: &Changes,
        before: Option<&BTreeMap<NameKey, String>>,
    ) -> Option<String> {
        match changes.after(self.after) {
            Ok(changed) => {
                for key in changed {
                    let now = record(cell, changes, key);
                    if before.is_some_and(|before| before.get(key) == now.as_ref()) {
                        continue;
                    }
                    match now {
                        Some(now) => _ = self.records.insert(NameKey::clone(key), now),
                        None => _ = self.records.remove(key),
                    }
                }
            }
            // It began later: everything comes again.
            Err(_) => self.records = all(cell, changes),
        }
        let after = std::mem::replace(&mut self.after, cell.index());
        let all = all(cell, changes);
        let mut keys = all.keys().chain(self.records.keys());
        let wrong = keys.find(|key| all.get(*key) != self.records.get(*key))?;
        let (has, is) = (self.records.get(wrong), all.get(wrong));
        Some(format!(
            "after {after} at {}, {}/{}: {has:?}, not {is:?}",
            cell.index(),
            wrong.0,
            wrong.1
        ))
    }
}

impl<C: Codec> World<C> {
    /// The reader of names asks a replica. One that is behind would answer later.
    pub(crate) fn name_read(&mut self, host: usize) {
        let master = &self.masters[host];
        let epoch = master.disk.restore_epoch;
        let (Some(cell), Some(changes)) = (master.cell(), master.names()) else { return };
        if master.is_frozen() || epoch != self.invariants.epoch() {
            return;
        }
        if epoch != self.names.epoch {
            self.names = NameReader { epoch, ..NameReader::default() };
        }
        if cell.index() < self.names.after {
            return;
        }
        let before = match self.injected_bug {
            Some(InjectedBug::NamesFromViews) => self.names.views.insert(host, all(cell, changes)),
            _ => None,
        };
        let wrong = self.names.ask(cell, changes, before.as_ref());
        self.counts.name_reads += 1;
        if let Some(wrong) = wrong {
            let id = self.masters[host].id();
            self.invariants
                .violated(format!("a reader of names that goes on at replica {id} has, {wrong}"));
        }
    }
}
