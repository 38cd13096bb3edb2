//! How much of a gang would fit now, and what the next of its tasks lacks.

use std::cmp::Reverse;

use cell::feasibility::Request;
use cell::{Cell, Job, TaskState};
use model::Time;

use super::{ByKind, Reason, reason};
use crate::Settings;
use crate::engine::Engine;
use crate::room::OpenPlace;

/// A gang that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingGang {
    /// How many of its tasks are pending.
    pub tasks: u32,
    /// How many of its tasks are still on machines, where they are being stopped.
    pub stopping: u32,
    /// How many of its pending tasks fit now together, with evictions.
    pub fit: u32,
    /// Why the next one does not fit beside them, most frequent first; empty if all fit.
    pub reasons: Vec<Reason>,
}

/// How much of a job's gang would fit now; `None` if it is no gang, or none of it is pending.
#[must_use]
pub fn gang(cell: &Cell, job: &Job, now: Time) -> Option<WaitingGang> {
    if !job.is_gang() || job.pending() == 0 {
        return None;
    }
    let mut waiting =
        WaitingGang { tasks: job.pending(), stopping: job.running(), fit: 0, reasons: Vec::new() };
    let mut engine = Engine::new(cell, Settings::default());
    engine.begin_pass(cell, now);
    for (index, task) in job.tasks() {
        let TaskState::Pending { .. } = task.state else { continue };
        let Some(instance) = job.instance(index) else { continue };
        let class = engine.join(cell, job, index);
        if engine.place(cell, class, instance, now).is_some() {
            waiting.fit = waiting.fit.saturating_add(1);
            continue;
        }
        let (ask, mut found) = (Request::of(cell, job, index), ByKind::default());
        for machine in cell.machines() {
            if let Some(offer) = engine.offer_beside_plan(class, machine) {
                found.add(&ask, &OpenPlace { offer, kept: Vec::new() });
            }
        }
        let reasons = found.kinds.into_iter().map(|(kind, alike)| reason(cell, &kind, alike));
        waiting.reasons = reasons.collect();
        waiting.reasons.sort_by_key(|reason| Reverse(reason.machines));
        break;
    }
    Some(waiting)
}
