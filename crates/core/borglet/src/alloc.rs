//! Allocs (paper, section 2.4): made when an order names them, removed when none does and the last
//! of their tasks has ended.
//!
//! An alloc runs nothing itself, so it ends in one way only: an order no longer names it. The cell
//! stops its tasks in the same order; here they are taken as not ordered either, so that nothing is
//! removed from under a task.

use std::collections::{BTreeMap, BTreeSet};

use model::{Band, End, FinalUsage, InstanceId, Priority, Resources, Span, Time};

use crate::limit::Limit;
use crate::room::Rooms;
use crate::{DesiredAlloc, Effect, TaskReport, TaskStatus};

/// How long to wait before a removal is tried again that failed, as where a process hangs in the
/// kernel.
pub(crate) const REMOVE_AGAIN: Span = Span::from_secs(5);

/// An alloc that was found when the Borglet started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredAlloc {
    /// Which.
    pub instance: InstanceId,
    /// The newest limit that it was held to, as far as is known.
    pub limit: Resources,
    /// Whether it is as it was made. Where it is not, as after a reboot, it has its files, and is made
    /// again when an order names it.
    pub made: bool,
}

/// The allocs of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocs(BTreeMap<InstanceId, Alloc>);

#[derive(Clone, Debug)]
struct Alloc {
    limit: Limit,
    wanted: Resources,
    priority: Priority,
    /// An order did not name it. That is for good, as with a task that is stopped.
    goes: bool,
    /// It had more of the disk than it asked for: its tasks are ended, it is removed with its files, and
    /// made anew.
    overflowed: bool,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Its files are here, and no order has named it yet.
    Found,
    /// It waits for somebody else's end, whose room it is to have.
    Waiting(Box<DesiredAlloc>),
    Making,
    Made,
    /// Nobody is in it any more, and it is being removed, or will be tried again at a moment.
    Removing {
        again: Option<Time>,
    },
    Ended(End),
}

impl Allocs {
    pub(crate) fn new(recovered: Vec<RecoveredAlloc>) -> Self {
        let alloc = |found: RecoveredAlloc| {
            let phase = if found.made { Phase::Made } else { Phase::Found };
            let limit = Limit::found(found.limit);
            // Until an order says more.
            let (wanted, priority) = (found.limit, Band::Monitoring.usual());
            let (goes, overflowed) = (false, false);
            (found.instance, Alloc { limit, wanted, priority, goes, overflowed, phase })
        };
        Self(recovered.into_iter().map(alloc).collect())
    }

    /// Takes in which ones are to be there.
    pub(crate) fn obey(&mut self, desired: &BTreeMap<InstanceId, DesiredAlloc>) {
        self.0.retain(|instance, alloc| {
            let gone = matches!(alloc.phase, Phase::Waiting(_) | Phase::Ended(_));
            alloc.goes |= !desired.contains_key(instance);
            desired.contains_key(instance) || !gone
        });
        for (instance, desired) in desired {
            match self.0.get_mut(instance) {
                Some(alloc) => alloc.adopt(desired),
                None => drop(self.0.insert(*instance, Alloc::new(desired))),
            }
        }
    }

    /// Asks for the removal of those that go and in which nobody is, and again where that failed.
    pub(crate) fn remove(
        &mut self,
        now: Time,
        occupied: &BTreeSet<InstanceId>,
        effects: &mut Vec<Effect>,
    ) {
        for (instance, alloc) in &mut self.0 {
            let due = match &alloc.phase {
                Phase::Found | Phase::Made => {
                    (alloc.goes || alloc.overflowed) && !occupied.contains(instance)
                }
                Phase::Removing { again } => again.is_some_and(|again| again <= now),
                Phase::Waiting(_) | Phase::Making | Phase::Ended(_) => false,
            };
            if due {
                alloc.phase = Phase::Removing { again: None };
                effects.push(Effect::RemoveAlloc(*instance));
            }
        }
    }

    /// Asks for the limits that are desired and not in force.
    pub(crate) fn resize(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (instance, alloc) in &mut self.0 {
            if alloc.next_resize().is_some_and(|next| next <= now) {
                alloc.limit.asked(alloc.wanted);
                effects.push(Effect::ResizeAlloc { instance: *instance, limit: alloc.wanted });
            }
        }
    }

    /// Takes the room of those that are here or on their way.
    pub(crate) fn take_room(&self, rooms: &mut Rooms) {
        for (instance, alloc) in &self.0 {
            if !matches!(alloc.phase, Phase::Waiting(_) | Phase::Ended(_)) {
                rooms.take_alloc(*instance, alloc.takes(), alloc.goes);
            }
        }
    }

