//! For what the tasks of a job wait, and until when they may run.

use cell::{Cell, Job, Phase, Placement};
use model::TaskIndex;

use super::views::job_name;

/// The jobs that a job waits for.
pub(crate) fn waits_for(cell: &Cell, job: &Job) -> Vec<String> {
    job.waits_for.iter().map(|id| job_name(cell, *id)).collect()
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
