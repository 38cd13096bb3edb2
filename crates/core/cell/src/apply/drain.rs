//! Draining machines for maintenance: nothing new is placed on them, and their tasks leave as the
//! disruption budgets of their jobs allow (paper, section 4).

use std::sync::Arc;

use event::{EventKind, EvictionCause, KillReason, StopReason, Subject};
use model::{
    Capability, CollectionId, End, InstanceId, MachineId, MachineName, Span, TaskIndex, Time,
    UserName,
};

use super::task::Again;
use super::{Events, text_bounds};
use crate::apply::mutation::Change;
use crate::bounds::{REPLACED_PENDING_MAX, TIME_MAX};
use crate::state::Tallied;
use crate::{
    Cell, Drain, DrainProblem, Job, MachinePermission, Permission, Rejection, Reply, Task,
    TaskState, UpdateState,
};

/// Drain a machine: nothing new is placed on it, and its tasks are evicted with notice, as their
/// disruption budgets allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainMachine {
    /// The machine.
    pub machine: MachineName,
    /// The reason; may be empty.
    pub reason: String,
    /// When it ends at the latest.
    pub deadline: Option<Time>,
    /// Whether it then evicts what is left, beyond the budgets.
    pub force: bool,
}

impl DrainMachine {
    /// A drain without a deadline.
    #[must_use]
    pub fn of(machine: MachineName, reason: impl Into<String>) -> Self {
        Self { machine, reason: reason.into(), deadline: None, force: false }
    }

    fn invalid(&self, why: DrainProblem) -> Rejection {
        Rejection::InvalidDrain { machine: self.machine.clone(), why }
    }
}

impl Change for DrainMachine {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_holders(by, Capability::DrainMachines, || Permission::OfMachine {
            machine: self.machine.clone(),
            what: MachinePermission::Drain,
        })
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::reason(&self.reason)?;
        if self.force && self.deadline.is_none() {
            return Err(self.invalid(DrainProblem::NoDeadline));
        }
        if self.deadline.is_some_and(|deadline| deadline > TIME_MAX) {
            return Err(self.invalid(DrainProblem::DeadlineTooLate));
        }
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let (name, reason) = (&self.machine, self.reason.as_str());
        let id = cell.machine_id(name)?;
        if self.deadline.is_some_and(|deadline| deadline < cell.time) {
            return Err(self.invalid(DrainProblem::DeadlinePassed));
        }
        let Some(machine) = cell.machines.get_mut(id) else { return Ok(Reply::Done) };
        let known = machine.drain.as_deref();
        // Repeating it without a reason keeps the reason.
        let reason = match known {
            Some(known) if reason.is_empty() => known.reason.clone(),
            _ => reason.to_owned(),
        };
        let (deadline, force) = (self.deadline, self.force);
        let same = |known: &Drain| {
            (&known.reason, known.deadline, known.force, known.expired)
                == (&reason, deadline, force, None)
        };
        if !known.is_some_and(same) {
            let goes_on = known.filter(|known| known.expired.is_none());
            let since = goes_on.map_or(cell.time, |known| known.since);
            let by_whom = by.clone();
            let drain = Drain {
                since,
                by: by_whom,
                reason: reason.clone(),
                deadline,
                force,
                expired: None,
            };
            machine.drain = Some(Arc::new(drain));
            cell.draining.insert(id);
            events.add(Subject::Machine(id), EventKind::MachineDrained { reason });
            cell.used(by, Capability::DrainMachines, Subject::Machine(id), events);
        }
        let tasks = cell.evict_allowed(id, events);
        Ok(Reply::Drained { tasks })
    }
}

/// Accept tasks on a drained machine again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndrainMachine {
    /// The machine.
    pub machine: MachineName,
}

impl Change for UndrainMachine {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_holders(by, Capability::DrainMachines, || Permission::OfMachine {
            machine: self.machine.clone(),
            what: MachinePermission::Undrain,
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let id = cell.machine_id(&self.machine)?;
        if let Some(machine) = cell.machines.get_mut(id)
            && machine.drain.take().is_some()
        {
            cell.draining.remove(&id);
            events.add(Subject::Machine(id), EventKind::MachineUndrained);
            cell.used(by, Capability::DrainMachines, Subject::Machine(id), events);
        }
        Ok(Reply::Done)
    }
}

impl Cell {
    /// The instances that have to leave a machine that is being drained: tasks before the allocs that
    /// they run in, and last those of jobs with one task on every machine.
    #[must_use]
    pub fn to_leave(&self, machine: MachineId) -> Vec<InstanceId> {
        let Some(machine) = self.machines.get(machine) else { return Vec::new() };
        let stays = |id: &InstanceId| self.placement(*id).is_some_and(|p| p.stop.is_none());
        let all = machine.instances().iter().copied().filter(stays).collect();
        let mut all = self.innermost_first(all);
        all.sort_by_key(|id| {
            self.jobs.get(id.collection).is_some_and(|job| job.spec.is_on_every_machine())
        });
        all
    }

