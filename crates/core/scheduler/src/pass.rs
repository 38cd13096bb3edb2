//! One pass over the queue: the machine with the best score for each task in turn.

use std::cmp::Reverse;

use cell::{Assignment, Cell};
use model::{Priority, TaskId, Time, UserName};
use placement::Engine;

use crate::queue::{Queue, Turns};

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
    ) -> Vec<Assignment> {
        for class in engine.begin_pass(cell, now) {
            self.unblock(class, engine);
        }
        let mut assignments = Vec::new();
        // They take only ports from machines, so they do not compete with the others.
        self.pass_inside(engine, cell, now, most, &mut assignments);
        let mut after = None;
        while assignments.len() < most
            && let Some(priority) = self.next_level(after)
        {
            after = Some(priority);
            let users = self.ready.remove(&Reverse(priority)).unwrap_or_default();
            let mut round: PassRound = users.into_iter().collect();
            while assignments.len() < most && !round.is_empty() {
                round.retain_mut(|(_, turns)| {
                    if assignments.len() < most {
                        assignments.extend(self.turn(engine, cell, now, turns));
                    }
                    !turns.is_empty()
                });
            }
            if !round.is_empty() {
                self.ready.insert(Reverse(priority), round.into_iter().collect());
            }
        }
        engine.end_pass();
        assignments
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
        turns: &mut Turns,
    ) -> Option<Assignment> {
        while let Some((job, id)) = turns.first().copied() {
            let next = self.group(id).and_then(|group| Some((group.class, group.first()?)));
            let Some((class, index)) = next else {
                turns.pop_first();
                continue;
            };
            let task = TaskId { collection: job, index };
            let instance = task.generation(cell.task(task).map(|task| task.generation)?);
            if let Some(assignment) = engine.place(cell, class, instance, now) {
                self.take(id, engine);
                if self.group(id).is_none_or(|group| group.job != job) {
                    turns.remove(&(job, id));
                }
                return Some(assignment);
            }
            self.block(id);
            turns.pop_first();
        }
        None
    }
}
