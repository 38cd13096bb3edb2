//! Tasks that run in allocs (paper, section 2.4): of a machine they take ports alone, so nobody has to
//! leave for them, and the machines' scores say nothing of them. They go to the allocs of their job's
//! set, as evenly as there is room.
//!
//! A task whose alloc had to leave its machine waits for it, and goes where it goes.
//!
//! A job for which there is no room in its allocs is looked at again when anything happens to its alloc
//! set, or to a task in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{Colocated, Offer, Request, fits};
use cell::{Assignment, Cell, Demand, FailureDomain, Job, PendingCause, Task, TaskState};
use model::{
    CollectionId, Generation, InstanceId, MachineId, Priority, Resources, TaskId, TaskIndex, Time,
};

use crate::engine::Engine;
use crate::plan::Planned;
use crate::score::{over_a_maximum, unmatched};

/// The pending tasks of jobs that run in alloc sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    tasks: BTreeMap<CollectionId, BTreeSet<TaskIndex>>,
    /// By alloc set, the jobs that have any.
    jobs: BTreeSet<(CollectionId, CollectionId)>,
    /// Those of them that want ports, which others may give back.
    with_ports: BTreeSet<CollectionId>,
    /// The jobs that are looked at in the next pass, the most important first.
    ready: BTreeSet<(Reverse<Priority>, CollectionId)>,
    /// What the plan takes of allocs, beside what the cell knows.
    planned: BTreeMap<InstanceId, Resources>,
}

impl Inside {
    /// A task of a job that runs in an alloc set is pending.
    pub(crate) fn enter(&mut self, job: &Job, set: CollectionId, index: TaskIndex) {
        self.tasks.entry(job.id).or_default().insert(index);
        self.jobs.insert((set, job.id));
        if job.port_count(index) > 0 {
            self.with_ports.insert(job.id);
        }
        self.ready.insert((Reverse(job.spec.priority), job.id));
    }

    /// A task is not pending, or is planned.
    pub(crate) fn leave(&mut self, task: TaskId) {
        let Some(tasks) = self.tasks.get_mut(&task.collection) else { return };
        tasks.remove(&task.index);
        if tasks.is_empty() {
            self.tasks.remove(&task.collection);
        }
    }

    /// Something happened to a job, or to an alloc set.
    pub(crate) fn happened(&mut self, cell: &Cell, id: CollectionId) {
        if self.tasks.is_empty() {
            return;
        }
        let set = cell.job(id).and_then(|job| job.alloc_set).unwrap_or(id);
        let range = (set, CollectionId(0))..=(set, CollectionId(u64::MAX));
        let jobs: Vec<CollectionId> = self.jobs.range(range).map(|(_, job)| *job).collect();
        self.wake(cell, &jobs);
    }

    /// Something happened to a machine.
    pub(crate) fn happened_to_a_machine(&mut self, cell: &Cell) {
        if !self.tasks.is_empty() {
            let jobs: Vec<CollectionId> = self.tasks.keys().copied().collect();
            self.wake(cell, &jobs);
        }
    }

    /// A machine may have ports again.
    pub(crate) fn ports_came_back(&mut self, cell: &Cell) {
        if !self.with_ports.is_empty() {
            let jobs: Vec<CollectionId> = self.with_ports.iter().copied().collect();
            self.wake(cell, &jobs);
        }
    }

    fn wake(&mut self, cell: &Cell, jobs: &[CollectionId]) {
        for id in jobs.iter().filter(|id| self.tasks.contains_key(id)) {
            if let Some(job) = cell.job(*id) {
                self.ready.insert((Reverse(job.spec.priority), *id));
            }
        }
    }

    /// How many tasks fit in no alloc, as far as anybody looked.
    pub(crate) fn blocked_tasks(&self) -> usize {
        let ready: BTreeSet<CollectionId> = self.ready.iter().map(|(_, job)| *job).collect();
        let blocked = self.tasks.iter().filter(|(job, _)| !ready.contains(job));
        blocked.map(|(_, tasks)| tasks.len()).sum()
    }

    /// The plan takes something of an alloc.
    pub(crate) fn plan(&mut self, alloc: InstanceId, limit: Resources) {
        let planned = self.planned.entry(alloc).or_default();
        *planned = planned.plus(limit);
    }

    /// The plan takes it no longer.
    pub(crate) fn unplan(&mut self, alloc: InstanceId, limit: Resources) {
        if let Some(planned) = self.planned.get_mut(&alloc) {
            *planned = planned.minus(limit);
            if *planned == Resources::default() {
                self.planned.remove(&alloc);
            }
        }
    }

    /// The next job that is looked at, and its pending tasks.
    fn next(&mut self) -> Option<(CollectionId, Vec<TaskIndex>)> {
        loop {
            let (_, job) = self.ready.pop_first()?;
            if let Some(tasks) = self.tasks.get(&job) {
                return Some((job, tasks.iter().copied().collect()));
            }
        }
    }

    /// Jobs of which nothing is pending need not be known.
    fn forget_jobs(&mut self) {
        let tasks = &self.tasks;
        self.jobs.retain(|(_, job)| tasks.contains_key(job));
        self.with_ports.retain(|job| tasks.contains_key(job));
    }
}

/// A job whose turn it is.
struct Turn<'a> {
    cell: &'a Cell,
    now: Time,
    job: &'a Job,
    set: &'a Job,
}

