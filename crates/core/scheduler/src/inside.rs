//! Tasks that run in allocs (paper, section 2.4): of a machine they take ports alone, so nobody has to
//! leave for them, and the machines' scores say nothing of them. They go to the allocs of their job's
//! set, as evenly as there is room.
//!
//! A task whose alloc had to leave its machine waits for it, and goes where it goes.
//!
//! A job for which there is no room in its allocs is looked at again when anything happens to its alloc
//! set, or to a task in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, Job};
use model::{CollectionId, InstanceId, Priority, Resources, TaskId, TaskIndex};

/// The pending tasks of jobs that run in alloc sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    tasks: BTreeMap<CollectionId, BTreeSet<TaskIndex>>,
    /// By alloc set, the jobs that have any.
    jobs: BTreeSet<(CollectionId, CollectionId)>,
    /// Those of them that want ports, which others may give back.
    with_ports: BTreeSet<CollectionId>,
    /// The jobs that are looked at in the next pass, the most important first.
    pub(crate) ready: BTreeSet<(Reverse<Priority>, CollectionId)>,
    /// What the plan takes of allocs, beside what the cell knows.
    pub(crate) planned: BTreeMap<InstanceId, Resources>,
}

impl Inside {
    /// A task of a job that runs in an alloc set is pending.
    pub(crate) fn enter(&mut self, job: &Job, set: CollectionId, index: TaskIndex) {
        self.tasks.entry(job.id).or_default().insert(index);
        self.jobs.insert((set, job.id));
        if job.port_count(index) > 0 {
            self.with_ports.insert(job.id);
        }
        self.ready.insert((Reverse(job.spec.priority), job.id));
    }

    /// A task is not pending, or is planned.
    pub(crate) fn leave(&mut self, task: TaskId) {
        let Some(tasks) = self.tasks.get_mut(&task.collection) else { return };
        tasks.remove(&task.index);
        if tasks.is_empty() {
            self.tasks.remove(&task.collection);
        }
    }

    /// Something happened to a job, or to an alloc set.
    pub(crate) fn happened(&mut self, cell: &Cell, id: CollectionId) {
        if self.tasks.is_empty() {
            return;
        }
        let set = cell.job(id).and_then(|job| job.alloc_set).unwrap_or(id);
        let range = (set, CollectionId(0))..=(set, CollectionId(u64::MAX));
        let jobs: Vec<CollectionId> = self.jobs.range(range).map(|(_, job)| *job).collect();
        self.wake(cell, &jobs);
    }

    /// Something happened to a machine.
    pub(crate) fn happened_to_a_machine(&mut self, cell: &Cell) {
        if !self.tasks.is_empty() {
            let jobs: Vec<CollectionId> = self.tasks.keys().copied().collect();
            self.wake(cell, &jobs);
        }
    }

    /// A machine may have ports again.
    pub(crate) fn ports_came_back(&mut self, cell: &Cell) {
        if !self.with_ports.is_empty() {
            let jobs: Vec<CollectionId> = self.with_ports.iter().copied().collect();
            self.wake(cell, &jobs);
        }
    }

    fn wake(&mut self, cell: &Cell, jobs: &[CollectionId]) {
        for id in jobs.iter().filter(|id| self.tasks.contains_key(id)) {
            if let Some(job) = cell.job(*id) {
                self.ready.insert((Reverse(job.spec.priority), *id));
            }
        }
    }

    /// How many tasks fit in no alloc, as far as anybody looked.
    pub(crate) fn blocked_tasks(&self) -> usize {
        let ready: BTreeSet<CollectionId> = self.ready.iter().map(|(_, job)| *job).collect();
        let blocked = self.tasks.iter().filter(|(job, _)| !ready.contains(job));
        blocked.map(|(_, tasks)| tasks.len()).sum()
    }

    /// The plan takes something of an alloc.
    pub(crate) fn plan(&mut self, alloc: InstanceId, limit: Resources) {
        let planned = self.planned.entry(alloc).or_default();
        *planned = planned.plus(limit);
    }

    /// The plan takes it no longer.
    pub(crate) fn unplan(&mut self, alloc: InstanceId, limit: Resources) {
        if let Some(planned) = self.planned.get_mut(&alloc) {
            *planned = planned.minus(limit);
            if *planned == Resources::default() {
                self.planned.remove(&alloc);
            }
        }
    }

    /// The next job that is looked at, and its pending tasks.
    pub(crate) fn next(&mut self) -> Option<(CollectionId, Vec<TaskIndex>)> {
        loop {
            let (_, job) = self.ready.pop_first()?;
            if let Some(tasks) = self.tasks.get(&job) {
                return Some((job, tasks.iter().copied().collect()));
            }
        }
    }

    /// Jobs of which nothing is pending need not be known.
    pub(crate) fn forget_jobs(&mut self) {
        let tasks = &self.tasks;
        self.jobs.retain(|(_, job)| tasks.contains_key(job));
        self.with_ports.retain(|job| tasks.contains_key(job));
    }
}
