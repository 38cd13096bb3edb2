//! What an open update does to the tasks of its job, step by step. The leader decides on the steps;
//! here each is carried out if it is still possible and within the budgets. A repeated or outdated
//! step changes nothing.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use event::{
    EventKind, EvictionCause, KillReason, PendingCause, SkipReason, StopReason, Subject,
    UpdateFailure,
};
use model::{Band, CollectionId, InstanceId, TaskIndex, UserName, Version};
use spec::JobSpec;

use super::quota::{charged_bands, charges};
use super::task::Again;
use super::update::wants_revival;
use super::{Events, start};
use crate::feasibility::{Offer, Request, fits};
use crate::lifecycle::{Stage, Transition};
use crate::state::Tallied;
use crate::{
    Cell, Changing, JobState, LastIncarnation, Phase, Placement, TaskState, Total, Update,
    UpdateState,
};

/// A step of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStep {
    /// A task is changed: in place if possible, else it is stopped and gets its new description with
    /// its next incarnation. A task that its disruption budget does not allow stays.
    Change(TaskIndex),
    /// A changed task was healthy for long enough.
    Passed(TaskIndex),
    /// A task is left as it is.
    Skip(TaskIndex, SkipReason),
    /// A changed task did not become healthy: the update undoes itself or pauses.
    Fail(UpdateFailure),
    /// Nothing is left to change: the update has succeeded, or it is undone.
    Finish,
    /// It can no longer be undone.
    Close,
}

impl Cell {
    pub(super) fn step_update(
        &mut self,
        id: CollectionId,
        version: Version,
        steps: &[UpdateStep],
        events: &mut Events,
    ) {
        for step in steps {
            let Some(job) = self.jobs.get(id) else { return };
            let Some(update) = job.open_update().filter(|update| update.to == version) else {
                return;
            };
            let moving = update.is_moving();
            match step {
                UpdateStep::Change(index) if moving => self.change_task(id, *index, events),
                UpdateStep::Passed(index) if moving => self.task_passed(id, *index),
                UpdateStep::Skip(index, why) if update.state == UpdateState::Rolling => {
                    self.skip_task(id, *index, *why, events);
                }
                UpdateStep::Fail(failure) if update.state == UpdateState::Rolling => {
                    self.fail_update(id, failure, events);
                }
                UpdateStep::Finish => {
                    self.succeed(id, events);
                    self.undone(id, events);
                }
                UpdateStep::Close => {
                    if let UpdateState::Succeeded { .. } = update.state {
                        self.close_update(id, events);
                    }
                }
                _ => {}
            }
        }
    }

    /// Charges of a job, as they are.
    pub(super) fn charges_of(&self, id: CollectionId) -> Vec<(Band, Total)> {
        self.jobs.get(id).map(|job| charges(job)).unwrap_or_default()
    }

    /// What is charged for a task.
    pub(super) fn charges_of_task(&self, id: CollectionId, index: TaskIndex) -> Vec<(Band, Total)> {
        let Some(job) = self.jobs.get(id) else { return Vec::new() };
        let charge: Total = job.charged_limit(index).into();
        charged_bands(job).into_iter().map(|band| (band, charge)).collect()
    }

    /// A task is charged for what it is now, instead of what it was charged before.
    pub(super) fn recharge_task(
        &mut self,
        id: CollectionId,
        index: TaskIndex,
        before: &[(Band, Total)],
    ) {
        let after = self.charges_of_task(id, index);
        if *before != *after
            && let Some(owner) = self.jobs.get(id).map(|job| job.owner.clone())
        {
            self.recharge(&owner, before, &after);
        }
    }

    fn edit_update(&mut self, id: CollectionId, edit: impl FnOnce(&mut Update)) {
        if let Some(job) = self.jobs.get_mut(id)
            && let Some(update) = &mut job.update
        {
            edit(Arc::make_mut(update));
        }
    }

