//! Moves of running tasks: what a client asks for, and the plan of those that are worth their cost.

use std::collections::{BTreeMap, BTreeSet};

use api::locks::optional_sequencer;
use api::v1::{self, move_task_request, plan_moves_response};
use cell::{Cell, MoveReason, MoveTask};
use model::{Capability, CollectionId, MachineId, MachineName, Span, TaskId, TaskIndex, Time};
use repack::{PackingGain, PackingMove, PackingProposal, PackingSettings};
use tonic::Status;

use super::Reads;
use super::views::{machine_name, task_name};
use crate::request::malformed;

/// The maximum number of tasks that a request says were moved lately.
const MOVED_TASKS_MAX: usize = 20_000;
/// The maximum number of moves of a plan.
const PLANNED_MOVES_MAX: u32 = 1_000;
/// The maximum number of pending tasks that are named for which nothing helps.
const UNHELPED_SHOWN_MAX: usize = 20;

/// What is planned.
pub(crate) struct MovesQuestion {
    moved: BTreeMap<TaskId, Time>,
    settings: PackingSettings,
}

/// The mutation of a request.
pub(crate) fn task_move(asked: &v1::MoveTaskRequest) -> Result<MoveTask, Status> {
    use move_task_request::Why;

    let missing = |what: &str| Status::invalid_argument(format!("{what} is missing"));
    let why = match asked.why.ok_or_else(|| missing("what the task is moved for"))? {
        Why::Fits(task) => MoveReason::Fits { task: task.into() },
        Why::Empties(v1::Nothing {}) => MoveReason::Empties,
    };
    Ok(MoveTask {
        instance: asked.instance.ok_or_else(|| missing("the instance"))?.into(),
        to: MachineName::new(&asked.to)
            .map_err(|error| Status::invalid_argument(error.to_string()))?,
        why,
        sequencer: optional_sequencer(&asked.sequencer).map_err(|error| malformed(&error))?,
    })
}

/// The question of a request.
pub(crate) fn question(asked: v1::PlanMovesRequest) -> Result<MovesQuestion, Status> {
    let too_many = |what: &str, has: usize, most: usize| {
        Status::invalid_argument(format!("{has} {what}: at most {most} are allowed"))
    };
    if asked.moved.len() > MOVED_TASKS_MAX {
        return Err(too_many("tasks that were moved", asked.moved.len(), MOVED_TASKS_MAX));
    }
    if asked.moves > PLANNED_MOVES_MAX {
        return Err(too_many("moves", asked.moves as usize, PLANNED_MOVES_MAX as usize));
    }
    let bands = asked.bands.iter().map(|band| api::read::band(band, "bands"));
    let bands = bands.collect::<Result<BTreeSet<_>, _>>().map_err(|error| malformed(&error))?;
    let span = |asked: Option<api::Duration>, usual: Span| match asked {
        Some(asked) => api::span(&asked).map_err(|error| malformed(&error)),
        None => Ok(usual),
    };
    let usual = PackingSettings::default();
    let settings = PackingSettings {
        bands: (!bands.is_empty()).then_some(bands),
        settled: span(asked.settled, usual.settled)?,
        waited: span(asked.waited, usual.waited)?,
        moves: if asked.moves == 0 { usual.moves } else { asked.moves as usize },
        empties: asked.empties,
    };
    let moved = asked.moved.into_iter().map(|moved| {
        let (collection, index) = (CollectionId(moved.job), TaskIndex(moved.index));
        (TaskId { collection, index }, Time(moved.at))
    });
    Ok(MovesQuestion { moved: moved.collect(), settings })
}

impl Reads<'_> {
    /// The moves that are worth their cost now.
    pub(crate) fn plan_moves(
        &self,
        asked: &MovesQuestion,
    ) -> Result<v1::PlanMovesResponse, Status> {
        if !self.cell.may(self.me, Capability::MoveTasks) {
            return Err(Status::permission_denied(format!(
                "{} may not plan moves of tasks: administrators and users with the capability \
                 move-tasks may",
                self.me
            )));
        }
        let plan = repack::plan(self.cell, self.now, &asked.moved, &asked.settings);
        let unhelped = plan.unhelped.iter().take(UNHELPED_SHOWN_MAX);
        Ok(v1::PlanMovesResponse {
            index: self.cell.index().0,
            time: self.now.0,
            proposals: plan
                .proposals
                .iter()
                .map(|found| proposal(self.cell, self.now, found))
                .collect(),
            unhelped: unhelped.map(|task| task_name(self.cell, *task)).collect(),
            complete: plan.is_complete,
        })
    }
}

fn proposal(cell: &Cell, now: Time, proposal: &PackingProposal) -> plan_moves_response::Proposal {
    use plan_moves_response::proposal::Why;

    let name = |id: MachineId| machine_name(cell, id);
    let (gain, why) = match proposal.gain {
        PackingGain::Fits { task, on } => {
            (format!("{} fits on {}", task_name(cell, task), name(on)), Why::Fits(task.into()))
        }
        PackingGain::Empties(machine) => {
            (format!("{} becomes empty", name(machine)), Why::Empties(v1::Nothing {}))
        }
    };
    let step = |step: &PackingMove| {
        let since = cell.placement(step.instance).map_or(now, |placed| placed.since);
        plan_moves_response::Move {
            instance: Some(step.instance.into()),
            task: task_name(cell, step.instance),
            from: name(step.from),
            to: name(step.to),
            cost: step.cost,
            ran: Some(api::duration(now.since(since))),
        }
    };
    plan_moves_response::Proposal {
        gain,
        why: Some(why),
        worth: proposal.worth,
        cost: proposal.cost(),
        moves: proposal.moves.iter().map(step).collect(),
    }
}
