//! Placing tasks that run in allocs (paper, section 2.4).
//!
//! A task whose alloc was evicted waits for that alloc and follows it.

use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{Colocated, Offer, OfferedAlloc, Request, fits};
use cell::{Assignment, Cell, Demand, FailureDomain, Job, PendingCause, Task, TaskState};
use model::{CollectionId, Generation, InstanceId, MachineId, TaskId, TaskIndex, Time};

use super::Engine;
use crate::planned::Planned;
use crate::score::{over_a_maximum, unmatched};

/// An alloc that accepts tasks.
#[derive(Debug)]
struct Room {
    alloc: InstanceId,
    machine: MachineId,
    /// Number of the job's tasks in it.
    tasks: u32,
}

/// The allocs in which a task may fit, best first: those that match most of its preferences, and of
/// these the one with the fewest tasks of its job.
type Best = BTreeSet<(u32, u32, TaskIndex)>;

/// The search for allocs for tasks of one job, within one pass ([`Engine::search_allocs`]).
#[derive(Debug)]
pub struct AllocSearch<'a> {
    cell: &'a Cell,
    now: Time,
    job: &'a Job,
    set: &'a Job,
    rooms: BTreeMap<TaskIndex, Room>,
    /// Tasks with the same request examine the same allocs, and none again that is too full.
    asks: Vec<(Request<'a>, Best)>,
}

