//! What a history does with updates, drains and replacements.

use cell::{
    Cell, ControlUpdate, DrainMachine, Job, Mutation, Op, ResizeJob, SkipReason, TaskState,
    UpdateAction, UpdateFailure, UpdateStep,
};
use model::{Span, TaskIndex};

/// A change of an update by a user or by the leader, selected by a number.
pub(crate) fn of_update(job: &Job, which: u64) -> Change {
    let (owner, name) = (job.owner.clone(), job.spec.name.clone());
    let control = |action| {
        let control = ControlUpdate {
            owner: owner.clone(),
            job: name.clone(),
            action,
            to: None,
            expected: None,
        };
        Change::Request(control.into())
    };
    let version = job.last_version;
    let tasks = (0..job.spec.tasks.min(8)).map(TaskIndex);
    let steps = |steps| Change::Op(Op::StepUpdate { job: job.id, version, steps });
    match which % 12 {
        0 => control(UpdateAction::Pause),
        1 => control(UpdateAction::Resume),
        2 => control(UpdateAction::Undo),
        3 => control(UpdateAction::Close),
        4 => {
            let tasks = 1 + u32::try_from(which / 12 % 5).unwrap_or(0);
            Change::Request(ResizeJob { owner, job: name, tasks, expected: None }.into())
        }
        5 => steps(tasks.map(UpdateStep::Passed).collect()),
        6 => steps(vec![UpdateStep::Finish, UpdateStep::Close]),
        7 => steps(tasks.map(|index| UpdateStep::Skip(index, SkipReason::Disruptions)).collect()),
        8 => {
            let fail = |index| {
                let instance = job.instance(index)?;
                Some(UpdateStep::Fail(UpdateFailure { instance, end: None }))
            };
            steps(tasks.filter_map(fail).collect())
        }
        9 => Change::Op(Op::StartReplacement { job: job.id }),
        10 => Change::Op(Op::RemoveReplacements { job: job.id }),
        _ => {
            let running = |index: &TaskIndex| {
                matches!(job.task(*index).map(|task| &task.state), Some(TaskState::Running(_)))
            };
            steps(tasks.filter(running).map(UpdateStep::Change).collect())
        }
    }
}

/// What happens to a drained machine, selected by a number.
pub(crate) fn of_drain(cell: &Cell, machine: &cell::Machine, which: u64) -> Change {
    match which % 3 {
        0 => Change::Op(Op::ExpireDrain { machine: machine.id }),
        1 => Change::Op(Op::EvictDraining {
            machine: machine.id,
            instances: cell.to_leave(machine.id),
        }),
        _ => {
            let deadline = Some(cell.time() + Span::from_secs(10));
            let force = which.is_multiple_of(2);
            let drain =
                DrainMachine { deadline, force, ..DrainMachine::of(machine.name.clone(), "") };
            Change::Request(drain.into())
        }
    }
}

/// A user's request, or an operation of the leader.
pub(crate) enum Change {
    Request(Mutation),
    Op(Op),
}
