//! One pass over the queue: the machine with the best score for each task in turn.

use std::cmp::Reverse;

use cell::{Assignment, Cell};
use model::{Priority, TaskId, Time, UserName};
use placement::Engine;

use crate::queue::{Queue, Turns};

/// What a pass planned.
pub(crate) struct PassResult {
    /// The assignments.
    pub(crate) assignments: Vec<Assignment>,
    /// Whether there was no room in the plan for more.
    pub(crate) full: bool,
}

/// What a user's turn placed.
pub(crate) enum Placed {
    /// Nothing fits.
    None,
    /// A task.
    One(Box<Assignment>),
    /// All tasks of a gang.
    Gang(Vec<Assignment>),
    /// It is the turn of a gang that has more tasks than there is room for in the plan.
    Later,
}

/// The users whose turn it still is within a priority, with their remaining groups.
type PassRound = Vec<(UserName, Turns)>;

impl Queue {
    /// Plans assignments until no task fits, or until there are `most`.
    pub(crate) fn pass(
        &mut self,
        engine: &mut Engine,
        cell: &Cell,
        now: Time,
        most: usize,
    ) -> PassResult {
        let gained = engine.has_gained();
        for class in engine.begin_pass(cell, now) {
            self.unblock(class, engine);
        }
        if gained {
            self.gangs_again(engine);
        }
        let (mut assignments, mut full) = (Vec::new(), false);
        // They take only ports from machines, so they do not compete with the others.
        self.pass_inside(engine, cell, now, most, &mut assignments);
        let mut after = None;
        while !full
            && assignments.len() < most
            && let Some(priority) = self.next_level(after)
        {
            after = Some(priority);
            let users = self.ready.remove(&Reverse(priority)).unwrap_or_default();
            let mut round: PassRound = users.into_iter().collect();
            while !full && assignments.len() < most && !round.is_empty() {
                round.retain_mut(|(_, turns)| {
                    if !full && assignments.len() < most {
                        // The first one may be a gang of any size.
                        let room = (!assignments.is_empty()).then_some(most - assignments.len());
                        match self.turn(engine, cell, now, room, turns) {
                            Placed::Gang(gang) => assignments.extend(gang),
                            Placed::Later => full = true,
                            Placed::One(one) => assignments.push(*one),
                            Placed::None => {}
                        }
                    }
                    !turns.is_empty()
                });
            }
            if !round.is_empty() {
                self.ready.insert(Reverse(priority), round.into_iter().collect());
            }
        }
        engine.end_pass();
        let full = full || assignments.len() >= most;
        PassResult { assignments, full }
    }

    /// Plans assignments of tasks that run in allocs, while there are fewer than `most`.
    fn pass_inside(
        &mut self,
        engine: &mut Engine,
        cell: &Cell,
        now: Time,
        most: usize,
        assignments: &mut Vec<Assignment>,
    ) {
        while assignments.len() < most
            && let Some((id, tasks)) = self.inside.next()
        {
            let Some(job) = cell.job(id) else { continue };
            let Some(mut search) = engine.search_allocs(cell, job, now) else { continue };
            for index in tasks {
                if assignments.len() >= most {
                    self.inside.again(job);
                    break;
                }
                if let Some(assignment) = engine.place_in_alloc(&mut search, index) {
                    self.inside.leave(assignment.instance.task());
                    assignments.push(assignment);
                }
            }
        }
        self.inside.forget_jobs();
    }

    fn next_level(&self, after: Option<Priority>) -> Option<Priority> {
        let mut levels = self.ready.keys().map(|Reverse(priority)| *priority);
        levels.find(|priority| after.is_none_or(|after| *priority < after))
    }

    /// A user's turn: places the first of their tasks that fits anywhere. Groups that fit nowhere
    /// are blocked from here on.
    fn turn(
        &mut self,
        engine: &mut Engine,
        cell: &Cell,
        now: Time,
        room: Option<usize>,
        turns: &mut Turns,
    ) -> Placed {
        while let Some((job, id)) = turns.first().copied() {
            let next =
                self.group(id).and_then(|group| Some((group.class, group.gang, group.first()?)));
            let Some((class, gang, index)) = next else {
                turns.pop_first();
                continue;
            };
            if gang {
                let pending = cell.job(job).map_or(0, |job| job.pending() as usize);
                if room.is_some_and(|room| pending > room) {
                    return Placed::Later;
                }
                turns.retain(|(other, _)| *other != job);
                match self.place_gang(engine, cell, now, job) {
                    Some(assignments) => return Placed::Gang(assignments),
                    None => continue,
                }
            }
            let task = TaskId { collection: job, index };
            let Some(known) = cell.task(task) else { return Placed::None };
            let instance = task.generation(known.generation);
            if let Some(assignment) = engine.place(cell, class, instance, now) {
                self.take(id, engine);
                if self.group(id).is_none_or(|group| group.job != job) {
                    turns.remove(&(job, id));
                }
                return Placed::One(Box::new(assignment));
            }
            self.block(id);
            turns.pop_first();
        }
        Placed::None
    }
}
