//! A gang that waits, as `bourg why` shows it.

use api::v1;
use cell::{Cell, Job};
use model::Time;
use placement::why::{Reason, gang};

/// How much of a job's gang would fit now; `None` if it is no gang, or none of it is pending.
pub(crate) fn waiting_gang(cell: &Cell, job: &Job, now: Time) -> Option<v1::WaitingGang> {
    let found = gang(cell, job, now)?;
    let reason = |reason: &Reason| v1::UnschedulableReason {
        machines: u32::try_from(reason.machines).unwrap_or(u32::MAX),
        reason: reason.text.clone(),
        nearest_machine: reason.nearest.as_ref().map(ToString::to_string).unwrap_or_default(),
        nearest: reason.nearest_text.clone(),
    };
    Some(v1::WaitingGang {
        tasks: found.tasks,
        stopping: found.stopping,
        fit: found.fit,
        reasons: found.reasons.iter().map(reason).collect(),
    })
}
