//! Gangs are placed whole: while a task of one waits, no other goes on.

use std::collections::BTreeSet;
use std::fmt;

use event::{Event, Subject};
use model::{CollectionId, TaskIndex};

use super::decision::Step;
use super::{Violation, Violations};
use crate::{Job, TaskState};

/// A gang of which a part is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfGang {
    /// The job.
    pub job: CollectionId,
    /// A task that waits.
    pub waits: TaskIndex,
    /// A task that is placed, and not being stopped.
    pub placed: TaskIndex,
}

impl fmt::Display for HalfGang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, waits, placed } = self;
        write!(
            f,
            "job {job} is a gang, and its task {placed} is placed while its task {waits} waits"
        )
    }
}

impl Violations {
    /// Whether the gang of a job is placed whole.
    pub(super) fn gang(&mut self, job: &Job) {
        if !job.is_gang() {
            return;
        }
        let (mut waits, mut placed) = (None, None);
        for (index, task) in job.tasks() {
            match &task.state {
                TaskState::Pending { .. } | TaskState::Queued { .. } => waits = Some(index),
                TaskState::Running(placement) if placement.stop.is_none() => placed = Some(index),
                TaskState::Running(_) | TaskState::Dead { .. } => {}
            }
        }
        if let (Some(waits), Some(placed)) = (waits, placed) {
            self.add(Violation::HalfGang(HalfGang { job: job.id, waits, placed }));
        }
    }
}

impl Step<'_> {
    /// The gangs to which something happened are placed whole.
    pub(super) fn gangs(&mut self, events: &[Event]) {
        let subjects = events.iter().filter_map(|event| match event.subject {
            Subject::Task(instance) => Some(instance.collection),
            Subject::Job(id) => Some(id),
            Subject::Cell | Subject::Machine(_) => None,
        });
        let jobs: BTreeSet<CollectionId> = subjects.collect();
        for job in jobs.into_iter().filter_map(|id| self.cell.job(id)) {
            self.found.gang(job);
        }
    }
}
