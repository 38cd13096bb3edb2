//! Changes of what running tasks were told when they started: they are told to read again, or are restarted.

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{CollectionId, InstanceId, TaskIndex, TaskSelection, Time};

use super::Events;
use crate::Cell;
use crate::bounds::TOLD_MAX;
use crate::state::{InputChanges, Inputs, Job};

impl Cell {
    /// Whether tasks of a job have to learn at a time that a secret or the address of another job has changed.
    #[must_use]
    pub fn has_input_changes(&self, job: &Arc<Job>, now: Time) -> bool {
        match self.input_changes(job, now) {
            None => false,
            Some(InputChanges::Signal(_)) => true,
            Some(InputChanges::Restart(..)) => self.may_restart_by_itself(job),
        }
    }

    /// Tells the tasks of a job of what has changed since they have read it, as their description says.
    pub(super) fn tell_inputs(&mut self, id: CollectionId, events: &mut Events) {
        let Some(job) = self.jobs.get(id).cloned() else { return };
        match self.input_changes(&job, self.time) {
            None => {}
            Some(InputChanges::Signal(tasks)) => {
                for (index, what) in tasks.into_iter().take(TOLD_MAX) {
                    self.tell(id, index, what, events);
                }
            }
            Some(InputChanges::Restart(tasks, what)) => {
                if !self.may_restart_by_itself(&job) {
                    return;
                }
                let changed = EventKind::InputsChanged { what, restarts: true };
                events.add(Subject::Job(id), changed);
                let mut ranges: Vec<(TaskIndex, TaskIndex)> = Vec::new();
                for index in tasks {
                    match ranges.last_mut() {
                        Some((_, last)) if last.0.saturating_add(1) == index.0 => *last = index,
                        _ => ranges.push((index, index)),
                    }
                }
                self.restart_by_itself(&job, &TaskSelection::Some(ranges), events);
            }
        }
    }

    fn tell(&mut self, id: CollectionId, index: TaskIndex, what: String, events: &mut Events) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(instance) = job.instance(index) else { return };
        job.change_placement(index, |placement| {
            if let Some(inputs) = &mut placement.inputs {
                let inputs = Arc::make_mut(inputs);
                inputs.told = inputs.done.wrapping_add(1);
            }
        });
        if let Some(machine) = self.placement(instance).map(|placement| placement.machine) {
            events.reorder(machine);
        }
        let changed = EventKind::InputsChanged { what, restarts: false };
        events.add(Subject::Task(instance), changed);
    }

    /// An instance reads its secrets and names.
    pub(super) fn note_inputs(&mut self, instance: InstanceId, events: &mut Events) {
        let InstanceId { collection: id, index, .. } = instance;
        let Some(job) = self.jobs.get(id) else { return };
        let inputs = self.inputs(&job.owner, job.described(index), index);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let mut told = false;
        job.change_placement(index, |placement| {
            let before = placement.inputs.as_deref();
            let now = before.map_or(0, |before| before.told);
            told = before.is_some_and(|before| before.told != before.done);
            placement.inputs = Some(Arc::new(Inputs { told: now, done: now, ..inputs }));
        });
        if told && let Some(machine) = self.placement(instance).map(|at| at.machine) {
            events.reorder(machine);
        }
    }
}
