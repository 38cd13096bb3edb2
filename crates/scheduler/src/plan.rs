//! The scheduler's copy of the cell, and the plan that lies over it.

use std::collections::BTreeMap;

use cell::{Assignment, Cell, Op, TaskState};
use model::{InstanceId, LogIndex, Resources, Time};

use crate::pass::{place, rooms};
use crate::queue::queue;

/// What a pass proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The index of the copy on which it was made.
    pub made_at: LogIndex,
    /// What is proposed; each is accepted or refused by itself.
    pub assignments: Vec<Assignment>,
    /// When a task that waits for its next try can be placed, if nothing else happens before.
    pub next: Option<Time>,
    /// How many tasks could be placed by now and fit nowhere.
    pub unplaced: usize,
}

/// How many assignments a plan has at most; the rest follows in the next pass. It bounds one
/// operation of the log.
const ASSIGNMENTS_MAX: usize = 5_000;

/// A scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    cell: Cell,
    planned: BTreeMap<InstanceId, (Assignment, Resources)>,
}

impl Scheduler {
    /// A scheduler with its first copy of the cell.
    #[must_use]
    pub fn new(cell: Cell) -> Self {
        Self { cell, planned: BTreeMap::new() }
    }

    /// Its copy of the cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// An operation has been committed.
    pub fn follow(&mut self, at: Time, op: &Op) {
        self.cell.apply(at, op);
        if let Op::Assign(assignments) = op {
            // Accepted or not, the cell's own account is right about it from here on.
            for assignment in assignments {
                self.planned.remove(&assignment.instance);
            }
        }
    }

    /// A proposal was not judged, or nobody knows whether it was: what it was about is considered
    /// again. Of one that was judged the operation itself tells ([`Scheduler::follow`]): whatever was
    /// refused in it was refused by a cell that is newer than the copy, and the same plan made on the
    /// same copy would be refused once more.
    pub fn not_judged(&mut self, assignments: impl IntoIterator<Item = InstanceId>) {
        for instance in assignments {
            self.planned.remove(&instance);
        }
    }

    /// Scans the queue once and proposes what fits.
    pub fn pass(&mut self, now: Time) -> Plan {
        let cell = &self.cell;
        let pending = |instance: &InstanceId| {
            cell.task(instance.task()).is_some_and(|task| {
                task.generation == instance.generation
                    && matches!(task.state, TaskState::Pending { .. })
            })
        };
        self.planned.retain(|instance, _| pending(instance));
        let planned = self.planned.values().map(|(assignment, limit)| (assignment, *limit));
        let mut rooms = rooms(cell, planned);
        let (waiting, next) = queue(cell, now);
        let mut plan = Plan { made_at: cell.index(), next, ..Plan::default() };
        for waiting in waiting {
            if self.planned.contains_key(&waiting.instance) {
                continue;
            }
            if plan.assignments.len() >= ASSIGNMENTS_MAX {
                plan.next = Some(now);
                break;
            }
            match place(&waiting, &mut rooms, now) {
                Some(assignment) => {
                    let limit = waiting.job.limit(waiting.instance.index);
                    self.planned.insert(waiting.instance, (assignment.clone(), limit));
                    plan.assignments.push(assignment);
                }
                None => plan.unplaced += 1,
            }
        }
        plan
    }
}
