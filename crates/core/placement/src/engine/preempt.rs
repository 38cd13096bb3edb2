//! Preemption as feasibility (paper, section 3.2): if nothing else fits, resources held by
//! evictable tasks of lower priority count as available, and tasks are evicted from the lowest
//! priority up until the task fits.
//!
//! Among the machines where that helps, the one with the lowest cost is chosen: few victims, of low
//! priority. Nothing is evicted where it would not help, or where what is already leaving suffices.

use cell::feasibility::{Offer, Sums, fits};
use cell::{Cell, Demand};
use model::{InstanceId, Priority, Resources};

use super::Engine;
use crate::class::Class;
use crate::evictable::may_leave;
use crate::machines::{Slot, Units};

/// Maximum number of suitable machines that are compared.
const COMPARED: usize = 16;
/// The cost of a victim in addition to its priority.
const VICTIM: u64 = 500;

impl Engine {
    /// Whether a class can preempt at all.
    pub(crate) fn preempts(class: &Class) -> bool {
        class.priority().number() > 0
    }

    /// Whether a machine could have room if everything evictable left it. The evictable sums must
    /// be current.
    fn is_possible(&self, class: &Class, slot: Slot) -> bool {
        let at = slot as usize;
        if self.machines.ports[at] < class.scan.ports
            || self.machines.addresses[at] < class.scan.addresses
        {
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

    /// The machine with the lowest preemption cost for a task of a class, and the victims; searches
    /// some or all machines, starting at `first`. The evictable sums must be current.
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

    /// The victims on a machine for a task of a class, lowest priority first, and their cost;
    /// `None` if preemption does not help, or if what is already leaving suffices.
    fn victims(&self, cell: &Cell, class: &Class, slot: Slot) -> Option<(u64, Vec<InstanceId>)> {
        let machine = cell.machine(self.machines.id(slot))?;
        let mut staying = self.machines.planned(slot);
        let mut candidates: Vec<(Priority, Demand, InstanceId)> = Vec::new();
        let ask = class.ask();
        // Those of its static ports that an instance has: they are free only without it.
        let has = |instance: &InstanceId| -> Vec<u16> {
            let placed = cell.placement(*instance).filter(|_| !ask.static_ports.is_empty());
            let ports = placed.map_or(&[][..], |placed| placed.machine_ports()).iter().copied();
            ports.filter(|port| ask.static_ports.values().any(|wanted| wanted == port)).collect()
        };
        let mut leaving_ports: Vec<u16> = Vec::new();
        for instance in machine.instances() {
            let stops = cell.placement(*instance).is_none_or(|placed| placed.stop.is_some());
            if stops || self.evictable.planned.contains(instance) {
                leaving_ports.extend(has(instance));
                continue;
            }
            let job = cell.job(instance.collection)?;
            // Tasks in an alloc leave with the alloc.
            if job.alloc_set.is_some() {
                continue;
            }
            let demand = job.demand(instance.index);
            staying.add(&demand);
            let priority = job.described(instance.index).priority;
            if may_leave(priority, class.priority()) {
                candidates.push((priority, demand, *instance));
            }
        }
        let colocated = self.colocated(class, slot);
        let Offer { free_ports, planned_ports, free_addresses, free_cores, .. } =
            self.machines.offer(slot, machine, colocated);
        // A port of a task that stays is not free.
        let stays: Vec<u16> = machine
            .instances()
            .iter()
            .filter(|instance| {
                let stops = cell.placement(**instance).is_none_or(|placed| placed.stop.is_some());
                !stops && !self.evictable.planned.contains(instance)
            })
            .flat_map(has)
            .collect();
        leaving_ports.retain(|port| !stays.contains(port));
        let helps = |sums: &Sums, leaving_ports: &[u16]| {
            let free = sums.offered_by(machine);
            let offer = Offer {
                colocated,
                free_ports,
                leaving_ports,
                planned_ports,
                free_addresses,
                free_cores,
                ..free
            };
            let offer = self.kept.taken_from(offer, slot, class.priority());
            fits(&ask, &offer).is_ok()
        };
        if helps(&staying, &leaving_ports) {
            return None;
        }
        // Tasks with one of its static ports first. Then lowest priority first, and the largest of those
        // first: fewer have to leave.
        candidates.sort_by_key(|(priority, demand, id)| {
            let Resources { cpu, ram, .. } = demand.reservation;
            (has(id).is_empty(), *priority, std::cmp::Reverse((cpu, ram)), *id)
        });
        let mut leaving: Vec<(Priority, Demand, InstanceId)> = Vec::new();
        for candidate in candidates {
            if helps(&staying, &leaving_ports) {
                break;
            }
            staying = staying.without(&candidate.1);
            leaving_ports.extend(has(&candidate.2));
            leaving.push(candidate);
        }
        if !helps(&staying, &leaving_ports) {
            return None;
        }
        // Victims that turn out not to be needed stay, highest priority first.
        let mut kept = Vec::new();
        for victim in leaving.into_iter().rev() {
            let mut with = staying;
            with.add(&victim.1);
            let kept_ports = has(&victim.2);
            let without = leaving_ports.iter().filter(|port| !kept_ports.contains(port));
            let without: Vec<u16> = without.copied().collect();
            if helps(&with, &without) {
                (staying, leaving_ports) = (with, without);
            } else {
                kept.push(victim);
            }
        }
        kept.reverse();
        // All of a gang leave with one.
        let leave = |id: &InstanceId| {
            let gang = cell.job(id.collection).filter(|job| job.is_gang());
            gang.map_or(1, |job| u64::from(job.running().max(1)))
        };
        let cost = |(priority, _, id): &(Priority, Demand, InstanceId)| {
            (VICTIM + u64::from(priority.number())).saturating_mul(leave(id))
        };
        let cost = kept.iter().map(cost).sum();
        Some((cost, kept.into_iter().map(|(_, _, id)| id).collect()))
    }
}
