//! Re-packing: which running tasks to move to other machines, so that less room is left over in pieces.
//!
//! A move disrupts a task, so it is proposed only for a gain that is worth more: a pending task that fits on no machine
//! fits on the one that is left, or a machine becomes empty. Both are verified with the checks of the cell itself
//! (`cell::feasibility`), as is the room on the machines that tasks move to. What may not be moved at all is the cell's
//! decision ([`cell::Cell::may_move`]), disruption budgets included; [`PackingSettings`] says what else stays.
//!
//! The work of a call is bounded, and the same cell gives the same moves.
//!
//! Deliberately absent: who asks, how often, and what becomes of a proposal. The cell checks each move again.

mod empty;
mod fit;
mod rooms;
mod settings;
#[cfg(test)]
mod tests;
mod worth;

use std::collections::{BTreeMap, BTreeSet};

use cell::Cell;
use model::{InstanceId, MachineId, TaskId, Time, UserName};

pub use settings::PackingSettings;

use crate::rooms::PackingRooms;

/// What a proposal is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackingGain {
    /// A pending task that fits nowhere fits on a machine.
    Fits {
        /// The task.
        task: InstanceId,
        /// The machine.
        on: MachineId,
    },
    /// A machine becomes empty.
    Empties(MachineId),
}

/// A move of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackingMove {
    /// The task, in its current incarnation.
    pub instance: InstanceId,
    /// Its machine.
    pub from: MachineId,
    /// A machine on which it has room.
    pub to: MachineId,
    /// What it costs, in the unit of the gain.
    pub cost: u64,
}

/// Moves that belong together: without one of them the others gain nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackingProposal {
    /// What for.
    pub gain: PackingGain,
    /// What that is worth: thousandths of the largest machine, by the priority of the task.
    pub worth: u64,
    /// The moves.
    pub moves: Vec<PackingMove>,
}

impl PackingProposal {
    /// What all its moves cost.
    #[must_use]
    pub fn cost(&self) -> u64 {
        total(&self.moves)
    }
}

fn total(moves: &[PackingMove]) -> u64 {
    moves.iter().fold(0, |sum, step| sum.saturating_add(step.cost))
}

/// What to move now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackingPlan {
    /// The proposals, in the order in which to carry them out.
    pub proposals: Vec<PackingProposal>,
    /// The pending tasks for which no moves are worth their cost, of those that were examined.
    pub unhelped: Vec<InstanceId>,
    /// Whether everything was examined. If not, the next call begins at the front again.
    pub is_complete: bool,
}

/// The moves that are worth their cost in a cell at a time. `moved` has the tasks that were moved lately, with the
/// times: none is moved twice within an hour ([`PackingSettings::AGAIN_AFTER`]).
#[must_use]
pub fn plan(
    cell: &Cell,
    now: Time,
    moved: &BTreeMap<TaskId, Time>,
    settings: &PackingSettings,
) -> PackingPlan {
    let mut rooms = PackingRooms::of(cell, now, moved, settings);
    let mut plan = PackingPlan { is_complete: true, ..PackingPlan::default() };
    let mut tried = BTreeSet::new();
    let mut of_users: BTreeMap<&UserName, usize> = BTreeMap::new();
    for (job, index) in fit::waiting(cell, now, settings) {
        if rooms.is_exhausted() || tried.len() >= fit::EXAMINED {
            plan.is_complete = false;
            break;
        }
        if rooms.moves_left() == 0 {
            break;
        }
        let Some(task) = job.instance(index) else { continue };
        // The tasks of a job are mostly alike: if nothing helps one, nothing helps the next.
        if tried.contains(&job.id) || rooms.is_being_helped(task) {
            continue;
        }
        if of_users.get(&job.owner).is_some_and(|tried| *tried >= fit::EXAMINED_OF_A_USER) {
            plan.is_complete = false;
            continue;
        }
        match fit::help(&mut rooms, job, index) {
            fit::Help::Moves(proposal) => {
                rooms.carry_out(&proposal);
                plan.proposals.push(proposal);
            }
            fit::Help::Fits => {}
            fit::Help::None => {
                tried.insert(job.id);
                *of_users.entry(&job.owner).or_default() += 1;
                plan.unhelped.push(task);
            }
        }
    }
    if settings.empties {
        empty::machines(&mut rooms, &mut plan.proposals);
    }
    plan.is_complete &= !rooms.is_exhausted();
    plan
}