/// An alloc that takes tasks.
struct Room {
    alloc: InstanceId,
    machine: MachineId,
    /// How many tasks of the job are in it.
    tasks: u32,
}

/// The allocs in which a task may fit, the best first: those that match its preferences best, and of
/// these the one with the fewest tasks of its job.
type Best = BTreeSet<(u32, u32, TaskIndex)>;

impl Engine {
    /// Plans for tasks that run in allocs, as long as there are not more assignments than that.
    pub(crate) fn pass_inside(
        &mut self,
        cell: &Cell,
        now: Time,
        most: usize,
        assignments: &mut Vec<Assignment>,
    ) {
        while assignments.len() < most
            && let Some((id, tasks)) = self.queue.inside.next()
        {
            let Some(job) = cell.job(id) else { continue };
            let Some(set) = job.alloc_set.and_then(|set| cell.job(set)) else { continue };
            let mut rooms = self.rooms(job, set);
            let turn = Turn { cell, now, job, set };
            // Tasks that ask for the same look at the same allocs, and at none that is too full again.
            let mut asks: Vec<(Request<'_>, Best)> = Vec::new();
            for index in tasks {
                if assignments.len() >= most {
                    self.queue.inside.ready.insert((Reverse(job.spec.priority), id));
                    break;
                }
                let ask = Request::of(job, index);
                let known = asks.iter().position(|(other, _)| *other == ask);
                let place = known.unwrap_or_else(|| {
                    let best = rooms.values().map(|room| order(cell, &ask, room)).collect();
                    asks.push((ask, best));
                    asks.len() - 1
                });
                let Some((ask, best)) = asks.get_mut(place) else { continue };
                let Some(at) = self.room_for(&turn, index, ask, &rooms, best) else { continue };
                let Some(room) = rooms.get_mut(&at) else { continue };
                let planned = self.take_room(cell, ask, room);
                let (Some(planned), Some(instance)) = (planned, job.instance(index)) else {
                    continue;
                };
                for (ask, best) in &mut asks {
                    let more = Room { tasks: room.tasks + 1, ..*room };
                    if best.remove(&order(cell, ask, room)) {
                        best.insert(order(cell, ask, &more));
                    }
                }
                room.tasks += 1;
                assignments.push(planned.assignment(instance));
                self.queue.inside.leave(instance.task());
                self.planned.insert(instance, planned);
            }
        }
        self.queue.inside.forget_jobs();
    }

    /// The allocs of a set that take tasks.
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

    /// The alloc that a task goes to.
    fn room_for(
        &self,
        turn: &Turn<'_>,
        index: TaskIndex,
        ask: &Request<'_>,
        rooms: &BTreeMap<TaskIndex, Room>,
        best: &mut Best,
    ) -> Option<TaskIndex> {
        let Turn { cell, now, job, set } = *turn;
        let task = job.task(index)?;
        if let Some(home) = home(task, set) {
            // It goes where its alloc goes, or anywhere where others took its place there.
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
        let planned = self.queue.inside.planned.get(&room.alloc).copied().unwrap_or_default();
        let colocated = self.colocated_inside(cell, job, room.machine);
        let within = Offer::within(cell, machine, room.alloc);
        let free = within.free.minus(planned);
        let free_ports = self.machines.offer(slot, machine, colocated).free_ports;
        let offer = Offer { free, free_for_prod: free, free_ports, colocated, ..within };
        fits(ask, &offer).is_ok()
    }

    /// What of a job is on a machine and at its switch, the plan's part with it.
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

    /// The plan holds what a task needs of an alloc.
    fn take_room(&mut self, cell: &Cell, ask: &Request<'_>, room: &Room) -> Option<Planned> {
        let slot = self.machines.slot(room.machine)?;
        let taken = self.machines.planned_ports(slot);
        let ports = match ask.ports {
            0 => Vec::new(),
            count => cell.machine(room.machine)?.free_ports(count, taken),
        };
        let (demand, limit) = (Demand::default(), ask.demand.limit);
        self.hold(slot, &demand, &ports);
        self.queue.inside.plan(room.alloc, limit);
        let (machine, victims) = (room.machine, Vec::new());
        Some(Planned { slot, machine, alloc: Some((room.alloc, limit)), demand, ports, victims })
    }
}

/// How good an alloc is; lower is better.
fn order(cell: &Cell, ask: &Request<'_>, room: &Room) -> (u32, u32, TaskIndex) {
    let attributes = cell.machine(room.machine).map(|machine| machine.attributes());
    let soft = attributes.map_or(0, |attributes| unmatched(ask.constraints, attributes));
    let colocated = Colocated { machine: room.tasks, switch: 0 };
    let over = over_a_maximum(ask.max_per_machine, None, colocated);
    (soft.saturating_add(over), room.tasks, room.alloc.index)
}

/// The alloc in which a task was, where that had to leave its machine and is not dead.
fn home(task: &Task, set: &Job) -> Option<TaskIndex> {
    let TaskState::Pending { cause: PendingCause::Evicted(_) | PendingCause::Lost, .. } =
        task.state
    else {
        return None;
    };
    let alloc = task.last_incarnation.as_ref()?.alloc?;
    let dead = matches!(set.task(alloc)?.state, TaskState::Dead { .. });
    (!dead).then_some(alloc)
}
