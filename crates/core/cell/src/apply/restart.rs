//! Restarting tasks that run, and starting those that have ended, without a change of the description.
//!
//! What runs is restarted by an update to the same description: batch by batch, within the disruption
//! budget, and with the same check that each batch becomes healthy.

use std::sync::Arc;

use event::{Death, EventKind, KillReason, PendingCause, Subject};
use model::{CollectionId, JobName, TaskIndex, TaskSelection, UserName};
use spec::{OnFailure, UpdatePolicy, limits};

use super::Events;
use super::capability::not_the_owner;
use super::quota::charges;
use super::update::{ADMINISTER, Opening, OpeningKind};
use crate::apply::mutation::Change;
use crate::lifecycle::{Stage, Transition};
use crate::{
    Cell, Job, JobPermission, JobState, OutOfBounds, Rejection, Reply, TaskState, UpdateState,
};

/// Restart the newest job of a name, or some of its tasks: what runs is restarted within the
/// disruption budget, and what has ended starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartJob {
    /// The owner of the job.
    pub owner: UserName,
    /// Its name.
    pub job: JobName,
    /// The tasks to restart.
    pub tasks: TaskSelection,
    /// Only tasks that failed for good.
    pub failed: bool,
    /// How many running tasks are restarted at once; `None`: as many as the description says.
    pub batch: Option<u32>,
}

/// What a restart does to the tasks of a job.
struct Restart {
    id: CollectionId,
    /// The tasks that have ended and start again.
    starts: Vec<TaskIndex>,
    /// The update that restarts the others, if any are alive.
    rolls: Option<(TaskSelection, UpdatePolicy)>,
}

impl Change for RestartJob {
    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        let most = limits::TASKS_MAX;
        match self.batch {
            Some(batch) if !(1..=most).contains(&batch) => {
                Err(Rejection::OutOfBounds(OutOfBounds::Batch(batch)))
            }
            _ => Ok(()),
        }
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let restart = self.check(cell, by)?;
        let id = restart.id;
        if let Some(job) = cell.jobs.get(id) {
            let (owner, spec) = (job.owner.clone(), Arc::clone(&job.spec));
            let starts = u32::try_from(restart.starts.len()).unwrap_or(u32::MAX);
            cell.room_for_tasks(&owner, by, 0, starts)?;
            let (had, mut after) = (charges(job), cell.clone());
            after.restart(by, &restart, &mut Events::default());
            let asked = after.charges_of(id);
            cell.admits(&owner, &spec, &had, asked, true).map_err(Rejection::Quota)?;
        }
        cell.restart(by, &restart, events);
        let started = u32::try_from(restart.starts.len()).unwrap_or(u32::MAX);
        let job = cell.jobs.get(id).filter(|_| restart.rolls.is_some());
        let version = job.map(|job| job.last_version);
        Ok(Reply::Restarted { collection: id, started, version })
    }
}

impl RestartJob {
    /// What it does, if it is possible.
    fn check(&self, cell: &Cell, by: &UserName) -> Result<Restart, Rejection> {
        let Self { owner, job: name, tasks, failed, batch } = self;
        let no_job = || Rejection::NoSuchJob { user: owner.clone(), name: name.clone() };
        let job = cell.job_named(owner, name).ok_or_else(no_job)?;
        if by != owner && !cell.may(by, ADMINISTER) {
            return Err(not_the_owner(by, (owner, name), JobPermission::Restart, ADMINISTER));
        }
        if !tasks.is_within(job.spec.tasks) {
            return Err(Rejection::NoSuchTask { last: job.spec.tasks.saturating_sub(1) });
        }
        job.not_being_killed()?;
        // A gang starts again as a whole.
        let all = TaskSelection::All;
        let (tasks, gang) = if job.is_gang() { (&all, true) } else { (tasks, false) };
        let any_failed = job
            .tasks()
            .any(|(_, task)| matches!(&task.state, TaskState::Dead { death: Death::Failed, .. }));
        let failed = *failed && !(gang && any_failed);
        let (mut starts, mut alive) = (Vec::new(), false);
        for index in tasks.of(job.spec.tasks) {
            let Some(task) = job.task(index) else { continue };
            match &task.state {
                TaskState::Dead { .. } if cell.lacks_machine(job, index) => {}
                TaskState::Dead { death, .. } if !failed || *death == Death::Failed => {
                    starts.push(index);
                }
                TaskState::Running(placed) if !failed => {
                    if placed.killed().is_some_and(|why| {
                        !matches!(why, KillReason::Removed | KillReason::MachineLeft(_))
                    }) {
                        let (owner, name) = (owner.clone(), name.clone());
                        return Err(Rejection::TaskBeingKilled { owner, name, index });
                    }
                    alive = true;
                }
                TaskState::Pending { .. } if !failed => alive = true,
                _ => {}
            }
        }
        cell.may_restart(by, job, alive)?;
        let policy = || UpdatePolicy {
            batch: batch.or(job.spec.update.batch),
            // There is no other description to go back to.
            on_failure: OnFailure::Pause,
            ..job.spec.update
        };
        let rolls = alive.then(|| (tasks.clone(), policy()));
        Ok(Restart { id: job.id, starts, rolls })
    }
}

