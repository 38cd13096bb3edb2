//! The transitions of a task, and their effects on its job and its machine. Every change of a
//! task's state goes through here and through [`crate::lifecycle`], so derived state stays in step.

use std::net::Ipv4Addr;
use std::sync::Arc;

use event::{Death, EventKind, EvictionCause, KillReason, PendingCause, StopReason, Subject};
use model::{CollectionId, End, FinalUsage, Generation, InstanceId, Span};

use super::Events;
use super::quota::charged_bands;
use crate::lifecycle::Transition;
use crate::state::Tallied;
use crate::{Cell, Job, JobState, LastIncarnation, MachineTasks, Placement, TaskState};

/// How an incarnation on a machine ends when the task gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Failed,
    Lost,
    /// It was lost before it had started.
    StartLost {
        tries: u32,
    },
    Finished,
    Evicted(EvictionCause),
}

/// How an incarnation on a machine ended, and what it used until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending<'a> {
    pub(super) end: &'a End,
    pub(super) usage: FinalUsage,
}

/// An end that no machine reported: its usage is unknown.
impl<'a> From<&'a End> for Ending<'a> {
    fn from(end: &'a End) -> Self {
        Self { end, usage: FinalUsage::UNMEASURED }
    }
}

impl Cell {
    /// A pending task is placed on its machine.
    pub(super) fn place(
        &mut self,
        instance: InstanceId,
        placement: Placement,
        events: &mut Events,
    ) {
        let id = placement.machine;
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let (demand, limit) = (job.demand(instance.index), job.limit(instance.index));
        let (placed, alloc) = (placement.clone(), placement.alloc());
        let before = Tallied::of(job);
        if job.step(instance.index, Transition::Schedule, TaskState::Running(placement)).is_err() {
            return;
        }
        self.tally.replace(&job.owner, before, Tallied::of(job));
        if let Some(machine) = self.machines.get_mut(id) {
            machine.place(instance, &demand, &placed);
            if let Some(alloc) = alloc {
                machine.enter(alloc, limit, placed.alloc_ports());
            }
            if let Some(address) = placed.machine_address() {
                machine.next_address = Ipv4Addr::from_bits(address.to_bits().wrapping_add(1));
            }
            let given = |port: &&u16| machine.report.ports.contains(**port);
            if let Some(last) = placed.machine_ports().iter().rev().find(given) {
                // Port 65535 wraps to 0, and the search then starts at the beginning of the range.
                machine.next_port = last.wrapping_add(1);
            }
        }
        events.reorder(id);
        if job.pending() == 0 {
            self.pending.remove(&instance.collection);
        }
        // Only with the first of its tasks.
        if job.advance(Transition::Schedule, JobState::Running).is_ok() {
            let schedule = EventKind::Schedule { machine: id, alloc: None };
            events.add(Subject::Job(instance.collection), schedule);
        }
        events.add(Subject::Task(instance), EventKind::Schedule { machine: id, alloc });
        self.claim_volumes(instance, id, events);
    }

    /// A placed task is told to stop, and holds its resources until its machine reports its end.
    /// Returns whether that is new: a task being evicted can still be killed, and nothing else
    /// changes.
    pub(super) fn stop(
        &mut self,
        instance: InstanceId,
        why: &StopReason,
        events: &mut Events,
    ) -> bool {
        let now = self.time;
        let Some(job) = self.jobs.get_mut(instance.collection) else { return false };
        let Some(task) = job.task(instance.index) else { return false };
        let TaskState::Running(placement) = &task.state else { return false };
        let may = match placement.stop.as_deref() {
            None => true,
            Some(StopReason::Evict(_)) => matches!(why, StopReason::Kill(_)),
            // A task that is being removed can still be killed: then an undo does not bring it back.
            // Who is in a hurry need not wait for the notice of somebody who was not.
            Some(StopReason::Kill(KillReason::Now(_))) => false,
            Some(StopReason::Kill(KillReason::Removed | KillReason::MachineLeft(_))) => {
                let weaker = |why: &KillReason| {
                    matches!(why, KillReason::Removed | KillReason::MachineLeft(_))
                };
                matches!(why, StopReason::Kill(why) if !weaker(why))
            }
            Some(StopReason::Kill(_)) => matches!(why, StopReason::Kill(KillReason::Now(_))),
        };
        if may && task.generation == instance.generation {
            events.reorder(placement.machine);
            let stop = Some(Arc::new(why.clone()));
            let disrupted = match why {
                // It counts once, with the task that takes the gang down.
                StopReason::Evict(EvictionCause::GangRestarts { .. }) | StopReason::Kill(_) => {
                    false
                }
                StopReason::Evict(_) => task.up_since().is_some(),
            };
            job.change_placement(instance.index, |placement| placement.stop = stop);
            if disrupted {
                job.disrupted_at(now);
            }
            let is_alloc = job.spec.kind.is_alloc_set();
            events.add(Subject::Task(instance), EventKind::Stop { why: why.clone() });
            if is_alloc {
                self.stop_inside(instance, why, events);
            }
            match why {
                // All of the gang were told already.
                StopReason::Evict(EvictionCause::GangRestarts { .. }) => {}
                StopReason::Evict(_) | StopReason::Kill(KillReason::Removed) => {
                    self.gang_restarts(instance.collection, instance.index, events);
                }
                StopReason::Kill(_) => {}
            }
            return true;
        }
        false
    }

