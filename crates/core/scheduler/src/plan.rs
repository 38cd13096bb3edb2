//! The scheduler's copy of the cell, and the plan on top of it.

use std::sync::Arc;

use cell::{Applied, Assignment, Cell, Op};
use model::{HeldPackage, InstanceId, LogIndex, MachineId, TaskId, Time};
use placement::{Changed, Engine, Settings};

use crate::pass::PassResult;
use crate::queue::Queue;

/// Maximum number of assignments in a plan; the rest follows in the next pass. This bounds the size of
/// one operation of the log, and a gang has no more tasks.
pub const ASSIGNMENTS_MAX: usize = 5_000;

/// The proposals of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The index of the copy on which it was made.
    pub made_at: LogIndex,
    /// The assignments; each is accepted or rejected on its own, and those of a gang together.
    pub assignments: Vec<Assignment>,
    /// When a task that waits for its retry can be placed, if nothing else happens before.
    pub next: Option<Time>,
    /// Number of tasks that may be placed now but fit nowhere.
    pub unplaced: usize,
}

/// A scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    cell: Cell,
    engine: Engine,
    queue: Queue,
}

impl Scheduler {
    /// A scheduler with its first copy of the cell, and default settings of placement.
    #[must_use]
    pub fn new(cell: Cell) -> Self {
        Self::with(cell, Settings::default())
    }

    /// A scheduler with its first copy of the cell, and the given settings of placement.
    #[must_use]
    pub fn with(cell: Cell, settings: Settings) -> Self {
        let mut engine = Engine::new(&cell, settings);
        let queue = Queue::of(&cell, &mut engine);
        Self { cell, engine, queue }
    }

    /// Its copy of the cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Applies a committed operation to the copy, and returns its effects.
    pub fn follow(&mut self, at: Time, op: &Op) -> Applied {
        let applied = self.cell.apply(at, op);
        let changed = self.engine.follow(&self.cell, op, &applied);
        self.take_in(changed);
        applied
    }

    /// Takes in the packages that a machine reports: the complete list. It is no part of the cell, and only says where
    /// later tasks start sooner.
    pub fn set_held(&mut self, machine: MachineId, held: &Arc<[HeldPackage]>) {
        self.engine.set_held(machine, held);
    }

    /// A proposal was not decided, or its outcome is unknown: its tasks are considered again. For a
    /// decided one the operation itself brings the outcome ([`Scheduler::follow`]): an assignment
    /// was rejected by a cell newer than the copy, and the same plan made from the same copy would
    /// be rejected again.
    pub fn not_judged(&mut self, assignments: impl IntoIterator<Item = InstanceId>) {
        let changed = self.engine.not_judged(&self.cell, assignments);
        self.take_in(changed);
    }

    /// Brings the queue up to date.
    fn take_in(&mut self, changed: Changed) {
        if changed.rebuilt {
            self.queue = Queue::of(&self.cell, &mut self.engine);
            return;
        }
        for collection in changed.collections {
            self.queue.inside.happened(&self.cell, collection);
        }
        if changed.machines {
            self.queue.inside.happened_to_a_machine(&self.cell);
        }
        if changed.ports {
            self.queue.inside.ports_came_back(&self.cell);
        }
        for task in changed.tasks {
            self.requeue(task);
        }
    }

    /// Puts a task in its place in the queue, or removes it.
    fn requeue(&mut self, id: TaskId) {
        self.queue.leave(id, &mut self.engine);
        if self.engine.unplanned(&self.cell, id).is_some()
            && let Some(job) = self.cell.job(id.collection)
        {
            self.queue.enter(&self.cell, job, id.index, self.cell.time(), &mut self.engine);
        }
        // Without this task the others of its gang may be the whole, and may fit.
        if self.cell.job(id.collection).is_some_and(|job| job.is_gang()) {
            self.queue.gang_changed(id.collection, &self.engine);
        }
    }

    /// Scans the queue once and proposes what fits.
    pub fn pass(&mut self, now: Time) -> Plan {
        for instance in self.queue.due(now) {
            let task = instance.task();
            if self.engine.unplanned(&self.cell, task) == Some(instance)
                && let Some(job) = self.cell.job(task.collection)
            {
                self.engine.release_room(task);
                self.queue.enter(&self.cell, job, task.index, now, &mut self.engine);
            }
        }
        let most = ASSIGNMENTS_MAX;
        let PassResult { assignments, full } =
            self.queue.pass(&mut self.engine, &self.cell, now, most);
        let next = match full {
            true => Some(now),
            false => self.queue.next(),
        };
        let (made_at, unplaced) = (self.cell.index(), self.queue.blocked_tasks());
        Plan { made_at, assignments, next, unplaced }
    }
}