    /// Adds the tasks that the current description has and the job has not; with `all`, tasks that
    /// failed or were killed start again, too. Without it, only those that were removed do.
    pub(super) fn add_missing(&mut self, id: CollectionId, all: bool, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        let (tasks, rows) = (job.spec.tasks, job.rows());
        let update = job.update.clone();
        let selected =
            |index: TaskIndex| update.as_ref().is_none_or(|update| update.tasks.contains(index));
        let back = |(index, task): &(TaskIndex, &crate::Task)| {
            let here = index.0 < tasks && !job.is_free_row(*index);
            here && (task.is_removed() || all && selected(*index) && wants_revival(task))
        };
        let again: Vec<_> = job.tasks().filter(back).map(|(index, _)| index).collect();
        self.keep_killed(id, all, events);
        for index in again {
            if self.revive(id, index, events) {
                self.mark_changing(id, index, 0);
            }
        }
        for index in (rows..tasks).map(TaskIndex) {
            self.add_task(id, events);
            self.mark_changing(id, index, 0);
        }
    }

    /// Tasks that are still being stopped because they were removed, and that the current description
    /// has, run again as soon as they have ended; with `all`, those that a user killed do, too.
    fn keep_killed(&mut self, id: CollectionId, all: bool, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        let selected = |index: TaskIndex| {
            job.update.as_ref().is_none_or(|update| update.tasks.contains(index))
        };
        let comes_back = |(index, task): &(TaskIndex, &crate::Task)| {
            let TaskState::Running(placement) = &task.state else { return false };
            index.0 < job.spec.tasks
                && match placement.killed() {
                    Some(KillReason::Removed) => true,
                    Some(_) => all && selected(*index) && wants_revival(task),
                    None => false,
                }
        };
        let kept: Vec<_> = job.tasks().filter(comes_back).map(|(index, _)| index).collect();
        for index in kept {
            let Some(job) = self.jobs.get_mut(id) else { return };
            let (Some(instance), Some(task)) = (job.instance(index), job.task(index)) else {
                continue;
            };
            let TaskState::Running(Placement { machine, .. }) = task.state else { continue };
            let why = StopReason::Evict(EvictionCause::Updated);
            let stop = Some(Arc::new(why.clone()));
            job.change_placement(index, |placement| placement.stop = stop);
            events.reorder(machine);
            events.add(Subject::Task(instance), EventKind::Stop { why });
            self.mark_changing(id, index, 1);
        }
    }

    /// Remembers a task as changed; `later` is 1 if its next incarnation is the first that counts.
    pub(super) fn mark_changing(&mut self, id: CollectionId, index: TaskIndex, later: u32) {
        let now = self.time;
        let Some(task) = self.jobs.get(id).and_then(|job| job.task(index)) else { return };
        let mut generation = task.generation;
        generation.0 = generation.0.saturating_add(later);
        self.edit_update(id, |update| {
            update.changing.insert(index, Changing { since: now, generation });
        });
    }

    /// Tasks that an earlier update has changed, and that have the description already, still have to
    /// pass.
    pub(super) fn keep_changing(&mut self, id: CollectionId, kept: BTreeMap<TaskIndex, Changing>) {
        let Some(job) = self.jobs.get(id) else { return };
        let has_it = |index: &TaskIndex| {
            let running = |task: &crate::Task| matches!(task.state, TaskState::Running(_));
            job.task(*index).is_some_and(|task| task.version == job.version && running(task))
        };
        let kept: Vec<_> = kept.into_iter().filter(|(index, _)| has_it(index)).collect();
        self.edit_update(id, |update| {
            for (index, changing) in kept {
                update.changing.entry(index).or_insert(changing);
            }
        });
    }

