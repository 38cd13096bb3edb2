//! The effects of faults on a world.

use model::Span;
use replica::Codec;

use crate::fault::{Fault, FaultKind};
use crate::network::{Disturbance, Node};
use crate::world::{Event, World};

impl<C: Codec> World<C> {
    pub(crate) fn fault(&mut self, number: usize, begins: bool) {
        let Fault { kind, lasts, .. } = self.faults[number].clone();
        match (kind, begins) {
            (FaultKind::Network(disturbance), true) => self.disturb(number, disturbance),
            (FaultKind::Network(_), false) => self.network.calm(number),
            (FaultKind::Off(range), true) => range.for_each(|machine| self.power_off(machine)),
            (FaultKind::Off(range), false) => range.for_each(|machine| self.boot(machine)),
            (FaultKind::Frozen(range), true) => range.for_each(|machine| self.freeze(machine)),
            (FaultKind::Frozen(range), false) => range.for_each(|machine| self.thaw(machine)),
            (FaultKind::Borglet(machine), true) => self.kill_borglet(machine),
            (FaultKind::BorgletFrozen(machine), true) => self.freeze_borglet(machine),
            (FaultKind::BorgletFrozen(machine), false) => self.thaw_borglet(machine),
            (FaultKind::Smaller(machine), begins) => self.shrink(machine, begins),
            (FaultKind::MemoryTaken(machine, permille), begins) => {
                self.take_memory(machine, begins.then_some(permille));
            }
            (FaultKind::Task(machine, which), true) => self.lose_task(machine, which),
            (FaultKind::Scheduler, true) => self.restart_scheduler(lasts),
            (FaultKind::SchedulerFrozen, begins) => self.freeze_scheduler(begins),
            (FaultKind::Rival, begins) => {
                self.rival.active = begins;
                if begins {
                    self.agenda.at(self.now, Event::RivalTurn);
                }
            }
            (FaultKind::Borglet(_) | FaultKind::Task(..) | FaultKind::Scheduler, false) => {}
            (kind, begins) => self.fault_of_masters(number, &kind, lasts, begins),
        }
    }

    /// Begins a disturbance of the network, identified by a number.
    pub(crate) fn disturb(&mut self, number: usize, disturbance: Disturbance) {
        let follows = self.scheduler.follows();
        let cut = |world: &Self| {
            follows.is_some_and(|host| world.network.is_cut(Node::Master(host), Node::Scheduler))
        };
        let before = cut(self);
        self.network.disturb(number, disturbance);
        if !before && cut(self) {
            self.stream_breaks(None, Span::from_secs(5));
        }
    }

    /// Ends every fault.
    pub(crate) fn heal(&mut self) {
        for number in 0..self.faults.len() {
            self.network.calm(number);
        }
        for machine in 0..self.machines.len() {
            self.thaw(machine);
            self.thaw_borglet(machine);
            self.boot(machine);
            self.shrink(machine, false);
            self.take_memory(machine, None);
        }
        self.heal_masters();
        self.freeze_scheduler(false);
        self.rival.active = false;
        self.invariants.savers.healed = Some(self.now);
        self.add_machines();
    }
}
