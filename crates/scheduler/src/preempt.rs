//! Preemption as feasibility (paper, section 3.2): what evictable tasks of lower priority hold counts
//! as available where nothing else fits, and they are made to leave from the lowest priority up, until
//! the task fits.
//!
//! Of the machines on which that helps, the one is taken that costs least: few victims, of low
//! priority. Nobody is made to leave where it would not help, or where what is leaving already is
//! enough.

use std::collections::BTreeSet;

use cell::feasibility::{Offer, Sums, fits};
use cell::{Cell, Held};
use model::{Band, InstanceId, Priority, Resources};

use crate::class::Class;
use crate::engine::Engine;
use crate::machines::{Machines, Slot};

/// What could leave each machine: an upper bound, to know quickly where preemption cannot help.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictable {
    /// By slot.
    of: Vec<Holds>,
    /// Victims in the plan: they are leaving.
    pub(crate) planned: BTreeSet<InstanceId>,
}

/// What the tasks of a machine hold, by what it takes to make them leave.
#[derive(Clone, Copy, Debug, Default)]
struct Holds {
    known: bool,
    /// By band, lowest first: reservations. What is leaving counts for the lowest.
    by_band: [Resources; 5],
    /// Limits of production, and of what is leaving.
    production: Resources,
}

/// How many machines on which it helps are compared.
const COMPARED: usize = 64;
/// What a victim costs beside its priority.
const VICTIM: u64 = 500;

impl Evictable {
    /// What is on a machine has changed.
    pub(crate) fn spoil(&mut self, slot: Slot) {
        if let Some(holds) = self.of.get_mut(slot as usize) {
            holds.known = false;
        }
    }

    /// What is known is brought up to date.
    pub(crate) fn catch_up(&mut self, cell: &Cell, machines: &Machines) {
        self.of.resize_with(machines.len(), Holds::default);
        for (slot, holds) in (0..).zip(&mut self.of) {
            if !holds.known {
                *holds = count(cell, &self.planned, machines, slot);
            }
        }
    }

    fn holds(&self, cell: &Cell, machines: &Machines, slot: Slot) -> Holds {
        match self.of.get(slot as usize) {
            Some(holds) if holds.known => *holds,
            _ => count(cell, &self.planned, machines, slot),
        }
    }
}

fn band_number(band: Band) -> usize {
    Band::ALL.iter().position(|other| *other == band).unwrap_or(0)
}

fn count(cell: &Cell, planned: &BTreeSet<InstanceId>, machines: &Machines, slot: Slot) -> Holds {
    let mut holds = Holds { known: true, ..Holds::default() };
    let Some(machine) = cell.machine(machines.id(slot)) else { return holds };
    for instance in machine.instances() {
        let Some(job) = cell.job(instance.collection) else { continue };
        let held = job.held(instance.index);
        let stops = cell.placement(*instance).is_some_and(|placed| placed.stop.is_some());
        let leaves = stops || planned.contains(instance);
        let band = job.spec.priority.band();
        let number = if leaves { 0 } else { band_number(band) };
        holds.by_band[number] = holds.by_band[number].plus(held.reservation);
        if held.prod && (leaves || band == Band::Production) {
            holds.production = holds.production.plus(held.limit);
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

    /// Whether there could be room on a machine if everything left it that may be made to.
    fn is_possible(&self, cell: &Cell, class: &Class, slot: Slot) -> bool {
        let at = slot as usize;
        if self.machines.ports[at] < class.scan.ports {
            return false;
        }
        let holds = self.evictable.holds(cell, &self.machines, slot);
        let band = class.priority().band();
        let of_own = usize::from(band < Band::Production);
        let lower = holds.by_band.iter().take(band_number(band) + of_own);
        let lower = lower.fold(Resources::default(), |sum, one| sum.plus(*one));
        let production = match band {
            Band::Monitoring => holds.production,
            _ => Resources::default(),
        };
        let enough = |free: &[Vec<i32>; 4], more: &Resources, asked: &[i32; 4]| {
            let more = self.machines.offered(more);
            (0..4).all(|dimension| free[dimension][at] + more[dimension] >= asked[dimension])
        };
        enough(&self.machines.free, &lower, &class.scan.reservation)
            && (!class.held.prod
                || enough(&self.machines.free_for_prod, &production, &class.scan.limit))
    }

    /// Whether preemption would help on a machine.
    pub(crate) fn could_preempt(&self, cell: &Cell, class: &Class, slot: Slot) -> bool {
        Self::preempts(class)
            && self.is_possible(cell, class, slot)
            && self.victims(cell, class, slot).is_some()
    }

    /// Where it costs least to make others leave for a task of a class, and whom.
    pub(crate) fn preempt(
        &mut self,
        cell: &Cell,
        class: &Class,
        among: Option<&[Slot]>,
    ) -> Option<(Slot, Vec<InstanceId>)> {
        if !Self::preempts(class) {
            return None;
        }
        if among.is_none() {
            self.evictable.catch_up(cell, &self.machines);
        }
        let all = Slot::try_from(self.machines.len()).unwrap_or(Slot::MAX);
        let every = among.is_none().then_some(0..all).into_iter().flatten();
        let slots = among.into_iter().flatten().copied().chain(every);
        let possible = slots.filter(|slot| self.is_possible(cell, class, *slot));
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
        let mut candidates: Vec<(Priority, Held, InstanceId)> = Vec::new();
        for instance in machine.instances() {
            let stops = cell.placement(*instance).is_none_or(|placed| placed.stop.is_some());
            if stops || self.evictable.planned.contains(instance) {
                continue;
            }
            let job = cell.job(instance.collection)?;
            let held = job.held(instance.index);
            staying.add(&held);
            if may_leave(job.spec.priority, class.priority()) {
                candidates.push((job.spec.priority, held, *instance));
            }
        }
        let beside = self.beside(class, slot);
        let free_ports = self.machines.offer(slot, machine, beside).free_ports;
        let helps = |sums: &Sums| {
            let offer = Offer { beside, free_ports, ..sums.offered_by(machine) };
            fits(&class.ask(), &offer).is_ok()
        };
        if helps(&staying) {
            return None;
        }
        // Lowest priority first, and the largest of those first: fewer have to leave.
        candidates.sort_by_key(|(priority, held, id)| {
            let Resources { cpu, ram, .. } = held.reservation;
            (*priority, std::cmp::Reverse((cpu, ram)), *id)
        });
        let mut leaving: Vec<(Priority, Held, InstanceId)> = Vec::new();
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