    /// A dead task becomes pending again, in the current version.
    pub(super) fn revive(
        &mut self,
        id: CollectionId,
        index: TaskIndex,
        events: &mut Events,
    ) -> bool {
        let (now, cause) = (self.time, PendingCause::Submitted);
        let charged = self.charges_of_task(id, index);
        let held = self.jobs.get(id).is_some_and(|job| self.is_held_back(job, index));
        let defers = self.jobs.get(id).is_some_and(|job| self.defers(job));
        let Some(job) = self.jobs.get_mut(id) else { return false };
        let (before, version) = (Tallied::of(job), job.version);
        let state = TaskState::Pending { since: now, not_before: now, cause };
        let Ok(task) = job.step(index, Transition::Submit, state) else { return false };
        task.generation.0 = task.generation.0.saturating_add(1);
        (task.version, task.failures, task.finishes, task.ends_in_row) = (version, 0, 0, 0);
        if let Some(instance) = job.instance(index) {
            events.add(Subject::Task(instance), EventKind::Submit { cause });
            let waits = held || defers || job.state == JobState::Queued;
            if waits && job.queue_task(index, now) {
                events.add(Subject::Task(instance), EventKind::Queue);
            } else {
                self.pending.insert(id);
            }
        }
        self.tally.replace(&job.owner, before, Tallied::of(job));
        self.recharge_task(id, index, &charged);
        self.release_queued(id, Some(index), events);
        self.gang_restarts(id, index, events);
        true
    }

    /// What an update changes as soon as it is open: tasks that do not run, and those that can take
    /// over the description in place without losing anything by it.
    pub(super) fn change_at_once(&mut self, id: CollectionId, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(update) = job.update.clone() else { return };
        let all = (0..job.spec.tasks).map(TaskIndex);
        let indexes: Vec<_> = all.filter(|index| job.is_to_change(*index)).collect();
        for index in indexes {
            let Some(job) = self.jobs.get(id) else { return };
            let Some(task) = job.task(index) else { continue };
            let Some(target) = job.description(update.target()).cloned() else { return };
            match &task.state {
                TaskState::Running(_)
                    if update.restarts_all()
                        || job.described(index).must_restart(&target, index) => {}
                TaskState::Running(placement) if placement.stop.is_some() => {}
                TaskState::Running(_) => {
                    let (old, new) = (job.limit(index), target.limit(index));
                    let grows = new.plus(old.minus(new)) == new;
                    let undoing = matches!(update.state, UpdateState::Undoing { .. });
                    if (grows || undoing) && self.fits_in_place(job, &target, index) {
                        self.switch_in_place(id, index, &target, events);
                    }
                }
                _ => self.switch_idle(id, index, events),
            }
        }
    }

    /// A task that does not run takes over the description.
    fn switch_idle(&mut self, id: CollectionId, index: TaskIndex, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(target) = job.update.as_ref().map(|update| update.target()) else { return };
        let Some(instance) = job.instance(index) else { return };
        let charged = self.charges_of_task(id, index);
        let now = self.time;
        if let Some(task) = self.jobs.get_mut(id).and_then(|job| job.task_mut(index)) {
            task.take_version(target, now);
        }
        self.recharge_task(id, index, &charged);
        self.mark_changing(id, index, 0);
        events.add(Subject::Task(instance), EventKind::UpdatePending);
    }

    /// A running task takes over a description where it runs.
    fn switch_in_place(
        &mut self,
        id: CollectionId,
        index: TaskIndex,
        spec: &JobSpec,
        events: &mut Events,
    ) {
        let (now, charged) = (self.time, self.charges_of_task(id, index));
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(target) = job.update.as_ref().map(|update| update.target()) else { return };
        let (Some(instance), old) = (job.instance(index), Arc::clone(job.described(index))) else {
            return;
        };
        let (before, was) = (job.demand(index), job.limit(index));
        let same_for_task = old.task(index) == spec.task(index);
        let Some(task) = job.task_mut(index) else { return };
        let TaskState::Running(placement) = &task.state else { return };
        let (machine, alloc) = (placement.machine, placement.alloc());
        let alloc_ports = placement.alloc_ports().to_vec();
        task.version = target;
        let (after, is) = (job.demand(index), job.limit(index));
        if !same_for_task {
            job.change_placement(index, |placement| {
                if let Phase::Started { since, .. } = &mut placement.phase {
                    *since = now;
                }
            });
        }
        if let Some(machine) = self.machines.get_mut(machine) {
            machine.resize(&before, &after);
            if let Some(alloc) = alloc {
                machine.leave(alloc, was, &alloc_ports);
                machine.enter(alloc, is, &alloc_ports);
            }
        }
        self.recharge_task(id, index, &charged);
        events.reorder(machine);
        events.add(Subject::Task(instance), EventKind::UpdateRunning);
        if !same_for_task {
            self.mark_changing(id, index, 0);
        }
    }

