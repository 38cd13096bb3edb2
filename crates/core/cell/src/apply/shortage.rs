//! Machines that stay short of a resource: tasks are moved away (paper, section 6.2: "if things do not
//! improve, Borgmaster will remove one or more tasks from the machine").

use std::cmp::Reverse;

use event::{EvictionCause, StopReason};
use model::{InstanceId, MachineId};

use super::Events;
use crate::{Cell, Machine};

impl Cell {
    /// The instance that leaves a machine first if it stays short of a resource: one that is not
    /// production, of the lowest priority, and of those with the largest reservation of it. What its
    /// disruption budget protects, and what runs in an alloc, stays. `None` if the machine is not
    /// short, one is leaving already, or there is none.
    #[must_use]
    pub fn relief(&self, machine: &Machine) -> Option<InstanceId> {
        let dimension = machine.report.shortage.filter(model::Shortage::persists)?.dimension;
        let placed = |id: &InstanceId| self.placement(*id);
        if machine.instances().iter().any(|id| placed(id).is_some_and(|at| at.stop.is_some())) {
            return None;
        }
        let movable = machine.instances().iter().filter(|id| self.may_relieve(**id));
        movable.copied().min_by_key(|id| {
            let job = self.job(id.collection);
            let priority = job.map(|job| job.described(id.index).priority);
            let held = job.map(|job| job.demand(id.index).reservation.get(dimension));
            (priority, Reverse(held), *id)
        })
    }

    /// Whether an instance may be moved away from a machine that stays short.
    fn may_relieve(&self, instance: InstanceId) -> bool {
        let Some(job) = self.job(instance.collection) else { return false };
        let alone = self.placement(instance).is_some_and(|placed| placed.alloc.is_none());
        alone && !job.demand(instance.index).prod && self.may_disrupt(instance).is_ok()
    }

    pub(super) fn relieve_machine(
        &mut self,
        id: MachineId,
        instance: InstanceId,
        events: &mut Events,
    ) {
        let Some(machine) = self.machines.get(id) else { return };
        let is_short = machine.report.shortage.is_some_and(|shortage| shortage.persists());
        let there = self.placement(instance).is_some_and(|placed| placed.machine == id);
        if is_short && there && self.may_relieve(instance) {
            self.stop(instance, &StopReason::Evict(EvictionCause::OutOfResources), events);
        }
    }
}