    /// Makes those that waited for room, where it is free now.
    pub(crate) fn make_waiting(&mut self, rooms: &mut Rooms, effects: &mut Vec<Effect>) {
        for (instance, alloc) in &mut self.0 {
            let limit = alloc.takes();
            if let Phase::Waiting(desired) = &alloc.phase
                && rooms.has_alloc(limit)
            {
                rooms.take_alloc(*instance, limit, false);
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
                Err(_) if alloc.goes => Phase::Ended(End::Stopped),
                Err(reason) => Phase::Ended(End::NotStarted { reason }),
            };
        }
    }

    /// It had more of the disk than it asked for.
    pub(crate) fn overflow(&mut self, instance: InstanceId) {
        if let Some(alloc) = self.0.get_mut(&instance) {
            alloc.overflowed = true;
        }
    }

    /// Those that have room here: what they may use together, and what they may take from others.
    pub(crate) fn with_room(&self) -> impl Iterator<Item = (InstanceId, Resources, Priority)> {
        // What was found without a record has an unknown limit, which is nobody's.
        let has_room = |alloc: &Alloc| {
            !matches!(alloc.phase, Phase::Waiting(_) | Phase::Ended(_))
                && alloc.takes() != Resources::default()
        };
        let all = self.0.iter().filter(move |(_, alloc)| has_room(alloc));
        all.map(|(instance, alloc)| (*instance, alloc.takes(), alloc.priority))
    }

    /// It is removed, or is to be tried again after a wait.
    pub(crate) fn removed(&mut self, instance: InstanceId, again: Option<Time>) {
        let Some(alloc) = self.0.get_mut(&instance) else { return };
        if let Phase::Removing { .. } = alloc.phase {
            alloc.phase = match again {
                // The next order says what it is to be.
                None if !alloc.goes => Phase::Found,
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
        let open =
            |alloc: &Alloc| matches!(alloc.phase, Phase::Made) && !alloc.goes && !alloc.overflowed;
        self.0.get(&instance).is_some_and(open)
    }

    /// When something is due next.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        let due = |alloc: &Alloc| match alloc.phase {
            Phase::Removing { again } => again,
            _ => alloc.next_resize(),
        };
        self.0.values().filter_map(due).min()
    }

    /// Whether there are some of which no order has said yet whether they are to be there.
    pub(crate) fn need_order(&self) -> bool {
        self.0.values().any(|alloc| matches!(alloc.phase, Phase::Found) && !alloc.goes)
    }

    pub(crate) fn report(&self) -> impl Iterator<Item = TaskReport> {
        let report = |(instance, alloc): (&InstanceId, &Alloc)| {
            let status = match &alloc.phase {
                Phase::Ended(end) => TaskStatus::Ended(end.clone(), FinalUsage::UNMEASURED),
                _ if alloc.goes => TaskStatus::Stopping,
                Phase::Made => TaskStatus::Running { healthy: Some(true) },
                _ => TaskStatus::Starting,
            };
            TaskReport { instance: *instance, status }
        };
        self.0.iter().map(report)
    }

    /// What one here is held to, as far as is known.
    pub(crate) fn limit(&self, instance: InstanceId) -> Option<Resources> {
        self.0.get(&instance).map(|alloc| alloc.limit.present)
    }
}

impl Alloc {
    fn new(desired: &DesiredAlloc) -> Self {
        let phase = Phase::Waiting(Box::new(desired.clone()));
        let (limit, wanted) = (Limit::new(desired.limit), desired.limit);
        Self { limit, wanted, priority: desired.priority, goes: false, overflowed: false, phase }
    }

    /// Takes over another limit. One that is not made yet will be with that.
    fn adopt(&mut self, desired: &DesiredAlloc) {
        match self.phase {
            Phase::Found | Phase::Waiting(_) if !self.goes => *self = Self::new(desired),
            _ => (self.wanted, self.priority) = (desired.limit, desired.priority),
        }
    }

    /// When to ask for the limit that is desired; nothing while it is in force or awaited.
    fn next_resize(&self) -> Option<Time> {
        let open = matches!(self.phase, Phase::Made) && !self.goes;
        open.then(|| self.limit.next(self.wanted)).flatten()
    }

    /// The most that its tasks may use, now or as soon as its new limit is in force.
    fn takes(&self) -> Resources {
        let present = self.limit.present;
        present.plus(self.wanted.minus(present))
    }
}