    /// See [`UpdateStep::Change`].
    fn change_task(&mut self, id: CollectionId, index: TaskIndex, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        let (Some(update), Some(task)) = (job.update.clone(), job.task(index)) else { return };
        let Some(target) = job.description(update.target()).cloned() else { return };
        if !job.is_to_change(index) {
            return;
        }
        let Some(instance) = job.instance(index) else { return };
        let TaskState::Running(placement) = &task.state else {
            return self.switch_idle(id, index, events);
        };
        match placement.stop.as_deref() {
            // Its next incarnation has the new description.
            Some(StopReason::Evict(_)) => return self.mark_changing(id, index, 1),
            Some(StopReason::Kill(_)) => return,
            None => {}
        }
        let (job_is_gang, tasks) = (job.is_gang(), job.spec.tasks);
        let restart = update.restarts_all() || job.described(index).must_restart(&target, index);
        if !restart && self.fits_in_place(job, &target, index) {
            return self.switch_in_place(id, index, &target, events);
        }
        let rolling = update.state == UpdateState::Rolling;
        let too_many = update.policy.disruptions.is_some_and(|most| update.disruptions >= most);
        if rolling && too_many || self.may_update(instance).is_err() {
            return;
        }
        self.edit_update(id, |update| {
            update.disruptions = update.disruptions.saturating_add(u32::from(rolling));
        });
        let others: Vec<TaskIndex> = match job_is_gang {
            true => (0..tasks).map(TaskIndex).filter(|other| *other != index).collect(),
            false => Vec::new(),
        };
        self.mark_changing(id, index, 1);
        events.add(Subject::Task(instance), EventKind::UpdateRunning);
        self.stop(instance, &StopReason::Evict(EvictionCause::Updated), events);
        // The others of a gang stop with it, and get the description with their next incarnations.
        for other in others {
            self.change_task(id, other, events);
        }
    }

    /// A task fails while its job's update rolls. One that had passed has to pass again, and the next
    /// time the update has failed: else a version whose tasks fail after a while would never be undone.
    pub(super) fn task_fails(&mut self, instance: InstanceId) {
        let (id, index) = (instance.collection, instance.index);
        let Some(job) = self.jobs.get(id) else { return };
        let (Some(update), Some(task)) = (job.open_update(), job.task(index)) else { return };
        let passed = update.state == UpdateState::Rolling
            && task.version == update.to
            && index.0 < job.spec.tasks
            && !update.changing.contains_key(&index);
        if !passed {
            return;
        }
        let again = update.relapsed.contains(&index);
        self.mark_changing(id, index, u32::from(!again));
        self.edit_update(id, |update| {
            update.relapsed.insert(index);
        });
    }

    /// Whether an open update has changed a task that was not healthy for long enough yet.
    pub(super) fn is_changing(&self, instance: InstanceId) -> bool {
        let update = self.jobs.get(instance.collection).and_then(|job| job.open_update());
        update.is_some_and(|update| update.changing.contains_key(&instance.index))
    }

