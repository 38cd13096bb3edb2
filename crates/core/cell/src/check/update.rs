//! Versions of descriptions, updates and disruption budgets.

use event::{Event, EventKind, EvictionCause, StopReason, Subject};
use model::{CollectionId, TaskId, Version};
use thiserror::Error;

use super::decision::Step;
use super::{Violation, Violations};
use crate::bounds::VERSIONS_KEPT_MAX;
use crate::{Cell, Job, TaskState, UpdateState};

/// A violated invariant of the versions of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VersionViolation {
    /// The versions of an update are wrong.
    #[error("the update of job {job} from version {from} to {to} could not be undone")]
    Backwards {
        /// The job.
        job: CollectionId,
        /// The version to which an undo goes back.
        from: Version,
        /// The new version.
        to: Version,
    },
    /// The description of an earlier version is not stored.
    #[error("version {version} of job {job} is in its history, and its description is not stored")]
    NotKept {
        /// The job.
        job: CollectionId,
        /// The version.
        version: Version,
    },
}

impl Cell {
    /// The lists of jobs with an open update and of machines to be drained match the objects.
    pub(super) fn check_updates(&self, found: &mut Violations) {
        for job in self.jobs() {
            let (listed, open) = (self.updating.contains(&job.id), job.open_update().is_some());
            if listed != open {
                found.add(Violation::UpdateList { job: job.id, listed, open });
            }
            found.versions(job);
        }
        for id in self.updating.iter().filter(|id| self.jobs.get(**id).is_none()) {
            found.add(Violation::UpdateList { job: *id, listed: true, open: false });
        }
        let drained = |id| self.machines.get(id).is_some_and(|machine| machine.drain.is_some());
        for machine in self.machines() {
            let listed = self.draining.contains(&machine.id);
            if listed != drained(machine.id) {
                found.add(Violation::DrainList { machine: machine.id, listed });
            }
        }
        for id in self.draining.iter().filter(|id| self.machines.get(**id).is_none()) {
            found.add(Violation::DrainList { machine: *id, listed: true });
        }
    }
}

impl Violations {
    /// Every live task has a stored description, and none is on a version that was undone.
    fn versions(&mut self, job: &Job) {
        let undone = job.update.as_ref().filter(|update| {
            matches!(update.state, UpdateState::Undone { .. }) && job.version == update.from
        });
        for (index, task) in job.tasks() {
            if let TaskState::Dead { .. } = task.state {
                continue;
            }
            let (task, version) = (TaskId { collection: job.id, index }, task.version);
            let beyond = index.0 >= job.spec.tasks;
            if job.description(version).is_none() || version > job.last_version {
                self.add(Violation::NoDescription { task, version });
            }
            if undone.is_some_and(|update| version > update.from) && !beyond {
                self.add(Violation::NotUndone { task, version });
            }
        }
        self.at_most("kept versions", job.history.len(), VERSIONS_KEPT_MAX);
        for past in job.history.iter() {
            if job.description(past.version).is_none() {
                self.add(VersionViolation::NotKept { job: job.id, version: past.version }.into());
            }
        }
        if let Some(update) = &job.update {
            let rows = job.rows() as usize;
            self.at_most("changing tasks of an update", update.changing.len(), rows);
            self.at_most("relapsed tasks of an update", update.relapsed.len(), rows);
            self.at_most("skipped tasks of an update", update.skipped.len(), rows);
            let known = job.description(update.from).is_some();
            if update.state.is_open() && !known || update.to > job.last_version {
                self.add(
                    VersionViolation::Backwards { job: job.id, from: update.from, to: update.to }
                        .into(),
                );
            }
        }
    }
}

impl Step<'_> {
    /// No voluntary disruption took more tasks of a job down than its budget allows.
    pub(super) fn budgets(&mut self, events: &[Event]) {
        for event in events {
            let Subject::Task(instance) = event.subject else { continue };
            let EventKind::Stop { why: StopReason::Evict(cause) } = &event.kind else { continue };
            let forced = || {
                let placed = self.cell.placement(instance);
                let machine = placed.and_then(|placed| self.cell.machine(placed.machine));
                // Its notice ends with the drain, or that of its alloc, with which it leaves.
                let alloc = placed.and_then(crate::Placement::alloc);
                let notice = |instance| self.cell.notice_of(instance);
                let longest = notice(instance).max(alloc.map(notice).unwrap_or_default());
                let ends = self.cell.time() + longest;
                let drain = machine.and_then(|machine| machine.drain.as_ref());
                drain.is_some_and(|drain| drain.is_over(ends))
            };
            match cause {
                EvictionCause::Updated | EvictionCause::Moved { .. } => {}
                EvictionCause::MachineShutdown if !forced() => {}
                _ => continue,
            }
            // It was being removed by an update that is undone: nothing more is taken down.
            let stops = |placement: &crate::Placement| placement.stop.is_some();
            if self.before.placement(instance).is_some_and(stops) {
                continue;
            }
            let Some(job) = self.cell.job(instance.collection) else { continue };
            let before = self.before.job(instance.collection).map_or(0, |job| job.down());
            // A gang goes down as one.
            if job.is_gang() && (before > 0 || job.spec.down_max() > 0) {
                continue;
            }
            let given_up = match cause {
                EvictionCause::Updated => {
                    job.given_up(self.cell.time()).max(job.pending_on_every_machine())
                }
                _ => 0,
            };
            let (down, most) = (job.down(), job.spec.down_max().saturating_add(given_up));
            if down > most.max(before) {
                self.found.add(Violation::BeyondBudget { job: job.id, down, most });
            }
        }
    }
}
