//! Vertical autoscaling: an autoscaler changes the limit of a job's tasks. The job's description says
//! whether it may, and in which bounds; the cell, not the autoscaler, holds it to that.

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{Capability, JobName, Sequencer, TaskSelection, UserName, Version};
use spec::{CpuRam, JobSpec, OnFailure, UpdatePolicy};

use super::update::{Opening, OpeningKind};
use super::{Events, text_bounds};
use crate::apply::mutation::Change;
use crate::{Cell, Job, JobPermission, LimitsHindrance, Rejection, Reply, TaskState, UpdateState};

/// Change CPU and RAM of the limit of a live job whose description lets an autoscaler do so. Limits in
/// overrides stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// The owner of the job.
    pub owner: UserName,
    /// Its name.
    pub job: JobName,
    /// The new limit.
    pub limit: CpuRam,
    /// The reason: which recommender, and its numbers.
    pub reason: String,
    /// The last version of the job that the autoscaler has seen. If there is another one now, the
    /// request is rejected.
    pub expected: Option<Version>,
    /// The lock that the autoscaler holds. If it is lost, the request is rejected.
    pub sequencer: Option<Sequencer>,
}

impl Change for SetLimits {
    /// Requires the job to be one's own, or a capability, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::reason(&self.reason)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let Self { owner, job: name, limit, reason, expected, sequencer } = self;
        let capability = Capability::Autoscale;
        let what = || JobPermission::SetLimits.of(owner, name);
        let id = cell.changeable(by, (owner, name), what, capability, *expected)?;
        if let Some(sequencer) = sequencer {
            cell.holds_lock(by, sequencer)?;
        }
        let Some(job) = cell.jobs.get(id) else { return Err(Rejection::NoSuchCollection(id)) };
        let before = CpuRam::of(job.spec.task.limit);
        // What is in the scratch is memory of the task.
        let scratch = job.spec.task.scratch.unwrap_or_default();
        let autoscale = job.spec.autoscale.with_ram_from(scratch);
        let Some((min, max)) = autoscale.bounds() else {
            let (owner, name) = (owner.clone(), name.clone());
            return Err(Rejection::NotAutoscaled { owner, name });
        };
        if limit.within((min, max)) != *limit {
            let (owner, name, bounds) = (owner.clone(), name.clone(), autoscale);
            return Err(Rejection::LimitOutOfBounds { owner, name, limit: *limit, bounds });
        }
        let mut spec = JobSpec::clone(&job.spec);
        let own = job.spec.own_limit.unwrap_or(before);
        spec.task.limit = limit.over(spec.task.limit);
        spec.own_limit = (own != *limit).then_some(own);
        text_bounds::resized_description(&spec)?;
        if before == *limit {
            let version = job.version;
            let changes = Arc::default();
            return Ok(Reply::Updated { collection: id, version, unchanged: true, changes });
        }
        let lowers = before.exceeds(*limit);
        let policy = policy(job, &spec, lowers, cell.time)?;
        let tasks = live_tasks(job);
        cell.within_quota(owner, &spec).map_err(Rejection::Quota)?;
        let version = Version(job.last_version.0.saturating_add(1));
        let kind = EventKind::LimitsSet {
            version,
            from: before,
            to: *limit,
            reason: reason.as_str().into(),
        };
        events.add(Subject::Job(id), kind);
        let spec = Arc::new(spec);
        let opening = Opening {
            capability,
            spec: &spec,
            tasks: &tasks,
            policy: Some(&policy),
            kind: OpeningKind::Limits,
        };
        let changes = cell.open_unchecked(by, id, &opening, events);
        Ok(Reply::Updated { collection: id, version, unchanged: false, changes })
    }
}