    /// The cell as it would be if these machines were drained now and what `leaves` had left them;
    /// and the tasks that left. It shares everything else with this one.
    #[must_use]
    pub fn preview_drain(
        &self,
        now: Time,
        by: &UserName,
        machines: &[MachineId],
        mut leaves: impl FnMut(InstanceId) -> bool,
    ) -> (Self, Vec<InstanceId>) {
        let (mut cell, mut events) = (self.clone(), Events::default());
        cell.time = cell.time.max(now);
        for id in machines {
            let since = cell.time;
            if let Some(machine) = cell.machines.get_mut(*id)
                && machine.drain.is_none()
            {
                let (by, reason) = (by.clone(), String::new());
                let drain =
                    Drain { since, by, reason, deadline: None, force: false, expired: None };
                machine.drain = Some(Arc::new(drain));
                cell.draining.insert(*id);
            }
        }
        let mut left = Vec::new();
        let all = machines.iter().flat_map(|id| self.to_leave(*id));
        for instance in all.filter(|instance| leaves(*instance)) {
            let how = Again::Evicted(EvictionCause::MachineShutdown);
            cell.begin_again(instance, how, Span::ZERO, &End::Stopped, &mut events);
            left.push(instance);
        }
        (cell, left)
    }

    /// Evicts what the disruption budgets allow. What runs in an alloc leaves with it, or alone where
    /// the budgets do not allow the whole alloc.
    fn evict_allowed(&mut self, machine: MachineId, events: &mut Events) -> u32 {
        let mut tasks = 0;
        for instance in self.to_leave(machine) {
            if self.may_leave_now(instance) && self.may_disrupt(instance).is_ok() {
                let why = StopReason::Evict(EvictionCause::MachineShutdown);
                tasks += u32::from(self.stop(instance, &why, events));
            }
        }
        tasks
    }

    pub(super) fn evict_draining(
        &mut self,
        id: MachineId,
        instances: &[InstanceId],
        events: &mut Events,
    ) {
        let Some(machine) = self.machines.get(id) else { return };
        let Some(drain) = machine.drain.clone().filter(|drain| drain.expired.is_none()) else {
            return;
        };
        for instance in instances {
            // So that its notice ends with the drain.
            let forced = drain.is_over(self.time + self.notice_of(*instance));
            let there = self.placement(*instance).is_some_and(|placed| placed.machine == id);
            let may = || self.may_leave_now(*instance) && self.may_disrupt(*instance).is_ok();
            if there && (forced || may()) {
                let why = StopReason::Evict(EvictionCause::MachineShutdown);
                self.stop(*instance, &why, events);
            }
        }
        if drain.is_over(self.time) {
            // What is still being stopped has no more time.
            events.reorder(id);
        }
    }

    pub(super) fn expire_drain(&mut self, id: MachineId, events: &mut Events) {
        let now = self.time;
        let Some(machine) = self.machines.get_mut(id) else { return };
        let left = u32::try_from(machine.instances.len()).unwrap_or(u32::MAX);
        let Some(drain) = &mut machine.drain else { return };
        let over = drain.deadline.is_some_and(|deadline| deadline <= now);
        if over && !drain.force && drain.expired.is_none() && left > 0 {
            Arc::make_mut(drain).expired = Some(now);
            events.add(Subject::Machine(id), EventKind::DrainExpired { left });
        }
    }

    /// Whether a further task of a job may be started: it is a job of tasks outside of allocs, and
    /// has none that is not up yet, or has ended by itself.
    #[must_use]
    pub fn may_start_replacement(&self, id: CollectionId) -> bool {
        self.jobs.get(id).is_some_and(|job| {
            // What takes the place of a task does not have its data.
            let replaceable = !job.spec.kind.is_alloc_set()
                && job.alloc_set.is_none()
                // There is no other machine for a further task.
                && !job.spec.is_on_every_machine()
                // A task more would be another gang.
                && !job.is_gang()
                && job.spec.task.volumes.is_empty();
            replaceable
                && job.state == crate::JobState::Running
                && self.tasks < crate::bounds::TASKS_MAX.max()
                && job.rows() < spec::limits::TASKS_MAX
                && job.extra_tasks().all(|(_, task)| task.up_since().is_some())
                && !job.has_ended_extra()
        })
    }

