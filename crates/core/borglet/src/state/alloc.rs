//! Allocs (paper, section 2.4): created when an order lists them, removed when an order no longer
//! does and the last of their tasks has ended.
//!
//! An alloc runs no program, so it ends in one way only: an order no longer lists it. The cell
//! stops its tasks in the same order; the Borglet also treats them as not ordered, so that no alloc
//! is removed while a task runs in it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::{Band, End, FinalUsage, InstanceId, Priority, Resources, Span, StartLatency, Time};
use poll::{DesiredAlloc, TaskReport, TaskStatus};

use crate::Effect;
use crate::capacity::Rooms;
use crate::limit::Limit;

/// The delay before a failed removal is retried, for example when a process hangs in the kernel.
pub(crate) const REMOVE_AGAIN: Span = Span::from_secs(5);

/// An alloc that the Borglet found when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredAlloc {
    /// The alloc.
    pub instance: InstanceId,
    /// The last limit applied to it, as far as is known.
    pub limit: Resources,
    /// Whether the alloc is complete. If not, as after a reboot, only its files exist; it is
    /// created again when an order lists it.
    pub made: bool,
}

/// The allocs of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocs(BTreeMap<InstanceId, Alloc>);

#[derive(Clone, Debug)]
struct Alloc {
    limit: Limit,
    target: Resources,
    priority: Priority,
    /// An order did not list it. This is final, as for a task that is being stopped.
    leaving: bool,
    /// It exceeded its disk request: its tasks are ended, it is removed with its files, and then
    /// created again.
    overflowed: bool,
    /// The address of its network, if that is its own; unknown after a restart until an order.
    address: Option<Ipv4Addr>,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Its files exist, and no order has listed it yet.
    Recovered,
    /// It waits until others end and free the resources it needs.
    Waiting(Box<DesiredAlloc>),
    Making,
    Made,
    /// It is empty and is being removed, or the removal will be retried at a point in time.
    Removing {
        again: Option<Time>,
    },
    Ended(End),
}

impl Allocs {
    pub(crate) fn new(recovered: Vec<RecoveredAlloc>) -> Self {
        let alloc = |found: RecoveredAlloc| {
            let phase = if found.made { Phase::Made } else { Phase::Recovered };
            let limit = Limit::recovered(found.limit);
            // Until an order sets them.
            let (target, priority) = (found.limit, Band::Monitoring.usual());
            let (leaving, overflowed, address) = (false, false, None);
            let alloc = Alloc { limit, target, priority, leaving, overflowed, address, phase };
            (found.instance, alloc)
        };
        Self(recovered.into_iter().map(alloc).collect())
    }

    /// Adopts the set of desired allocs.
    pub(crate) fn obey(&mut self, desired: &BTreeMap<InstanceId, DesiredAlloc>) {
        self.0.retain(|instance, alloc| {
            let gone = matches!(alloc.phase, Phase::Waiting(_) | Phase::Ended(_));
            alloc.leaving |= !desired.contains_key(instance);
            desired.contains_key(instance) || !gone
        });
        for (instance, desired) in desired {
            match self.0.get_mut(instance) {
                Some(alloc) => alloc.adopt(desired),
                None => drop(self.0.insert(*instance, Alloc::new(desired))),
            }
        }
    }

    /// Requests the removal of empty allocs that are leaving, and retries failed removals.
    pub(crate) fn remove(
        &mut self,
        now: Time,
        occupied: &BTreeSet<InstanceId>,
        effects: &mut Vec<Effect>,
    ) {
        for (instance, alloc) in &mut self.0 {
            let due = match &alloc.phase {
                Phase::Recovered | Phase::Made => {
                    (alloc.leaving || alloc.overflowed) && !occupied.contains(instance)
                }
                Phase::Removing { again } => again.is_some_and(|again| again <= now),
                Phase::Waiting(_) | Phase::Making | Phase::Ended(_) => false,
            };
            if due {
                alloc.phase = Phase::Removing { again: None };
                let save = alloc.leaving && !alloc.overflowed;
                effects.push(Effect::RemoveAlloc { instance: *instance, save });
            }
        }
    }

    /// Requests limits that are desired but not applied.
    pub(crate) fn resize(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (instance, alloc) in &mut self.0 {
            if alloc.next_resize().is_some_and(|next| next <= now) {
                alloc.limit.asked(alloc.target);
                effects.push(Effect::ResizeAlloc { instance: *instance, limit: alloc.target });
            }
        }
    }

    /// Reserves the resources of existing allocs and those being created.
    pub(crate) fn take_room(&self, rooms: &mut Rooms) {
        for (instance, alloc) in &self.0 {
            if !matches!(alloc.phase, Phase::Waiting(_) | Phase::Ended(_)) {
                rooms.take_alloc(*instance, alloc.takes(), alloc.address, alloc.leaving);
            }
        }
    }

    /// Creates the waiting allocs for which there is room now.
    pub(crate) fn make_waiting(&mut self, rooms: &mut Rooms, effects: &mut Vec<Effect>) {
        for (instance, alloc) in &mut self.0 {
            let limit = alloc.takes();
            if let Phase::Waiting(desired) = &alloc.phase
                && rooms.has_alloc(limit, alloc.address)
            {
                rooms.take_alloc(*instance, limit, alloc.address, false);
                effects.push(Effect::MakeAlloc(desired.clone()));
                alloc.phase = Phase::Making;
            }
        }
    }

