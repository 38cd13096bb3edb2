//! For what the tasks of a job wait, why they are killed if that does not come, and until when they may run.

use api::v1;
use cell::{Cell, Job, KillReason, Phase, Placement, TaskState};
use model::{CollectionId, TaskId, TaskIndex};

use super::views::job_name;

/// The jobs for which a job waits, or its tasks do.
pub(crate) fn waits_for(cell: &Cell, job: &Job) -> Vec<String> {
    job.waits_or_follows().map(|id| job_name(cell, id)).collect()
}

/// How each of these has to end.
pub(crate) fn awaited(cell: &Cell, job: &Job) -> Vec<v1::Awaited> {
    let waits = job.after.iter().filter(|after| match after.each_task {
        true => job.follows.contains(&after.job),
        false => job.waits_for.contains(&after.job),
    });
    let shown = |after: &cell::RunsAfter| v1::Awaited {
        job: job_name(cell, after.job),
        when: after.when.name().to_owned(),
        each_task: after.each_task,
    };
    waits.map(shown).collect()
}

/// `waits for ana/extract/3`: the tasks of other jobs that hold a task back; empty if none does.
pub(crate) fn held_back(cell: &Cell, job: &Job, index: TaskIndex) -> String {
    let alive = |other: &&CollectionId| {
        let counterpart = cell.task(TaskId { collection: **other, index });
        counterpart.is_some_and(|task| !matches!(task.state, TaskState::Dead { .. }))
    };
    let tasks = job.follows.iter().filter(alive);
    let tasks: Vec<_> = tasks.map(|other| format!("{}/{index}", job_name(cell, *other))).collect();
    if tasks.is_empty() { String::new() } else { format!("waits for {}", tasks.join(", ")) }
}

/// Why something was killed, with the names of jobs instead of their ids.
pub(crate) fn kill_reason(cell: &Cell, why: &KillReason) -> String {
    match why {
        KillReason::User(user) | KillReason::Now(user) => format!("by {user}"),
        KillReason::ParentEnded(parent) => {
            format!("its parent {} ended", job_name(cell, *parent))
        }
        KillReason::AllocSetEnded(set) => {
            format!("the alloc set {} in which it ran ended", job_name(cell, *set))
        }
        KillReason::PredecessorEnded(job) => {
            format!("{}, which it was to run after, did not finish", job_name(cell, *job))
        }
        KillReason::PredecessorFinished(job) => {
            format!("{}, for whose failure it waited, has finished", job_name(cell, *job))
        }
        KillReason::CounterpartEnded(TaskId { collection, index }) => {
            let job = job_name(cell, *collection);
            format!("{job}/{index}, which it was to run after, did not finish")
        }
        KillReason::CounterpartFinished(TaskId { collection, index }) => {
            let job = job_name(cell, *collection);
            format!("{job}/{index}, for whose failure it waited, has finished")
        }
        KillReason::Removed => "its job needs it no more".to_owned(),
        KillReason::MachineLeft(_) | KillReason::GangFailed { .. } => why.to_string(),
    }
}

/// When a task is told to stop because it has run as long as its job allows; 0 if that is not known, or it is
/// being stopped already.
pub(crate) fn must_end(job: &Job, index: TaskIndex, placement: &Placement) -> u64 {
    let most = job.described(index).batch.max_runtime;
    match (placement.phase, most) {
        (Phase::Started { at, .. }, Some(most)) if placement.stop.is_none() => (at + most).0,
        _ => 0,
    }
}
