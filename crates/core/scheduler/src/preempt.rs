//! Preemption as feasibility (paper, section 3.2): what evictable tasks of lower priority hold counts
//! as available where nothing else fits, and they are made to leave from the lowest priority up, until
//! the task fits.
//!
//! Of the machines on which that helps, the one is taken that costs least: few victims, of low
//! priority. Nobody is made to leave where it would not help, or where what is leaving already is
//! enough.

use std::collections::BTreeSet;

use cell::feasibility::{Offer, Sums, fits};
use cell::{Cell, Demand};
use model::{Band, InstanceId, Priority, Resources};

use crate::class::Class;
use crate::engine::Engine;
use crate::machines::{Machines, Slot, Units};

/// What could leave each machine: an upper bound, to know quickly where preemption cannot help.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictable {
    /// By slot.
    of: Vec<Holds>,
    /// The slots of which it is not known.
    stale: Vec<Slot>,
    /// Victims in the plan: they are leaving.
    pub(crate) planned: BTreeSet<InstanceId>,
}

/// What the tasks of a machine hold, by what it takes to make them leave.
#[derive(Clone, Debug, Default)]
struct Holds {
    stale: bool,
    /// What is leaving already: reservations, and limits of production.
    leaving: [Units; 2],
    /// By priority, lowest first: what tasks of at most that priority hold together, and what is
    /// leaving. Reservations, and limits of production.
    up_to: Vec<(Priority, [Units; 2])>,
}

/// How many machines on which it helps are compared.
const COMPARED: usize = 16;
/// What a victim costs beside its priority.
const VICTIM: u64 = 500;

impl Evictable {
    /// What is on a machine has changed.
    pub(crate) fn spoil(&mut self, slot: Slot) {
        let at = slot as usize;
        if self.of.len() <= at {
            self.of.resize_with(at + 1, Holds::default);
        }
        if !std::mem::replace(&mut self.of[at].stale, true) {
            self.stale.push(slot);
        }
    }

    /// What is known is brought up to date.
    pub(crate) fn catch_up(&mut self, cell: &Cell, machines: &Machines) {
        for slot in std::mem::take(&mut self.stale) {
            let holds = count(cell, &self.planned, machines, slot);
            self.of[slot as usize] = holds;
        }
    }

    /// What those hold of a machine that can be made to leave for a priority, and those that leave.
    fn held_below(&self, slot: Slot, priority: Priority) -> [Units; 2] {
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
        tasks.push((stays.then_some(job.spec.priority), job.demand(instance.index)));
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

/// Whether a task may be made to leave for one of a priority (paper, section 2.5).
fn may_leave(theirs: Priority, ours: Priority) -> bool {
    let apart = theirs.band() != ours.band() || theirs.band() < Band::Production;
    theirs < ours && apart
}

impl Engine {
    /// Whether a class can make others leave at all.
    pub(crate) fn preempts(class: &Class) -> bool {
        class.priority().number() > 0
    }

    /// Whether there could be room on a machine if everything left it that may be made to. What is
    /// evictable must be known.
    fn is_possible(&self, class: &Class, slot: Slot) -> bool {
        let at = slot as usize;
        if self.machines.ports[at] < class.scan.ports {
            return false;
        }
        let [reservations, limits] = self.evictable.held_below(slot, class.priority());
        let enough = |free: &[Vec<i32>; 4], more: &Units, asked: &Units| {
            (0..4).all(|dimension| free[dimension][at] + more[dimension] >= asked[dimension])
        };
        enough(&self.machines.free, &reservations, &class.scan.reservation)
            && (!class.demand.prod
                || enough(&self.machines.free_for_prod, &limits, &class.scan.limit))
    }

    /// Whether preemption would help on a machine.
    pub(crate) fn could_preempt(&self, cell: &Cell, class: &Class, slot: Slot) -> bool {
        Self::preempts(class)
            && self.is_possible(class, slot)
            && self.victims(cell, class, slot).is_some()
    }

    /// Where it costs least to make others leave for a task of a class, and whom: on some machines,
    /// or on all, from `first` on. What is evictable must be known.
    pub(crate) fn preempt(
        &self,
        cell: &Cell,
        class: &Class,
        among: Option<&[Slot]>,
        first: Slot,
    ) -> Option<(Slot, Vec<InstanceId>)> {
        if !Self::preempts(class) {
            return None;
        }
        let all = Slot::try_from(self.machines.len()).unwrap_or(Slot::MAX);
        let every = (first..all).chain(0..first);
        let every = among.is_none().then_some(every).into_iter().flatten();
        let slots = among.into_iter().flatten().copied().chain(every);
        let possible = slots.filter(|slot| self.is_possible(class, *slot));
        let helped = possible.filter_map(|slot| {
            let (cost, victims) = self.victims(cell, class, slot)?;
            Some((cost, slot, victims))
        });
        let best = helped.take(COMPARED).min_by_key(|(cost, slot, _)| (*cost, *slot))?;
        Some((best.1, best.2))
    }

    /// Who has to leave a machine for a task of a class, lowest priority first, and what that costs;
    /// none where it does not help, or where it is enough that others are leaving.
    fn victims(&self, cell: &Cell, class: &Class, slot: Slot) -> Option<(u64, Vec<InstanceId>)> {
        let machine = cell.machine(self.machines.id(slot))?;
        let mut staying = self.machines.planned(slot);
        let mut candidates: Vec<(Priority, Demand, InstanceId)> = Vec::new();
        for instance in machine.instances() {
            let stops = cell.placement(*instance).is_none_or(|placed| placed.stop.is_some());
            if stops || self.evictable.planned.contains(instance) {
                continue;
            }
            let job = cell.job(instance.collection)?;
            // What runs in an alloc leaves with that.
            if job.alloc_set.is_some() {
                continue;
            }
            let demand = job.demand(instance.index);
            staying.add(&demand);
            if may_leave(job.spec.priority, class.priority()) {
                candidates.push((job.spec.priority, demand, *instance));
            }
        }
        let colocated = self.colocated(class, slot);
        let free_ports = self.machines.offer(slot, machine, colocated).free_ports;
        let helps = |sums: &Sums| {
            let offer = Offer { colocated, free_ports, ..sums.offered_by(machine) };
            fits(&class.ask(), &offer).is_ok()
        };
        if helps(&staying) {
            return None;
        }
        // Lowest priority first, and the largest of those first: fewer have to leave.
        candidates.sort_by_key(|(priority, demand, id)| {
            let Resources { cpu, ram, .. } = demand.reservation;
            (*priority, std::cmp::Reverse((cpu, ram)), *id)
        });
        let mut leaving: Vec<(Priority, Demand, InstanceId)> = Vec::new();
        for candidate in candidates {
            if helps(&staying) {
                break;
            }
            staying = staying.without(&candidate.1);
            leaving.push(candidate);
        }
        if !helps(&staying) {
            return None;
        }
        // Whoever need not leave after all stays, the most important first.
        let mut kept = Vec::new();
        for victim in leaving.into_iter().rev() {
            let mut with = staying;
            with.add(&victim.1);
            if helps(&with) {
                staying = with;
            } else {
                kept.push(victim);
            }
        }
        kept.reverse();
        let cost = kept.iter().map(|(priority, ..)| VICTIM + u64::from(priority.number())).sum();
        Some((cost, kept.into_iter().map(|(_, _, id)| id).collect()))
    }
}
