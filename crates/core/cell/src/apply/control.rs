//! Controlling the open update of a job: pause, resume, undo and close (paper, section 2.3).

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{CollectionId, JobName, TaskIndex, UpdateAction, UserName, Version};

use super::Events;
use super::update::{ADMINISTER, Opening};
use crate::apply::mutation::Change;
use crate::{Cell, Permission, Rejection, Reply, UpdateHindrance, UpdateState};

/// Control the open update of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlUpdate {
    /// The owner of the job.
    pub owner: UserName,
    /// Its name.
    pub job: JobName,
    /// What to do.
    pub action: UpdateAction,
    /// The version to which an undo goes; `None`: the last one that succeeded.
    pub to: Option<Version>,
    /// The version that the update leads to, as the user has seen it. If there is another one now,
    /// the request is rejected.
    pub expected: Option<Version>,
}

impl Change for ControlUpdate {
    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { owner, job, action, to, expected } = self;
        let what = || {
            let (owner, name) = (owner.clone(), job.clone());
            Permission::ControlUpdate { owner, name, action: *action }
        };
        let id = cell.changeable(by, (owner, job), what, ADMINISTER, *expected)?;
        if let (UpdateAction::Undo, Some(to)) = (action, to)
            && !cell.goes_back_to(id, *to)
        {
            return cell.go_back(by, id, *to, events);
        }
        cell.control_update(by, id, *action, events)?;
        let update = cell.jobs.get(id).and_then(|job| job.update.as_ref());
        let version = update.map_or(Version(0), |update| update.to);
        let changes = Arc::default();
        Ok(Reply::Updated { collection: id, version, unchanged: false, changes })
    }
}

impl Cell {
    fn control_update(
        &mut self,
        by: &UserName,
        id: CollectionId,
        action: UpdateAction,
        events: &mut Events,
    ) -> Result<(), Rejection> {
        let now = self.time;
        let Some(job) = self.jobs.get(id) else { return Err(Rejection::NoSuchCollection(id)) };
        let (owner, name) = (job.owner.clone(), job.spec.name.clone());
        let wrong = |why| Err(Rejection::CannotControlUpdate { owner, name, action, why });
        let Some(update) = &job.update else { return wrong(UpdateHindrance::NoUpdate) };
        let to = update.to;
        let state = match (action, &update.state) {
            (_, UpdateState::Closed { .. }) => return wrong(UpdateHindrance::Closed),
            (_, UpdateState::Undone { by, .. }) => {
                return wrong(UpdateHindrance::Undone { by: by.clone() });
            }
            (_, UpdateState::Undoing { by, .. }) => {
                return wrong(UpdateHindrance::Undoing { by: by.clone() });
            }
            (UpdateAction::Pause, UpdateState::Rolling) => {
                UpdateState::Paused { at: now, by: Some(by.clone()) }
            }
            (UpdateAction::Pause, UpdateState::Paused { by, .. }) => {
                return wrong(UpdateHindrance::Paused { by: by.clone() });
            }
            (UpdateAction::Pause, UpdateState::Succeeded { .. }) => {
                return wrong(UpdateHindrance::Succeeded);
            }
            (UpdateAction::Resume, UpdateState::Paused { .. }) => UpdateState::Rolling,
            (UpdateAction::Resume, _) => return wrong(UpdateHindrance::NotPaused),
            (UpdateAction::Undo, _) => {
                self.begin_undo(id, Some(by.clone()), events);
                return Ok(());
            }
            (UpdateAction::Close, UpdateState::Succeeded { .. }) => UpdateState::Closed { at: now },
            (UpdateAction::Close, _) => return wrong(UpdateHindrance::NotSucceeded),
        };
        let kind = match action {
            UpdateAction::Pause => EventKind::UpdatePaused { version: to },
            UpdateAction::Resume => EventKind::UpdateResumed { version: to },
            UpdateAction::Close | UpdateAction::Undo => EventKind::UpdateClosed { version: to },
        };
        if action == UpdateAction::Close {
            self.close_update(id, events);
            return Ok(());
        }
        let Some(job) = self.jobs.get_mut(id) else { return Ok(()) };
        let current =
            |index: &TaskIndex| job.tasks.get(index.0 as usize).map(|task| task.generation);
        if let Some(update) = job.update.as_mut().map(Arc::make_mut) {
            // Only failures after the pause count from now on.
            if state == UpdateState::Rolling {
                update.failure = None;
                for (index, changing) in &mut update.changing {
                    changing.since = now;
                    changing.generation = current(index).unwrap_or(changing.generation);
                }
            }
            update.state = state;
        }
        events.add(Subject::Job(id), kind);
        Ok(())
    }

    /// Whether the open update of a job would be undone to that version.
    fn goes_back_to(&self, id: CollectionId, version: Version) -> bool {
        let update = self.jobs.get(id).and_then(|job| job.open_update());
        update.is_some_and(|update| {
            update.from == version && !matches!(update.state, UpdateState::Undoing { .. })
        })
    }

    /// Opens an update to an earlier version.
    fn go_back(
        &mut self,
        by: &UserName,
        id: CollectionId,
        version: Version,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let job = self.jobs.get(id).ok_or(Rejection::NoSuchCollection(id))?;
        let (owner, name) = (job.owner.clone(), job.spec.name.clone());
        let Some(spec) = job.description(version).cloned() else {
            return Err(Rejection::VersionNotKept { owner, name, version });
        };
        let spec = match spec.own_limit {
            None => self.as_autoscaled(&owner, &spec),
            Some(_) => spec,
        };
        Ok(self.open_update(by, id, &Opening::to(&spec), events)?.reply(id))
    }
}