    pub(crate) fn made(&mut self, instance: InstanceId, made: Result<(), String>) {
        let Some(alloc) = self.0.get_mut(&instance) else { return };
        if let Phase::Making = alloc.phase {
            alloc.phase = match made {
                Ok(()) => Phase::Made,
                Err(_) if alloc.leaving => Phase::Ended(End::Stopped),
                Err(reason) => Phase::Ended(End::NotStarted { reason }),
            };
        }
    }

    /// The alloc exceeds its disk request.
    pub(crate) fn overflow(&mut self, instance: InstanceId) {
        if let Some(alloc) = self.0.get_mut(&instance) {
            alloc.overflowed = true;
        }
    }

    /// Whether there is such an alloc.
    pub(crate) fn has(&self, instance: InstanceId) -> bool {
        self.0.contains_key(&instance)
    }

    /// The allocs that have resources here, each with its limit and its priority.
    pub(crate) fn with_room(&self) -> impl Iterator<Item = (InstanceId, Resources, Priority)> {
        // An alloc recovered without a record has an unknown limit and reserves nothing.
        let has_room = |alloc: &Alloc| {
            !matches!(alloc.phase, Phase::Waiting(_) | Phase::Ended(_))
                && alloc.takes() != Resources::default()
        };
        let all = self.0.iter().filter(move |(_, alloc)| has_room(alloc));
        all.map(|(instance, alloc)| (*instance, alloc.takes(), alloc.priority))
    }

    /// The alloc was removed, or the removal is to be retried later.
    pub(crate) fn removed(&mut self, instance: InstanceId, again: Option<Time>) {
        let Some(alloc) = self.0.get_mut(&instance) else { return };
        if let Phase::Removing { .. } = alloc.phase {
            alloc.phase = match again {
                // The next order decides what it becomes.
                None if !alloc.leaving => Phase::Recovered,
                None => Phase::Ended(End::Stopped),
                again => Phase::Removing { again },
            };
            alloc.overflowed &= again.is_some();
        }
    }

    pub(crate) fn resized(&mut self, now: Time, instance: InstanceId, limit: Option<Resources>) {
        if let Some(alloc) = self.0.get_mut(&instance) {
            alloc.limit.answered(now, limit);
        }
    }

    /// Whether tasks can be started in it.
    pub(crate) fn is_open(&self, instance: InstanceId) -> bool {
        let open = |alloc: &Alloc| {
            matches!(alloc.phase, Phase::Made) && !alloc.leaving && !alloc.overflowed
        };
        self.0.get(&instance).is_some_and(open)
    }

    /// The next time at which something is due.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        let due = |alloc: &Alloc| match alloc.phase {
            Phase::Removing { again } => again,
            _ => alloc.next_resize(),
        };
        self.0.values().filter_map(due).min()
    }

    /// Whether an order has yet to decide about some allocs.
    pub(crate) fn need_order(&self) -> bool {
        self.0.values().any(|alloc| matches!(alloc.phase, Phase::Recovered) && !alloc.leaving)
    }

    pub(crate) fn report(&self) -> impl Iterator<Item = TaskReport> {
        let report = |(instance, alloc): (&InstanceId, &Alloc)| {
            let status = match &alloc.phase {
                Phase::Ended(end) => TaskStatus::Ended(end.clone(), FinalUsage::UNMEASURED),
                _ if alloc.leaving => TaskStatus::Stopping,
                Phase::Made => TaskStatus::Running { healthy: Some(true) },
                _ => TaskStatus::Starting,
            };
            let (check, latency) = (String::new(), StartLatency::UNKNOWN);
            TaskReport { instance: *instance, status, check, latency }
        };
        self.0.iter().map(report)
    }

    /// The limit applied to an alloc, as far as is known.
    pub(crate) fn limit(&self, instance: InstanceId) -> Option<Resources> {
        self.0.get(&instance).map(|alloc| alloc.limit.current)
    }
}

impl Alloc {
    fn new(desired: &DesiredAlloc) -> Self {
        let phase = Phase::Waiting(Box::new(desired.clone()));
        let (limit, target) = (Limit::new(desired.limit), desired.limit);
        let (priority, address) = (desired.priority, desired.address);
        Self { limit, target, priority, leaving: false, overflowed: false, address, phase }
    }

    /// Adopts new limits. An alloc not created yet will be created with them.
    fn adopt(&mut self, desired: &DesiredAlloc) {
        match self.phase {
            Phase::Recovered | Phase::Waiting(_) if !self.leaving => *self = Self::new(desired),
            _ => {
                (self.target, self.priority) = (desired.limit, desired.priority);
                self.address = desired.address;
            }
        }
    }

    /// When to request the desired limit; `None` if it is applied or being applied.
    fn next_resize(&self) -> Option<Time> {
        let open = matches!(self.phase, Phase::Made) && !self.leaving;
        open.then(|| self.limit.next(self.target)).flatten()
    }

    /// The maximum that its tasks may use, now or once the new limit is applied.
    fn takes(&self) -> Resources {
        let present = self.limit.current;
        present.plus(self.target.minus(present))
    }
}
