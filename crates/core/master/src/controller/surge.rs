//! Whether an update starts a further task before it stops one of the job's own, so that a service has
//! as many healthy tasks during its update as before it.

use cell::{Cell, Job, Task, TaskState, Update, UpdateState};
use model::{Appclass, Span, TaskIndex, Time};

/// How long the further task may be pending: after that the update goes on without it.
const PENDING_MAX: Span = Span::from_secs(10);

/// How far the further task of an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surge {
    /// There is to be none: tasks are stopped first, as the disruption budget allows.
    No,
    /// It has to be started.
    Start,
    /// It was not healthy for long enough yet. If it is pending, the update waits for it until then.
    Awaited(Option<Time>),
    /// It is healthy: one more of the others may be down.
    Up,
}

/// Whether a job's updates start a further task first, if there is room: a service whose description
/// does not say how many of its tasks may be down.
pub(super) fn is_usual(job: &Job) -> bool {
    job.spec.appclass == Appclass::LatencySensitive
        && job.spec.disruptions.at_once.is_none()
        && !job.spec.kind.is_alloc_set()
        && job.alloc_set.is_none()
}

/// How far the further task of an open update is. It follows from the cell, so a new leader goes on.
pub(super) fn of(cell: &Cell, job: &Job, update: &Update, now: Time) -> Surge {
    let goes_on = matches!(update.state, UpdateState::Rolling | UpdateState::Paused { .. });
    if !goes_on || !is_usual(job) || was_given_up(job, update) {
        return Surge::No;
    }
    let passed = |(index, task): (TaskIndex, &Task)| {
        task.up_since().is_some() && !update.changing.contains_key(&index)
    };
    if job.extra_tasks().any(passed) {
        return Surge::Up;
    }
    let Some((_, task)) = job.extra_tasks().next() else {
        return match cell.may_start_replacement(job.id) && cell.one_more_is_within_quota(job) {
            true => Surge::Start,
            false => Surge::No,
        };
    };
    match task.state {
        // That of an earlier update is on its way.
        _ if is_being_stopped(task) => Surge::Awaited(None),
        // An earlier update has left it behind.
        _ if task.version != update.to => Surge::No,
        TaskState::Pending { since, not_before, .. } => match since.max(not_before) + PENDING_MAX {
            over if over <= now => Surge::No,
            later => Surge::Awaited(Some(later)),
        },
        _ => Surge::Awaited(None),
    }
}

/// Until when the update of a job waits for its further task, if that is pending.
pub(super) fn waits_until(cell: &Cell, job: &Job, now: Time) -> Option<Time> {
    match of(cell, job, job.open_update()?, now) {
        Surge::Awaited(until) => until,
        Surge::No | Surge::Start | Surge::Up => None,
    }
}

/// Whether a further task of the new version was removed: there was no room for it.
fn was_given_up(job: &Job, update: &Update) -> bool {
    let further = (job.spec.tasks..job.rows()).filter_map(|index| job.task(TaskIndex(index)));
    further
        .filter(|task| task.version == update.to)
        .any(|task| matches!(task.state, TaskState::Dead { .. }) || is_being_stopped(task))
}

fn is_being_stopped(task: &Task) -> bool {
    matches!(&task.state, TaskState::Running(placement) if placement.killed().is_some())
}
