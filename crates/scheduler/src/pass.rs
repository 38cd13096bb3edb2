//! One pass over the queue: for each task the feasible machine with the best score.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::feasibility::{Ask, Offer, fits};
use cell::{Assignment, Cell, Machine};
use model::{MachineId, Resources};

use crate::queue::Waiting;

/// What is left of a machine in the scheduler's eyes: the cell's own account less what the plan
/// holds.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    machine: Arc<Machine>,
    free: Resources,
    planned_ports: Vec<u16>,
}

pub(crate) type Rooms = BTreeMap<MachineId, Room>;

/// The rooms of every machine, less what is planned.
pub(crate) fn rooms<'a>(
    cell: &Cell,
    planned: impl Iterator<Item = (&'a Assignment, Resources)>,
) -> Rooms {
    let room = |machine: &Arc<Machine>| Room {
        machine: Arc::clone(machine),
        free: machine.free(),
        planned_ports: Vec::new(),
    };
    let mut rooms: Rooms = cell.machines().map(|machine| (machine.id, room(machine))).collect();
    for (assignment, limit) in planned {
        if let Some(room) = rooms.get_mut(&assignment.machine) {
            room.take(limit, &assignment.ports);
        }
    }
    rooms
}

/// Places one task, where it fits anywhere, and takes its room.
pub(crate) fn place(waiting: &Waiting, rooms: &mut Rooms) -> Option<Assignment> {
    let ask = Ask::of(&waiting.job, waiting.instance.index);
    let feasible = rooms.values().filter(|room| fits(&ask, &room.offer()).is_ok());
    let best = feasible.min_by_key(|room| (room.score(&ask), room.machine.id))?.machine.id;
    let room = rooms.get_mut(&best)?;
    let ports = room.machine.free_ports(ask.ports, &room.planned_ports);
    room.take(ask.limit, &ports);
    Some(Assignment { instance: waiting.instance, machine: best, ports })
}

impl Room {
    fn offer(&self) -> Offer<'_> {
        let taken = self.machine.ports_taken().len() + self.planned_ports.len();
        let free_ports = self.machine.report.ports.len().saturating_sub(taken);
        Offer { machine: &self.machine, free: self.free, free_ports }
    }

    fn take(&mut self, limit: Resources, ports: &[u16]) {
        self.free = self.free.minus(limit);
        self.planned_ports.extend_from_slice(ports);
    }

    /// Best fit: what would be left of CPU and memory, each in thousandths of the machine. Lower
    /// is better.
    fn score(&self, ask: &Ask) -> u64 {
        let (left, all) = (self.free.minus(ask.limit), self.machine.capacity());
        let share = |left: u64, all: u64| {
            u64::try_from(u128::from(left) * 1_000 / u128::from(all.max(1))).unwrap_or(u64::MAX)
        };
        share(left.cpu.0, all.cpu.0) + share(left.ram.0, all.ram.0)
    }
}