impl Cell {
    /// Whether the tasks of a job may start again, and if some are `alive`, whether an update may
    /// restart them.
    fn may_restart(&self, by: &UserName, job: &Job, alive: bool) -> Result<(), Rejection> {
        let (owner, name) = (&job.owner, &job.spec.name);
        if job.spec.kind.is_alloc_set() {
            let (owner, name) = (owner.clone(), name.clone());
            return Err(Rejection::RestartsAllocSet { owner, name });
        }
        self.lives_with(job)?;
        if !job.is_alive() && self.service(owner, name).is_some() {
            let (user, name) = (owner.clone(), name.clone());
            return Err(Rejection::NameOfService { user, name });
        }
        if !job.is_alive() {
            self.room_for_every_machine(owner, &job.spec)?;
        }
        self.may_submit(by, &job.spec)?;
        self.check_packages(owner, &job.spec, alive.then_some(job))?;
        self.check_secrets(owner, &job.spec)?;
        let Some(update) = job.open_update().filter(|_| alive) else { return Ok(()) };
        let undoing = match &update.state {
            UpdateState::Undoing { .. } => true,
            UpdateState::Rolling | UpdateState::Paused { .. } if !update.restart => false,
            _ => return Ok(()),
        };
        let (owner, name, to) = (owner.clone(), name.clone(), update.to);
        Err(Rejection::RestartDuringUpdate { owner, name, to, undoing })
    }

    /// Carries out a restart that was checked.
    fn restart(&mut self, by: &UserName, restart: &Restart, events: &mut Events) {
        let Restart { id, starts, rolls } = restart;
        if !starts.is_empty() {
            self.begin_job_again(*id, events);
        }
        for index in starts {
            self.revive(*id, *index, events);
        }
        let Some(job) = self.jobs.get(*id) else { return };
        let (owner, spec) = (job.owner.clone(), Arc::clone(&job.spec));
        match rolls {
            Some((tasks, policy)) => {
                let (capability, policy, kind) = (ADMINISTER, Some(policy), OpeningKind::Restart);
                let opening = Opening { capability, spec: &spec, tasks, policy, kind };
                self.open_unchecked(by, *id, &opening, events);
            }
            None if *by != owner && !starts.is_empty() => {
                let kind = EventKind::CapabilityUsed { capability: ADMINISTER };
                events.add(Subject::Job(*id), kind);
            }
            None => {}
        }
    }

    /// Whether tasks of a job may be restarted although nobody has asked for it: no update is under way, and its
    /// owner could restart them.
    pub(super) fn may_restart_by_itself(&self, job: &Job) -> bool {
        let is_over = match job.open_update() {
            None => true,
            Some(update) => matches!(update.state, UpdateState::Succeeded { .. }),
        };
        is_over && job.not_being_killed().is_ok() && self.may_restart(&job.owner, job, true).is_ok()
    }

    /// Opens an update of a job to the description that it has, which restarts these tasks.
    pub(super) fn restart_by_itself(
        &mut self,
        job: &Job,
        tasks: &TaskSelection,
        events: &mut Events,
    ) {
        let policy = UpdatePolicy { on_failure: OnFailure::Pause, ..job.spec.update };
        let rolls = Some((tasks.clone(), policy));
        self.restart(&job.owner, &Restart { id: job.id, starts: Vec::new(), rolls }, events);
    }

    /// A dead job is pending again, before its tasks are.
    fn begin_job_again(&mut self, id: CollectionId, events: &mut Events) {
        let defers = self.jobs.get(id).is_some_and(|job| self.defers(job));
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.state.stage() != Stage::Dead
            || job.advance(Transition::Submit, JobState::Pending).is_err()
        {
            return;
        }
        for with in job.parent.into_iter().chain(job.alloc_set) {
            self.children.insert((with, id));
        }
        if job.spec.is_on_every_machine() {
            self.every_machine.insert(id);
            events.respread.insert(id);
        }
        events.add(Subject::Job(id), EventKind::Submit { cause: PendingCause::Submitted });
        if defers && job.advance(Transition::Queue, JobState::Queued).is_ok() {
            events.add(Subject::Job(id), EventKind::Queue);
        }
    }
}
