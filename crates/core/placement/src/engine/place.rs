//! Placing one task: on the best machine, or where evictions make room for it.

use cell::feasibility::Offer;
use cell::{Assignment, Cell, EvictionCause, Machine, PendingCause, TaskState};
use model::{InstanceId, Time};

use super::Engine;
use crate::class::{ClassId, Where};
use crate::machines::Slot;
use crate::planned::Planned;

impl Engine {
    /// Places a task of a class that is pending and not yet planned, and adds that to the plan: on the
    /// machine with the best score, or if it fits on none, on one where evictions help. `None` if it
    /// fits nowhere; the next task of the class fits nowhere either, until [`Engine::begin_pass`]
    /// returns the class.
    pub fn place(
        &mut self,
        cell: &Cell,
        class: ClassId,
        instance: InstanceId,
        now: Time,
    ) -> Option<Assignment> {
        if let Some(slot) = self.moved_to(cell, class, instance) {
            return self.take(cell, class, instance, slot, Vec::new());
        }
        if let Some(slot) = self.best(cell, class, now) {
            return self.take(cell, class, instance, slot, Vec::new());
        }
        if let Some((slot, victims)) = self.make_room(cell, class) {
            return self.take(cell, class, instance, slot, victims);
        }
        self.classes.set_places(class, Where::Nowhere);
        None
    }

    /// The machine to which a pending task is being moved, if it fits there: anywhere else, and above all on the
    /// machine that it has left, the move would be for nothing.
    fn moved_to(&mut self, cell: &Cell, class: ClassId, instance: InstanceId) -> Option<Slot> {
        let TaskState::Pending { cause, .. } = cell.task(instance.task())?.state else {
            return None;
        };
        let PendingCause::Evicted(EvictionCause::Moved { to, .. }) = cause else { return None };
        let slot = self.machines.slot(to)?;
        self.prepare(cell, class);
        let class = self.classes.get(class)?;
        self.fits(cell, class, slot).then_some(slot)
    }

    /// What a machine offers to a task of a class beside what is planned there; `None` for one that is unknown.
    pub(crate) fn offer_beside_plan<'a>(
        &'a self,
        class: ClassId,
        machine: &'a Machine,
    ) -> Option<Offer<'a>> {
        let (class, slot) = (self.classes.get(class)?, self.machines.slot(machine.id)?);
        Some(self.machines.offer(slot, machine, self.colocated(class, slot)))
    }

    /// A machine on which a task of a class fits after evictions, and the victims.
    fn make_room(&mut self, cell: &Cell, id: ClassId) -> Option<(Slot, Vec<InstanceId>)> {
        self.evictable.catch_up(cell, &self.machines);
        // From a random start; otherwise the same few machines would always be preempted.
        let first = self.draw(self.machines.len());
        let class = self.classes.get(id)?;
        match &class.places {
            Where::Nowhere => None,
            Where::Few(slots) => self.preempt(cell, class, Some(slots), first),
            Where::Unknown | Where::Pool(_) => self.preempt(cell, class, None, first),
        }
    }

    /// Reserves what a task needs of a machine.
    fn take(
        &mut self,
        cell: &Cell,
        class: ClassId,
        instance: InstanceId,
        slot: Slot,
        victims: Vec<InstanceId>,
    ) -> Option<Assignment> {
        let class = self.classes.get(class)?;
        let (demand, count, job) = (class.demand, class.ask().ports, class.job());
        let own = class.ask().network.is_own();
        let static_ports: Vec<u16> = class.ask().static_ports.values().copied().collect();
        let machine = self.machines.id(slot);
        let taken = self.machines.planned_addresses(slot);
        let address = match own {
            true => Some(cell.machine(machine)?.free_address(taken)?),
            false => None,
        };
        let ports = match count {
            0 => Vec::new(),
            _ => cell.machine(machine)?.free_ports(count, self.machines.planned_ports(slot)),
        };
        self.evictable.planned.extend(victims.iter().copied());
        self.machines.plan_static_ports(slot, &static_ports);
        self.hold(slot, &demand, &ports, address);
        self.room_is_awaited(cell, slot);
        self.spread_to(job, slot);
        let (alloc, alloc_ports) = (None, Vec::new());
        let planned = Planned {
            slot,
            machine,
            alloc,
            demand,
            address,
            ports,
            static_ports,
            alloc_ports,
            victims,
        };
        let assignment = planned.assignment(instance);
        self.planned.insert(instance, planned);
        Some(assignment)
    }
}