    pub(super) fn start_replacement(&mut self, id: CollectionId, events: &mut Events) {
        if !self.may_start_replacement(id) {
            return;
        }
        let Some(job) = self.jobs.get(id) else { return };
        let removed = (job.spec.tasks..job.rows())
            .map(TaskIndex)
            .find(|index| job.task(*index).is_some_and(Task::is_removed));
        // It shows whether the new version becomes healthy, before a task is stopped for it; an undo
        // waits for it as long as for a changed task if no task may be down.
        let waits = job.open_update().is_some_and(|update| {
            update.state == UpdateState::Rolling || (update.is_moving() && job.spec.down_max() == 0)
        });
        let index = removed.unwrap_or(TaskIndex(job.rows()));
        self.replaced.insert(id);
        match removed {
            Some(index) => drop(self.revive(id, index, events)),
            None => self.add_task(id, events),
        }
        if waits {
            self.mark_changing(id, index, 0);
        }
    }

    pub(super) fn remove_replacements(&mut self, id: CollectionId, events: &mut Events) {
        let Some(job) = self.jobs.get(id).filter(|job| job.is_alive()) else {
            self.replaced.remove(&id);
            return;
        };
        let (removable, _) = job.removable_replacements(self.time);
        for index in removable.unwrap_or_default() {
            self.kill_task(id, index, &KillReason::Removed, events);
        }
        if self.jobs.get(id).is_none_or(|job| !job.is_replaced()) {
            self.replaced.remove(&id);
        }
    }

    /// Adds a pending task to a job.
    pub(super) fn add_task(&mut self, id: CollectionId, events: &mut Events) {
        let now = self.time;
        let index = self.jobs.get(id).map_or(TaskIndex(0), |job| TaskIndex(job.rows()));
        let held = self.jobs.get(id).is_some_and(|job| self.is_held_back(job, index));
        let defers = self.jobs.get(id).is_some_and(|job| self.defers(job));
        let Some(job) = self.jobs.get_mut(id) else { return };
        let before = Tallied::of(job);
        job.add_task(now);
        self.tasks = self.tasks.saturating_add(1);
        let Some(instance) = job.instance(index) else { return };
        let cause = crate::PendingCause::Submitted;
        events.add(Subject::Task(instance), EventKind::Submit { cause });
        let waits = held || defers || job.state == crate::JobState::Queued;
        if waits && job.queue_task(index, now) {
            events.add(Subject::Task(instance), EventKind::Queue);
        } else {
            self.pending.insert(id);
        }
        let after = Tallied::of(job);
        self.tally.replace(&job.owner, before, after);
        self.recharge_task(id, index, &[]);
        self.release_queued(id, Some(index), events);
        self.gang_restarts(id, index, events);
    }
}

impl Job {
    /// Its replacements to remove now, if that is so far; and when there may be some, if tasks are
    /// pending.
    ///
    /// All of them, once every other task is up. Until then a task that has been pending for
    /// [`REPLACED_PENDING_MAX`] may wait for the very room that a replacement has: then as many
    /// replacements as there are such tasks, if the job's budget allows these to be down at once.
    #[must_use]
    pub fn removable_replacements(&self, now: Time) -> (Option<Vec<TaskIndex>>, Option<Time>) {
        let is_up = |task: &Task| task.up_since().is_some();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let up = number(self.extra_tasks().filter(|(_, task)| is_up(task)).count());
        if !self.is_replaced() || self.counts().up.saturating_sub(up) >= self.wanted() {
            return (Some(self.extra_tasks().map(|(index, _)| index).collect()), None);
        }
        let (mut waiting, mut next) = (0u32, None);
        for index in (0..self.spec.tasks).map(TaskIndex) {
            let Some(TaskState::Pending { since, not_before, .. }) =
                self.task(index).map(|task| &task.state)
            else {
                continue;
            };
            match *since.max(not_before) + REPLACED_PENDING_MAX {
                over if over <= now => waiting += 1,
                later => next = Some(next.map_or(later, |next: Time| next.min(later))),
            }
        }
        let (killed, left): (Vec<_>, Vec<_>) =
            self.extra_tasks().partition(|(_, task)| task.is_being_killed());
        // They make room already.
        let waiting = waiting.saturating_sub(number(killed.len()));
        let (up, not_up): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, task)| is_up(task));
        let most = number(not_up.len()).saturating_add(self.room(now).at_once).min(waiting);
        let removable = not_up.iter().chain(&up).map(|(index, _)| *index).take(most as usize);
        ((most > 0).then(|| removable.collect()), next)
    }
}