/// How the update proceeds that changes the limit; or why it cannot be opened now.
///
/// It closes as soon as it has succeeded: nothing is left to undo, and no quota is held. A user's update that
/// has succeeded can still be undone as long as before. If a task runs out of memory because of less
/// memory, everything goes back. More of it is never taken back: the next change continues.
fn policy(
    job: &Job,
    spec: &JobSpec,
    lowers: bool,
    now: model::Time,
) -> Result<UpdatePolicy, Rejection> {
    let less_memory = spec.task.limit.ram < job.spec.task.limit.ram;
    let on_failure = if less_memory { OnFailure::Undo } else { OnFailure::Pause };
    // More of a resource needs no trial: a task that has it passes as soon as it is healthy.
    let healthy_for = if lowers { spec.update.healthy_for } else { model::Span::ZERO };
    let close_after = model::Span::ZERO;
    let mut policy = UpdatePolicy { on_failure, healthy_for, close_after, ..spec.update };
    let Some(update) = job.open_update() else { return Ok(policy) };
    let later = |why| {
        let (owner, name, version) = (job.owner.clone(), job.spec.name.clone(), update.to);
        Err(Rejection::LimitsWait { owner, name, version, why })
    };
    let both = job.description(update.from).zip(job.description(update.to));
    let of_limits = both.is_some_and(|(from, to)| differs_in_limits(from, to));
    match update.state {
        UpdateState::Undoing { .. } if !of_limits => return later(LimitsHindrance::Undoing),
        UpdateState::Rolling | UpdateState::Paused { .. } if !of_limits => {
            return later(LimitsHindrance::NotComplete);
        }
        _ if lowers => return later(LimitsHindrance::Falling),
        UpdateState::Succeeded { at } if !of_limits => {
            let closes = at + update.policy.close_after;
            policy.close_after = closes.since(now);
        }
        _ => {}
    }
    Ok(policy)
}

/// Whether descriptions differ in nothing but the limit that an autoscaler sets.
pub(super) fn differs_in_limits(a: &JobSpec, b: &JobSpec) -> bool {
    a.differing(b).all(|field| matches!(field.name, "cpu" | "ram"))
}

/// The tasks that the change is for: those that are alive, and have the current description or are about
/// to get it. Others stay as they are: an autoscaler starts no task.
fn live_tasks(job: &Job) -> TaskSelection {
    let current = job.tasks().filter(|(index, task)| {
        let alive = !matches!(task.state, TaskState::Dead { .. });
        alive && index.0 < job.spec.tasks && job.has_or_gets_current(*index)
    });
    TaskSelection::Some(current.map(|(index, _)| (index, index)).collect()).normalised()
}

impl Cell {
    /// A description as the cell takes it from its user: if an autoscaler has set the limit of the live job
    /// of its name, and the user's description has the limit that it had before, the autoscaler's stays,
    /// within the description's bounds. With another limit, the user's counts. The number of tasks of a job with one on
    /// every machine is the cell's.
    #[must_use]
    pub fn as_autoscaled(&self, owner: &UserName, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
        let spec = &self.as_sized(owner, Arc::clone(spec));
        let job = self.job_named(owner, &spec.name).filter(|job| job.is_alive());
        let Some(own) = job.and_then(|job| job.spec.own_limit) else { return Arc::clone(spec) };
        let limit = job.map(|job| CpuRam::of(job.spec.task.limit)).unwrap_or_default();
        let Some(bounds) = spec.autoscale.bounds() else { return Arc::clone(spec) };
        if spec.own_limit.is_some() || CpuRam::of(spec.task.limit) != own {
            return Arc::clone(spec);
        }
        let limit = limit.within(bounds);
        let mut spec = JobSpec::clone(spec);
        spec.task.limit = limit.over(spec.task.limit);
        spec.own_limit = (own != limit).then_some(own);
        Arc::new(spec)
    }
}

/// Rejects a user's description that has what only the cell adds.
pub(super) fn without_own_limit(spec: &JobSpec) -> Result<(), Rejection> {
    match spec.own_limit {
        None => Ok(()),
        Some(_) => Err(Rejection::OwnLimit),
    }
}