    /// See [`UpdateStep::Passed`].
    fn task_passed(&mut self, id: CollectionId, index: TaskIndex) {
        let now = self.time;
        let Some(job) = self.jobs.get(id) else { return };
        let (Some(update), Some(task)) = (&job.update, job.task(index)) else { return };
        let undoing = matches!(update.state, UpdateState::Undoing { .. });
        let healthy = task
            .up_since()
            .is_some_and(|since| undoing || now.since(since) >= update.policy.healthy_for);
        let since = update.changing.get(&index).map(|changing| changing.since);
        let late = since.is_some_and(|since| now.since(since) >= update.policy.healthy_within);
        let dead =
            matches!(task.state, TaskState::Dead { .. }) || self.waits_for_its_machine(job, index);
        // An undo goes on even if the old version does not become healthy.
        if dead || undoing && late || healthy && task.version == update.target() {
            self.edit_update(id, |update| {
                if update.changing.remove(&index).is_some() {
                    update.last_passed = Some(now);
                }
            });
        }
    }

    fn skip_task(
        &mut self,
        id: CollectionId,
        index: TaskIndex,
        why: SkipReason,
        events: &mut Events,
    ) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(update) = &job.update else { return };
        if !job.is_to_change(index) {
            return;
        }
        let (version, instance) = (update.to, job.instance(index));
        self.edit_update(id, |update| {
            update.skipped.insert(index, why);
        });
        if let Some(instance) = instance {
            events.add(Subject::Task(instance), EventKind::UpdateSkipped { version, why });
        }
    }

    fn fail_update(&mut self, id: CollectionId, failure: &UpdateFailure, events: &mut Events) {
        let (now, index) = (self.time, failure.instance.index);
        let Some(job) = self.jobs.get(id) else { return };
        let Some(update) = job.update.clone() else { return };
        let Some(changing) = update.changing.get(&index) else { return };
        let late = now.since(changing.since) >= update.policy.healthy_within;
        let end = job.failed_change(index).map(|(_, end)| end.clone());
        if end.is_none() && (!late || self.waits_for_its_machine(job, index)) {
            return;
        }
        let failure = UpdateFailure { instance: failure.instance, end };
        let kind = EventKind::UpdateFailed { version: update.to, end: failure.end.clone() };
        self.edit_update(id, |update| update.failure = Some(failure.clone()));
        events.add(Subject::Task(failure.instance), kind);
        match update.policy.on_failure {
            spec::OnFailure::Undo => self.begin_undo(id, None, events),
            spec::OnFailure::Pause => {
                self.edit_update(id, |update| {
                    update.state = UpdateState::Paused { at: now, by: None };
                });
                let version = update.to;
                events.add(Subject::Job(id), EventKind::UpdatePaused { version });
            }
        }
    }

    /// The current description is again the last one that succeeded, and tasks go back to it.
    pub(super) fn begin_undo(
        &mut self,
        id: CollectionId,
        by: Option<UserName>,
        events: &mut Events,
    ) {
        let (now, before) = (self.time, self.charges_of(id));
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(update) = job.open_update().cloned() else { return };
        let Some(spec) = job.description(update.from).cloned() else { return };
        let tallied = Tallied::of(job);
        job.others.push((job.version, Arc::clone(&job.spec)));
        job.others.retain(|(version, _)| *version != update.from);
        (job.spec, job.version) = (spec, update.from);
        job.ports = job.spec.task.all_ports().into_iter().collect();
        job.description_bytes = job.measured();
        let owner = job.owner.clone();
        if job.spec.is_on_every_machine() {
            events.respread.insert(id);
        }
        self.tally.replace(&owner, tallied, Tallied::of(job));
        let version = update.to;
        self.edit_update(id, |update| {
            update.state = UpdateState::Undoing { since: now, by };
            // A task that was told to stop for the update still gets the old description.
            update.changing.clear();
        });
        self.recharge(&owner, &before, &self.charges_of(id));
        events.add(Subject::Job(id), EventKind::UpdateUndoing { version });
        self.add_missing(id, false, events);
        let Some(job) = self.jobs.get(id) else { return };
        let added: Vec<_> = job.extra_tasks().map(|(index, _)| index).collect();
        for index in added {
            self.kill_task(id, index, &KillReason::Removed, events);
        }
        self.change_at_once(id, events);
        self.undone(id, events);
    }

    /// Whether an update has nothing left to do.
    fn is_finished(&self, id: CollectionId) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let Some(update) = job.open_update().filter(|update| update.is_moving()) else {
            return false;
        };
        update.changing.is_empty()
            && !(0..job.spec.tasks).any(|index| job.is_to_change(TaskIndex(index)))
    }

    /// An update that rolls and has nothing left to do has succeeded; only now tasks are removed.
    pub(super) fn succeed(&mut self, id: CollectionId, events: &mut Events) {
        let now = self.time;
        let Some(job) = self.jobs.get(id) else { return };
        let Some(update) = job.open_update() else { return };
        if update.state != UpdateState::Rolling || !self.is_finished(id) {
            return;
        }
        let skipped = u32::try_from(update.skipped.len()).unwrap_or(u32::MAX);
        let (version, keep) = (update.to, update.policy.close_after);
        let extra: Vec<_> = job.extra_tasks().map(|(index, _)| index).collect();
        self.edit_update(id, |update| update.state = UpdateState::Succeeded { at: now });
        events.add(Subject::Job(id), EventKind::UpdateSucceeded { version, skipped });
        for index in extra {
            self.kill_task(id, index, &KillReason::Removed, events);
        }
        if keep == model::Span::ZERO {
            self.close_update(id, events);
        }
    }

    fn undone(&mut self, id: CollectionId, events: &mut Events) {
        let (now, before) = (self.time, self.charges_of(id));
        let Some(job) = self.jobs.get(id) else { return };
        let Some(update) = job.open_update() else { return };
        let UpdateState::Undoing { by, .. } = update.state.clone() else { return };
        if !self.is_finished(id) {
            return;
        }
        let (version, owner) = (update.to, job.owner.clone());
        self.edit_update(id, |update| update.state = UpdateState::Undone { at: now, by });
        events.add(Subject::Job(id), EventKind::UpdateUndone { version });
        self.end_update(id, &owner, &before);
    }

    pub(super) fn close_update(&mut self, id: CollectionId, events: &mut Events) {
        let (now, before) = (self.time, self.charges_of(id));
        let Some(job) = self.jobs.get(id) else { return };
        let Some(update) = job.open_update() else { return };
        let (version, owner) = (update.to, job.owner.clone());
        self.edit_update(id, |update| update.state = UpdateState::Closed { at: now });
        events.add(Subject::Job(id), EventKind::UpdateClosed { version });
        self.end_update(id, &owner, &before);
    }

    /// An update is not open any more: descriptions that nothing needs are forgotten, and quota for an
    /// undo is not held any more.
    fn end_update(&mut self, id: CollectionId, owner: &UserName, before: &[(Band, Total)]) {
        self.updating.remove(&id);
        if let Some(job) = self.jobs.get_mut(id) {
            let tallied = Tallied::of(job);
            job.forget_descriptions();
            self.tally.replace(owner, tallied, Tallied::of(job));
        }
        let after = self.charges_of(id);
        self.recharge(owner, before, &after);
    }

    /// The version of a task's next incarnation.
    pub(super) fn next_version(&self, instance: InstanceId) -> Option<Version> {
        let job = self.jobs.get(instance.collection)?;
        let (task, update) = (job.task(instance.index)?, job.open_update());
        let Some(update) = update else { return Some(task.version) };
        let goes_back =
            matches!(update.state, UpdateState::Undoing { .. }) && task.version > update.from;
        // A gang starts again in one version.
        let with_gang = job.is_gang() && update.is_moving() && job.is_to_change(instance.index);
        let changes = goes_back || with_gang || update.changing.contains_key(&instance.index);
        Some(if changes { update.target() } else { task.version })
    }

    /// A task that an update has stopped goes on where it was, if it fits there.
    pub(super) fn stay(
        &mut self,
        instance: InstanceId,
        last: &LastIncarnation,
        before: &Placement,
        events: &mut Events,
    ) {
        let Some(job) = self.jobs.get(instance.collection) else { return };
        let Some(machine) = self.machines.get(last.machine) else { return };
        let ask = Request::of(self, job, instance.index);
        let alloc = last.alloc.and_then(|index| {
            let set = self.jobs.get(job.alloc_set?)?;
            let alloc = set.instance(index)?;
            let there = self.placement(alloc)?;
            (there.machine == machine.id && there.stop.is_none()).then_some(alloc)
        });
        if alloc.is_none() && job.alloc_set.is_some() {
            return;
        }
        let mut offer = Offer::to(self, job, machine);
        if let Some(alloc) = alloc {
            offer = Offer { colocated: offer.colocated, ..Offer::within(self, machine, alloc) };
        }
        if fits(&ask, &offer).is_err() {
            return;
        }
        let own = ask.network.is_own();
        let free = |port: &u16| machine.is_free_port(*port);
        let given = |port: &u16| machine.report.ports.contains(*port);
        let has: Vec<u16> = before.machine_ports().iter().copied().filter(given).collect();
        let given = match has.len() == ask.ports && has.iter().all(free) {
            true => has,
            false => machine.free_ports(ask.ports, &[]),
        };
        if !own && given.len() != ask.ports {
            return;
        }
        let ports: Arc<[u16]> = match own {
            true => ask.network.numbers().values().copied().collect(),
            false => job.with_static_ports(instance.index, &given).into(),
        };
        let free = |address: &Ipv4Addr| machine.is_free_address(*address);
        let address = match alloc {
            _ if !own => None,
            Some(alloc) => self.placement(alloc).and_then(|alloc| alloc.address),
            None => before.address.filter(free).or_else(|| machine.free_address(&[])),
        };
        if address.is_some() != own {
            return;
        }
        let placement = Placement {
            machine: machine.id,
            alloc: alloc.map(Arc::new),
            address,
            ports,
            since: self.time,
            phase: Phase::Starting,
            check: None,
            stop: None,
            // It did not wait for a scheduler.
            latency: start::placed(self.time, Some(self.time), self.time),
            lost_starts: 0,
            inputs: None,
        };
        self.place(instance, placement, events);
    }

    /// Stops every running task that an update has to restart or move, whatever the budgets, as if
    /// their machines had reported their ends already: for previews.
    pub(super) fn stop_all_to_change(&mut self, id: CollectionId, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        let all = (0..job.spec.tasks).map(TaskIndex).filter(|index| job.is_to_change(*index));
        for index in all.collect::<Vec<_>>() {
            let Some(job) = self.jobs.get(id) else { return };
            let Some(instance) = job.instance(index) else { continue };
            if self.placement(instance).is_some() {
                self.mark_changing(id, index, 1);
                let how = Again::Evicted(EvictionCause::Updated);
                let end = model::End::Stopped;
                self.begin_again(instance, how, model::Span::ZERO, &end, events);
            }
        }
    }

    /// The job of a dead task's update ended with it.
    pub(super) fn update_ends_with_job(&mut self, id: CollectionId) {
        let now = self.time;
        let Some(job) = self.jobs.get(id) else { return };
        if job.open_update().is_none() || job.counts().alive() > 0 {
            return;
        }
        let (owner, before) = (job.owner.clone(), self.charges_of(id));
        self.edit_update(id, |update| update.state = UpdateState::Closed { at: now });
        self.end_update(id, &owner, &before);
    }
}

impl crate::Job {
    /// Forgets descriptions that no live task has, no undo needs, and that are not kept.
    pub(crate) fn forget_descriptions(&mut self) {
        let mut needed = std::collections::BTreeSet::new();
        if let Some(update) = &self.update {
            needed.extend([update.from, update.to]);
        }
        needed.extend(self.history.iter().map(|past| past.version));
        if !self.others.is_empty() {
            let alive = self.tasks().filter(|(_, task)| task.state.stage() != Stage::Dead);
            needed.extend(alive.map(|(_, task)| task.version));
        }
        self.others.retain(|(version, _)| needed.contains(version));
        self.description_bytes = self.measured();
    }
}
