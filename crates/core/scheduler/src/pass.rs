//! One pass over the queue: the machine with the best score for each task in turn.

use std::cmp::Reverse;

use cell::{Assignment, Cell};
use model::{InstanceId, Priority, TaskId, Time, UserName};

use crate::class::{ClassId, GroupId, Where};
use crate::engine::Engine;
use crate::machines::Slot;
use crate::planned::Planned;
use crate::queue::Turns;

/// The users whose turn it still is within a priority, with their remaining groups.
type Round = Vec<(UserName, Turns)>;

impl Engine {
    /// Plans assignments until no task fits, or until there are `most`.
    pub(crate) fn pass(&mut self, cell: &Cell, now: Time, most: usize) -> Vec<Assignment> {
        self.begin_pass(cell, now);
        let mut assignments = Vec::new();
        // They take only ports from machines, so they do not compete with the others.
        self.pass_inside(cell, now, most, &mut assignments);
        let mut after = None;
        while assignments.len() < most
            && let Some(priority) = self.next_level(after)
        {
            after = Some(priority);
            let users = self.queue.ready.remove(&Reverse(priority)).unwrap_or_default();
            let mut round: Round = users.into_iter().collect();
            while assignments.len() < most && !round.is_empty() {
                round.retain_mut(|(_, turns)| {
                    if assignments.len() < most
                        && let Some((instance, planned)) = self.turn(cell, now, turns)
                    {
                        assignments.push(planned.assignment(instance));
                        self.planned.insert(instance, planned);
                    }
                    !turns.is_empty()
                });
            }
            if !round.is_empty() {
                self.queue.ready.insert(Reverse(priority), round.into_iter().collect());
            }
        }
        self.end_pass();
        assignments
    }

    fn next_level(&self, after: Option<Priority>) -> Option<Priority> {
        let mut levels = self.queue.ready.keys().map(|Reverse(priority)| *priority);
        levels.find(|priority| after.is_none_or(|after| *priority < after))
    }

    /// A user's turn: places the first of their tasks that fits anywhere. Groups that fit nowhere
    /// are blocked from here on.
    fn turn(&mut self, cell: &Cell, now: Time, turns: &mut Turns) -> Option<(InstanceId, Planned)> {
        while let Some((job, group)) = turns.first().copied() {
            let Some(index) = self.queue.first(group) else {
                turns.pop_first();
                continue;
            };
            if let Some(planned) = self.place(cell, now, group) {
                self.queue.take(group);
                if self.queue.group(group).is_none_or(|group| group.job != job) {
                    turns.remove(&(job, group));
                }
                let task = TaskId { collection: job, index };
                let generation = cell.task(task).map(|task| task.generation)?;
                return Some((task.generation(generation), planned));
            }
            self.queue.block(group);
            turns.pop_first();
        }
        None
    }

    /// A machine for the next task of a group.
    fn place(&mut self, cell: &Cell, now: Time, group: GroupId) -> Option<Planned> {
        let id = self.queue.group(group)?.class;
        if let Some(slot) = self.best(cell, id, now) {
            return self.take(cell, group, slot, Vec::new());
        }
        if let Some((slot, victims)) = self.make_room(cell, id) {
            return self.take(cell, group, slot, victims);
        }
        self.queue.classes.set_places(id, Where::Nowhere);
        None
    }

    /// A machine on which a task of a class fits after evictions, and the victims.
    fn make_room(&mut self, cell: &Cell, id: ClassId) -> Option<(Slot, Vec<InstanceId>)> {
        self.evictable.catch_up(cell, &self.machines);
        // From a random start; otherwise the same few machines would always be preempted.
        let first = self.draw(self.machines.len());
        let class = self.queue.classes.get(id)?;
        match &class.places {
            Where::Nowhere => None,
            Where::Few(slots) => self.preempt(cell, class, Some(slots), first),
            Where::Unknown | Where::Pool(_) => self.preempt(cell, class, None, first),
        }
    }

    /// Reserves what the next task of a group needs of a machine.
    fn take(
        &mut self,
        cell: &Cell,
        group: GroupId,
        slot: Slot,
        victims: Vec<InstanceId>,
    ) -> Option<Planned> {
        let class = self.queue.classes.get(self.queue.group(group)?.class)?;
        let (demand, count, job) = (class.demand, class.ask().ports, class.job());
        let own = class.ask().network.is_own();
        let id = self.machines.id(slot);
        let address = match own {
            true => Some(cell.machine(id)?.free_address(self.machines.planned_addresses(slot))?),
            false => None,
        };
        let ports = match count {
            0 => Vec::new(),
            _ => cell.machine(id)?.free_ports(count, self.machines.planned_ports(slot)),
        };
        self.evictable.planned.extend(victims.iter().copied());
        self.hold(slot, &demand, &ports, address);
        self.room_is_awaited(cell, slot);
        self.is_planned(job, slot);
        let alloc_ports = Vec::new();
        Some(Planned {
            slot,
            machine: id,
            alloc: None,
            demand,
            address,
            ports,
            alloc_ports,
            victims,
        })
    }
}
