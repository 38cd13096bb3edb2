//! Room that is kept for tasks that wait for their retry.
//!
//! A task that failed is retried after a delay, and a task of lower priority that took its room
//! meanwhile would be evicted again at the retry. So tasks that it could evict are not placed in what
//! it needs of its last machine. Everything that it could not evict is placed there as usual.

use std::collections::BTreeMap;

use cell::feasibility::{Offer, Sums};
use cell::{Cell, Demand, Job, PendingCause, TaskState};
use model::{InstanceId, MachineId, Priority, Span, TaskId, TaskIndex, Time};

use crate::evictable::may_leave;
use crate::machines::Slot;

/// The longest wait for a retry for which room is kept: the usual maximum of a job's restart delays.
/// Whatever waits longer keeps nothing, so that no room is unused for long.
pub const WAIT_MAX: Span = Span::from_secs(300);

/// What a task that waits for its retry needs of its last machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The task, in the incarnation that waits.
    pub instance: InstanceId,
    /// Its priority.
    pub priority: Priority,
    /// The machine.
    pub machine: MachineId,
    /// What it takes there.
    pub demand: Demand,
    /// When it is retried.
    pub until: Time,
}

impl Kept {
    /// What is kept for a task at a given time, if it waits for its retry. Tasks in allocs have their
    /// alloc's room.
    #[must_use]
    pub fn of(job: &Job, index: TaskIndex, now: Time) -> Option<Self> {
        let task = job.task(index)?;
        let TaskState::Pending { since, not_before, cause } = task.state else { return None };
        let waits = not_before > now && not_before.since(since) <= WAIT_MAX;
        // A machine that was short of something has none to keep.
        let evicted = matches!(cause, PendingCause::Evicted(_));
        // A gang holds nothing while it waits.
        if !waits || evicted || job.is_gang() || job.alloc_set.is_some() {
            return None;
        }
        Some(Self {
            instance: job.instance(index)?,
            priority: job.described(index).priority,
            machine: task.last_incarnation.as_ref()?.machine,
            demand: job.demand(index),
            until: not_before,
        })
    }

    /// What is kept in a cell at a given time, by machine.
    #[must_use]
    pub fn in_cell(cell: &Cell, now: Time) -> BTreeMap<MachineId, Vec<Self>> {
        let mut found: BTreeMap<MachineId, Vec<Self>> = BTreeMap::new();
        for job in cell.jobs_with_pending_tasks() {
            for kept in job.tasks().filter_map(|(index, _)| Self::of(job, index, now)) {
                found.entry(kept.machine).or_default().push(kept);
            }
        }
        found
    }

    /// Whether a task of a given priority is not placed in this room.
    #[must_use]
    pub fn is_from(&self, priority: Priority) -> bool {
        may_leave(priority, self.priority)
    }

    /// What a machine offers without this room.
    #[must_use]
    pub fn taken_from<'a>(&self, offer: Offer<'a>) -> Offer<'a> {
        let mut sums = Sums::default();
        sums.add(&self.demand);
        let whole = || offer.machine.whole_cores(self.demand.limit.cpu);
        let cores = if self.demand.exclusive { whole() } else { 0 };
        Offer {
            free: offer.free.minus(sums.reservations),
            free_for_prod: offer.free_for_prod.minus(sums.limits_of_prod),
            free_cores: offer.free_cores.saturating_sub(cores),
            ..offer
        }
    }
}

/// What is kept of each machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRoom {
    slots: BTreeMap<TaskId, Slot>,
    on: BTreeMap<Slot, Vec<Kept>>,
}

impl KeptRoom {
    pub(crate) fn add(&mut self, slot: Slot, kept: Kept) {
        self.remove(kept.instance.task());
        self.slots.insert(kept.instance.task(), slot);
        self.on.entry(slot).or_default().push(kept);
    }

    /// Nothing is kept for a task any more; returns the machine where it was.
    pub(crate) fn remove(&mut self, task: TaskId) -> Option<Slot> {
        let slot = self.slots.remove(&task)?;
        if let Some(kept) = self.on.get_mut(&slot) {
            kept.retain(|kept| kept.instance.task() != task);
            if kept.is_empty() {
                self.on.remove(&slot);
            }
        }
        Some(slot)
    }

    /// What a machine offers to a task of a given priority.
    pub(crate) fn taken_from<'a>(
        &self,
        offer: Offer<'a>,
        slot: Slot,
        priority: Priority,
    ) -> Offer<'a> {
        let kept = self.on.get(&slot).into_iter().flatten();
        let kept = kept.filter(|kept| kept.is_from(priority));
        kept.fold(offer, |offer, kept| kept.taken_from(offer))
    }
}
