//! One pass over the queue: for each task the feasible machine with the best score.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::feasibility::{Ask, Offer, fits};
use cell::{Assignment, Cell, Machine};
use model::{MachineId, Resources, Time};

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

/// Places a task where it fits best: where it has not crashed of late, on a machine that is not
/// suspect, which matches most of its soft constraints, and there where least is left. The first of
/// these decides; a task that crashed everywhere runs where it crashed rather than nowhere.
pub(crate) fn place(waiting: &Waiting, rooms: &mut Rooms, now: Time) -> Option<Assignment> {
    let index = waiting.instance.index;
    let ask = Ask::of(&waiting.job, index);
    let task = waiting.job.task(index)?;
    let rank = |room: &Room| {
        let machine = &room.machine;
        let soft = ask.constraints.iter().filter(|constraint| !constraint.hard);
        let unmatched = soft.filter(|constraint| !constraint.matches(machine.attributes())).count();
        let crashed = task.avoids(machine.id, now).is_some();
        (crashed, machine.is_suspect(now), unmatched, room.score(&ask), machine.id)
    };
    let feasible = rooms.values().filter(|room| fits(&ask, &room.offer()).is_ok());
    let best = feasible.min_by_key(|room| rank(room))?.machine.id;
    let room = rooms.get_mut(&best)?;
    let ports = room.machine.free_ports(ask.ports, &room.planned_ports);
    room.take(ask.limit, &ports);
    Some(Assignment { instance: waiting.instance, machine: best, ports, victims: Vec::new() })
}

impl Room {
    fn offer(&self) -> Offer<'_> {
        let free_ports = self.machine.free_port_count().saturating_sub(self.planned_ports.len());
        Offer { machine: &self.machine, free: self.free, free_ports }
    }

    fn take(&mut self, limit: Resources, ports: &[u16]) {
        self.free = self.free.minus(limit);
        self.planned_ports.extend_from_slice(ports);
    }

    /// Best fit: what would be left of CPU and memory, each in thousandths of the machine. Lower
    /// is better.
    fn score(&self, ask: &Ask<'_>) -> u64 {
        let (left, all) = (self.free.minus(ask.limit), self.machine.capacity());
        let share = |left: u64, all: u64| {
            u64::try_from(u128::from(left) * 1_000 / u128::from(all.max(1))).unwrap_or(u64::MAX)
        };
        share(left.cpu.0, all.cpu.0) + share(left.ram.0, all.ram.0)
    }
}