impl Engine {
    /// Begins the search for allocs for tasks of a job; `None` if its tasks do not run in allocs. They
    /// take only ports from a machine, so nothing is evicted for them and machine scores do not apply:
    /// they are spread over the allocs of their job's set as evenly as room allows. It lasts until
    /// anything else is placed, or the cell changes.
    #[must_use]
    pub fn search_allocs<'a>(
        &self,
        cell: &'a Cell,
        job: &'a Job,
        now: Time,
    ) -> Option<AllocSearch<'a>> {
        let set = job.alloc_set.and_then(|set| cell.job(set))?;
        let rooms = self.rooms(job, set);
        Some(AllocSearch { cell, now, job, set, rooms, asks: Vec::new() })
    }

    /// Places a task of the job of a search that is pending and not yet planned in the best alloc, and
    /// adds that to the plan. `None` if it fits in none.
    pub fn place_in_alloc(
        &mut self,
        search: &mut AllocSearch<'_>,
        index: TaskIndex,
    ) -> Option<Assignment> {
        let (cell, job) = (search.cell, search.job);
        let ask = Request::of(cell, job, index);
        let known = search.asks.iter().position(|(other, _)| *other == ask);
        let place = known.unwrap_or_else(|| {
            let best = search.rooms.values().map(|room| order(cell, &ask, room)).collect();
            search.asks.push((ask, best));
            search.asks.len() - 1
        });
        let at = self.room_for(search, place, index)?;
        let (ask, _) = search.asks.get(place)?;
        let room = search.rooms.get_mut(&at)?;
        let instance = job.instance(index)?;
        let planned = self.take_room(cell, ask, room)?;
        for (ask, best) in &mut search.asks {
            let more = Room { tasks: room.tasks + 1, ..*room };
            if best.remove(&order(cell, ask, room)) {
                best.insert(order(cell, ask, &more));
            }
        }
        room.tasks += 1;
        let assignment = planned.assignment(instance);
        self.planned.insert(instance, planned);
        Some(assignment)
    }

    /// The allocs of a set that accept tasks.
    fn rooms(&self, job: &Job, set: &Job) -> BTreeMap<TaskIndex, Room> {
        let mut rooms = BTreeMap::new();
        for (index, alloc) in set.tasks() {
            if let (TaskState::Running(placement), Some(instance)) =
                (&alloc.state, set.instance(index))
                && placement.stop.is_none()
                && !self.evictable.planned.contains(&instance)
            {
                let room = Room { alloc: instance, machine: placement.machine, tasks: 0 };
                rooms.insert(index, room);
            }
        }
        let placed = job.tasks().filter_map(|(_, task)| match &task.state {
            TaskState::Running(placement) => placement.alloc(),
            _ => None,
        });
        let planned = self.planned_of(job.id).filter_map(|planned| planned.alloc);
        for alloc in placed.chain(planned.map(|(alloc, _)| alloc)) {
            if let Some(room) = rooms.get_mut(&alloc.index).filter(|room| room.alloc == alloc) {
                room.tasks += 1;
            }
        }
        rooms
    }

    fn planned_of(&self, job: CollectionId) -> impl Iterator<Item = &Planned> {
        let first = TaskId { collection: job, index: TaskIndex(0) }.generation(Generation(0));
        let of_job = self.planned.range(first..);
        of_job.take_while(move |(id, _)| id.collection == job).map(|(_, planned)| planned)
    }

    /// The alloc for a task, whose request is at a place of the search.
    fn room_for(
        &self,
        search: &mut AllocSearch<'_>,
        place: usize,
        index: TaskIndex,
    ) -> Option<TaskIndex> {
        let AllocSearch { cell, now, job, set, rooms, asks } = search;
        let (cell, now, job) = (*cell, *now, *job);
        let (ask, best) = asks.get_mut(place)?;
        let task = job.task(index)?;
        if let Some(home) = home(task, set) {
            // It follows its alloc, or goes anywhere if others took its place there.
            let room = rooms.get(&home)?;
            if self.has_room(cell, job, ask, room) {
                return Some(home);
            }
        }
        let avoids = |room: &Room| task.avoids(room.machine, now).is_some();
        let mut second = None;
        let mut full = Vec::new();
        for key in best.iter() {
            let Some(room) = rooms.get(&key.2) else { continue };
            if !self.has_room(cell, job, ask, room) {
                full.push(*key);
            } else if !avoids(room) {
                second = Some(key.2);
                break;
            } else if second.is_none() {
                second = Some(key.2);
            }
        }
        best.retain(|key| !full.contains(key));
        second
    }

    fn has_room(&self, cell: &Cell, job: &Job, ask: &Request<'_>, room: &Room) -> bool {
        let Some(machine) = cell.machine(room.machine) else { return false };
        let Some(slot) = self.machines.slot(room.machine) else { return false };
        let colocated = self.colocated_inside(cell, job, room.machine);
        let within = Offer::within(cell, machine, room.alloc);
        let Offer { free_ports, planned_ports, .. } = self.machines.offer(slot, machine, colocated);
        let offer = Offer { free_ports, planned_ports, colocated, ..within };
        let Some(planned) = self.in_allocs.of(room.alloc) else {
            return fits(ask, &offer).is_ok();
        };
        let free = within.free.minus(planned.limits);
        let of_cell = machine.ports_in(room.alloc).iter();
        let ports_taken: Vec<u16> = of_cell.chain(&planned.ports).copied().collect();
        let alloc = within.alloc.map(|alloc| OfferedAlloc { ports_taken: &ports_taken, ..alloc });
        fits(ask, &Offer { free, free_for_prod: free, alloc, ..offer }).is_ok()
    }

    /// Number of a job's tasks on a machine and at its switch, planned ones included.
    fn colocated_inside(&self, cell: &Cell, job: &Job, id: MachineId) -> Colocated {
        if !job.spec.has_maxima() {
            return Colocated::default();
        }
        let Some(machine) = cell.machine(id) else { return Colocated::default() };
        let mut colocated = Colocated::of(cell, job, machine);
        let switch = machine.domain(FailureDomain::Switch);
        for planned in self.planned_of(job.id) {
            let there = cell.machine(planned.machine);
            let at = there.and_then(|machine| machine.domain(FailureDomain::Switch));
            colocated.machine += u32::from(planned.machine == id);
            colocated.switch += u32::from(switch.is_some() && at == switch);
        }
        colocated
    }

    /// Reserves what a task needs of an alloc.
    fn take_room(&mut self, cell: &Cell, ask: &Request<'_>, room: &Room) -> Option<Planned> {
        let slot = self.machines.slot(room.machine)?;
        let taken = self.machines.planned_ports(slot);
        let ports = match ask.ports {
            0 => Vec::new(),
            count => cell.machine(room.machine)?.free_ports(count, taken),
        };
        let (demand, limit) = (Demand::default(), ask.demand.limit);
        let alloc_ports: Vec<u16> = ask.network.numbers().values().copied().collect();
        let static_ports: Vec<u16> = ask.static_ports.values().copied().collect();
        self.machines.plan_static_ports(slot, &static_ports);
        self.hold(slot, &demand, &ports, None);
        self.in_allocs.plan(room.alloc, limit, &alloc_ports);
        let (machine, victims) = (room.machine, Vec::new());
        let (alloc, address) = (Some((room.alloc, limit)), None);
        Some(Planned {
            slot,
            machine,
            alloc,
            demand,
            address,
            ports,
            static_ports,
            alloc_ports,
            victims,
        })
    }
}

/// The rank of an alloc; lower is better.
fn order(cell: &Cell, ask: &Request<'_>, room: &Room) -> (u32, u32, TaskIndex) {
    let attributes = cell.machine(room.machine).map(|machine| machine.attributes());
    let soft = attributes.map_or(0, |attributes| unmatched(ask.constraints, attributes));
    let colocated = Colocated { machine: room.tasks, switch: 0 };
    let over = over_a_maximum(ask.max_per_machine, None, colocated);
    (soft.saturating_add(over), room.tasks, room.alloc.index)
}

/// The alloc in which a task was, if that was evicted and is not dead.
fn home(task: &Task, set: &Job) -> Option<TaskIndex> {
    let TaskState::Pending {
        cause: PendingCause::Evicted(_) | PendingCause::Lost | PendingCause::StartLost { .. },
        ..
    } = task.state
    else {
        return None;
    };
    let alloc = task.last_incarnation.as_ref()?.alloc?;
    let dead = matches!(set.task(alloc)?.state, TaskState::Dead { .. });
    (!dead).then_some(alloc)
}
