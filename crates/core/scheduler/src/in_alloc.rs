//! The queue of pending tasks that run in allocs (paper, section 2.4): by priority, job by job.
//!
//! A job that fits in none of its allocs is examined again after any change to its alloc set, or to
//! a task in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, Job};
use model::{CollectionId, Priority, TaskId, TaskIndex};

/// The pending tasks of jobs that run in alloc sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    tasks: BTreeMap<CollectionId, BTreeSet<TaskIndex>>,
    /// Pairs of an alloc set and a job with pending tasks in it.
    jobs: BTreeSet<(CollectionId, CollectionId)>,
    /// Those jobs that need ports, which other tasks may release.
    with_ports: BTreeSet<CollectionId>,
    /// The jobs to examine in the next pass, highest priority first.
    ready: BTreeSet<(Reverse<Priority>, CollectionId)>,
}

impl Inside {
    /// Adds a pending task of a job that runs in an alloc set.
    pub(crate) fn enter(&mut self, job: &Job, set: CollectionId, index: TaskIndex) {
        self.tasks.entry(job.id).or_default().insert(index);
        self.jobs.insert((set, job.id));
        if job.port_count(index) > 0 || !job.static_ports(index).is_empty() {
            self.with_ports.insert(job.id);
        }
        self.ready.insert((Reverse(job.spec.priority), job.id));
    }

    /// Removes a task that is planned or no longer pending.
    pub(crate) fn leave(&mut self, task: TaskId) {
        let Some(tasks) = self.tasks.get_mut(&task.collection) else { return };
        tasks.remove(&task.index);
        if tasks.is_empty() {
            self.tasks.remove(&task.collection);
        }
    }

    /// A job or an alloc set changed.
    pub(crate) fn happened(&mut self, cell: &Cell, id: CollectionId) {
        if self.tasks.is_empty() {
            return;
        }
        let set = cell.job(id).and_then(|job| job.alloc_set).unwrap_or(id);
        let range = (set, CollectionId(0))..=(set, CollectionId(u64::MAX));
        let jobs: Vec<CollectionId> = self.jobs.range(range).map(|(_, job)| *job).collect();
        self.wake(cell, &jobs);
    }

    /// A machine changed.
    pub(crate) fn happened_to_a_machine(&mut self, cell: &Cell) {
        if !self.tasks.is_empty() {
            let jobs: Vec<CollectionId> = self.tasks.keys().copied().collect();
            self.wake(cell, &jobs);
        }
    }

    /// A machine may have free ports again.
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

    /// Number of tasks that fit in no alloc, as far as examined.
    pub(crate) fn blocked_tasks(&self) -> usize {
        let ready: BTreeSet<CollectionId> = self.ready.iter().map(|(_, job)| *job).collect();
        let blocked = self.tasks.iter().filter(|(job, _)| !ready.contains(job));
        blocked.map(|(_, tasks)| tasks.len()).sum()
    }

    /// The next job to examine, with its pending tasks.
    pub(crate) fn next(&mut self) -> Option<(CollectionId, Vec<TaskIndex>)> {
        loop {
            let (_, job) = self.ready.pop_first()?;
            if let Some(tasks) = self.tasks.get(&job) {
                return Some((job, tasks.iter().copied().collect()));
            }
        }
    }

    /// A job whose turn ended before all its tasks were examined comes next again.
    pub(crate) fn again(&mut self, job: &Job) {
        self.ready.insert((Reverse(job.spec.priority), job.id));
    }

    /// Drops jobs without pending tasks.
    pub(crate) fn forget_jobs(&mut self) {
        let tasks = &self.tasks;
        self.jobs.retain(|(_, job)| tasks.contains_key(job));
        self.with_ports.retain(|job| tasks.contains_key(job));
    }
}
