//! What can be evicted from each machine, so that preemption can quickly skip machines where it
//! cannot help.

use std::collections::BTreeSet;

use cell::feasibility::Sums;
use cell::{Cell, Demand};
use model::{Band, InstanceId, Priority};

use crate::machines::{Machines, Slot, Units};

/// What can be evicted from each machine: an upper bound, to quickly skip machines where preemption
/// cannot help.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictable {
    /// Indexed by slot.
    of: Vec<Holds>,
    /// The slots that have to be recomputed.
    stale: Vec<Slot>,
    /// Victims in the plan: they are already leaving.
    pub(crate) planned: BTreeSet<InstanceId>,
}

/// What the tasks of a machine hold, by the priority that is needed to evict them.
#[derive(Clone, Debug, Default)]
struct Holds {
    stale: bool,
    /// What is already leaving: reservations, and limits of production.
    leaving: [Units; 2],
    /// By priority, lowest first: what tasks of at most that priority hold together with what is
    /// leaving. Reservations, and limits of production.
    up_to: Vec<(Priority, [Units; 2])>,
}

impl Evictable {
    /// Marks a machine as changed.
    pub(crate) fn mark_stale(&mut self, slot: Slot) {
        let at = slot as usize;
        if self.of.len() <= at {
            self.of.resize_with(at + 1, Holds::default);
        }
        if !std::mem::replace(&mut self.of[at].stale, true) {
            self.stale.push(slot);
        }
    }

    /// Recomputes the machines that changed.
    pub(crate) fn catch_up(&mut self, cell: &Cell, machines: &Machines) {
        for slot in std::mem::take(&mut self.stale) {
            let holds = count(cell, &self.planned, machines, slot);
            self.of[slot as usize] = holds;
        }
    }

    /// What a machine's tasks hold that a priority can evict, together with what is leaving.
    pub(crate) fn held_below(&self, slot: Slot, priority: Priority) -> [Units; 2] {
        let Some(holds) = self.of.get(slot as usize) else { return Default::default() };
        let lower = holds.up_to.iter().rev().find(|(theirs, _)| may_leave(*theirs, priority));
        lower.map_or(holds.leaving, |(_, demand)| *demand)
    }
}

fn count(cell: &Cell, planned: &BTreeSet<InstanceId>, machines: &Machines, slot: Slot) -> Holds {
    let mut holds = Holds::default();
    let Some(machine) = cell.machine(machines.id(slot)) else { return holds };
    let mut tasks: Vec<(Option<Priority>, Demand)> = Vec::with_capacity(machine.instances().len());
    for instance in machine.instances() {
        let Some(job) = cell.job(instance.collection) else { continue };
        let stops = cell.placement(*instance).is_some_and(|placed| placed.stop.is_some());
        let stays = !stops && !planned.contains(instance);
        tasks.push((
            stays.then_some(job.described(instance.index).priority),
            job.demand(instance.index),
        ));
    }
    tasks.sort_unstable_by_key(|(priority, _)| *priority);
    let mut sums = Sums::default();
    for (priority, demand) in tasks {
        sums.add(&demand);
        let Sums { reservations, limits_of_prod } = &sums;
        let units = [machines.offered(reservations), machines.offered(limits_of_prod)];
        match (priority, holds.up_to.last_mut()) {
            (None, _) => holds.leaving = units,
            (Some(priority), Some((last, demand))) if *last == priority => *demand = units,
            (Some(priority), _) => holds.up_to.push((priority, units)),
        }
    }
    holds
}

/// Whether a task may be evicted for one of a given priority (paper, section 2.5).
pub(crate) fn may_leave(theirs: Priority, ours: Priority) -> bool {
    let apart = theirs.band() != ours.band() || theirs.band() < Band::Production;
    theirs < ours && apart
}