    /// A placed incarnation ends, and the task gets another one, pending. It may be retried after
    /// `wait`.
    pub(super) fn begin_again<'a>(
        &mut self,
        instance: InstanceId,
        how: Again,
        wait: Span,
        ending: impl Into<Ending<'a>>,
        events: &mut Events,
    ) {
        let ending = ending.into();
        let (now, not_before) = (self.time, self.time + wait);
        let (transition, death, kind, cause) = match how {
            Again::Failed => {
                let kind = EventKind::Fail { end: Some(ending.end.clone()) };
                (Transition::Fail, Death::Failed, kind, PendingCause::Failed)
            }
            Again::Lost => {
                let kind = EventKind::Lost { end: ending.end.clone() };
                (Transition::Lost, Death::Failed, kind, PendingCause::Lost)
            }
            Again::StartLost { tries } => {
                let kind = EventKind::Lost { end: ending.end.clone() };
                (Transition::Lost, Death::Failed, kind, PendingCause::StartLost { tries })
            }
            Again::Finished => {
                let kind = EventKind::of(&Death::Finished, Some(ending.end));
                (Transition::Finish, Death::Finished, kind, PendingCause::Finished)
            }
            Again::Evicted(cause) => {
                let kind = EventKind::Evict { cause };
                (Transition::Evict, Death::Failed, kind, PendingCause::Evicted(cause))
            }
        };
        let (next, queued) = (self.next_version(instance), self.queues_again(instance, how));
        if how == Again::Finished {
            self.remember_runtime(instance);
        }
        let up = self.placement(instance).is_some_and(|placed| placed.up_since().is_some());
        let before = self.placement(instance).cloned();
        let Some(job) = self.take_off_machine(instance, ending, events) else { return };
        let with_gang = matches!(how, Again::Evicted(EvictionCause::GangRestarts { .. }));
        if up && matches!(how, Again::Evicted(_)) && !with_gang {
            job.disrupted_at(now);
        }
        let (tallied, charged) = (Tallied::of(job), job.charged_limit(instance.index));
        if job.step(instance.index, transition, TaskState::Dead { at: now, death }).is_err() {
            return;
        }
        events.add_end(instance, kind, ending.usage);
        let pending = TaskState::Pending { since: now, not_before, cause };
        let again = job.step(instance.index, Transition::Submit, pending);
        debug_assert!(again.is_ok(), "a dead task can be submitted again");
        let Ok(task) = again else { return };
        task.generation = Generation(task.generation.0.saturating_add(1));
        let next = next.unwrap_or(task.version);
        if next != task.version {
            task.take_version(next, now);
        }
        let (new, last) =
            (instance.task().generation(task.generation), task.last_incarnation.clone());
        events.add(Subject::Task(new), EventKind::Submit { cause });
        let queued = queued.is_some_and(|since| job.queue_task(instance.index, since));
        if queued {
            events.add(Subject::Task(new), EventKind::Queue);
        }
        let (after, pending) = (Tallied::of(job), job.pending());
        let (owner, bands, is_gang) = (job.owner.clone(), charged_bands(job), job.is_gang());
        let recharged = job.charged_limit(instance.index);
        self.tally.replace(&owner, tallied, after);
        // If others are pending, the job is listed already.
        if pending == 1 && !queued {
            self.pending.insert(instance.collection);
        }
        for band in bands {
            self.recharge(&owner, &[(band, charged.into())], &[(band, recharged.into())]);
        }
        match (how, last, before) {
            (Again::Evicted(EvictionCause::GangRestarts { .. }), ..) => {}
            (Again::Evicted(EvictionCause::Updated), Some(last), Some(before)) if !is_gang => {
                self.stay(new, &last, &before, events);
            }
            _ => self.gang_restarts(new.collection, new.index, events),
        }
    }

    /// A placed incarnation ends, and its task dies with it.
    pub(super) fn ended_for_good<'a>(
        &mut self,
        instance: InstanceId,
        ending: impl Into<Ending<'a>>,
        death: Death,
        events: &mut Events,
    ) {
        let ending = ending.into();
        if death == Death::Finished {
            self.remember_runtime(instance);
        }
        self.take_off_machine(instance, ending, events);
        self.die(instance, death, Some(ending), events);
    }

    /// A task that is on no machine dies, and with the last one its job.
    pub(super) fn die(
        &mut self,
        instance: InstanceId,
        death: Death,
        ending: Option<Ending<'_>>,
        events: &mut Events,
    ) {
        let (now, id) = (self.time, instance.collection);
        let is_awaited = self.waiting_for(id).next().is_some();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (transition, kind) =
            (death.transition(), EventKind::of(&death, ending.map(|ending| ending.end)));
        let (before, charged) = (Tallied::of(job), job.charged_limit(instance.index));
        let dead = TaskState::Dead { at: now, death: death.clone() };
        if job.step(instance.index, transition, dead).is_err() {
            return;
        }
        self.tally.replace(&job.owner, before, Tallied::of(job));
        if job.pending() == 0 {
            self.pending.remove(&id);
        }
        let usage = ending.map_or(FinalUsage::UNMEASURED, |ending| ending.usage);
        events.add_end(instance, kind.clone(), usage);
        let (owner, rest) = (job.owner.clone(), job.charged_limit(instance.index));
        for band in charged_bands(job) {
            self.quota.charge(&owner, band, rest.into());
            self.quota.refund(&owner, band, charged.into());
        }
        let left = matches!(kind, EventKind::Kill { why: KillReason::MachineLeft(_) });
        if is_awaited {
            events.ended_tasks.push(instance.task());
        }
        if let Some(machine) = job.machine_of(instance.index) {
            events.vacated.insert((id, machine));
        }
        // A job with one task on every machine goes on without machines.
        if job.counts.alive() > 0 || left {
            return;
        }
        let death = match (job.spec.tasks, death) {
            _ if job.spec.is_on_every_machine() => job.worst_death(),
            // It was resized to no tasks, and lives on: only a kill ends it.
            (0, Death::Killed(KillReason::Removed) | Death::Finished | Death::Failed) => return,
            (0, killed) => killed,
            (_, _) => job.worst_death(),
        };
        self.job_dies(id, death, events);
    }

    /// A job that was killed while it had no task ends: it was resized to none, or has one on every machine.
    pub(super) fn end_without_tasks(
        &mut self,
        id: CollectionId,
        why: &KillReason,
        events: &mut Events,
    ) {
        let alone = |job: &Arc<Job>| {
            let none = job.machine_tasks.is_some() || job.spec.tasks == 0;
            none && job.is_alive() && job.counts.alive() == 0
        };
        if self.jobs.get(id).is_some_and(alone) {
            self.job_dies(id, Death::Killed(why.clone()), events);
        }
    }

    /// A job whose tasks are all dead dies.
    pub(super) fn job_dies(&mut self, id: CollectionId, death: Death, events: &mut Events) {
        let now = self.time;
        self.every_machine.remove(&id);
        self.lacking.remove(&id);
        // A restart looks at all machines again.
        self.edit_machine_tasks(id, MachineTasks::clear_left_out);
        self.update_ends_with_job(id);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (transition, kind) = (death.transition(), EventKind::of(&death, None));
        if job.advance(transition, JobState::Dead { at: now, death }).is_err() {
            return;
        }
        // What is left of it is kept for a while.
        job.tasks.compact();
        events.add(Subject::Job(id), kind);
        let predecessors: Vec<_> = job.waits_or_follows().collect();
        (job.waits_for, job.follows) = (Vec::new(), Vec::new());
        for predecessor in predecessors {
            self.waiting.remove(&(predecessor, id));
        }
        events.ended.push(id);
    }

    /// The machine's side of the end of a placed incarnation: its resources and ports become free.
    /// Returns the job, if the task exists.
    fn take_off_machine(
        &mut self,
        instance: InstanceId,
        ending: Ending<'_>,
        events: &mut Events,
    ) -> Option<&mut Job> {
        if self.jobs.get(instance.collection).is_some_and(|job| job.spec.kind.is_alloc_set()) {
            self.end_inside(instance, events);
        }
        let job = self.jobs.get_mut(instance.collection)?;
        let (demand, limit) = (job.demand(instance.index), job.limit(instance.index));
        let is_alloc_set = job.spec.kind.is_alloc_set();
        let task = job.task_mut(instance.index)?;
        let TaskState::Running(placement) = &task.state else { return Some(job) };
        // An alloc runs no program that could be told.
        if !is_alloc_set {
            self.notices.count(placement, ending.end, ending.usage);
        }
        if let Some(machine) = self.machines.get_mut(placement.machine) {
            machine.release(instance, &demand, placement);
            if let Some(alloc) = placement.alloc() {
                machine.leave(alloc, limit, placement.alloc_ports());
            }
            if machine.drain.is_some() && machine.instances.is_empty() {
                events.add(Subject::Machine(machine.id), EventKind::Drained);
            }
        }
        events.reorder(placement.machine);
        let (generation, machine) = (instance.generation, placement.machine);
        let version = task.version;
        let (alloc, end) = (placement.alloc().map(|alloc| alloc.index), ending.end.clone());
        let usage = ending.usage;
        let last = LastIncarnation { generation, version, machine, alloc, end, usage };
        task.last_incarnation = Some(Arc::new(last));
        Some(job)
    }
}
