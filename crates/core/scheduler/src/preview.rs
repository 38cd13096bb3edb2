//! Where a job's pending tasks would be placed now, before anything is decided: for plans.

use cell::{Cell, Job, TaskState};
use model::{TaskIndex, Time};
use placement::Engine;

use crate::Plan;
use crate::pass::PassResult;
use crate::queue::Queue;

/// What a pass would do for the pending tasks of one job, as if no other task were pending. Tasks that
/// wait for their retry are placed as well.
#[must_use]
pub fn preview(cell: &Cell, job: &Job, now: Time) -> Plan {
    preview_of(cell, (0..job.rows()).map(|index| (job, TaskIndex(index))), now)
}

/// The same for the pending ones among these tasks, which may be of several jobs.
#[must_use]
pub fn preview_of<'a>(
    cell: &Cell,
    tasks: impl IntoIterator<Item = (&'a Job, TaskIndex)>,
    now: Time,
) -> Plan {
    let mut latest = now;
    let pending = tasks.into_iter().filter(|(job, index)| {
        let state = job.task(*index).map(|task| &task.state);
        if let Some(TaskState::Pending { not_before, .. }) = state {
            latest = latest.max(*not_before);
            return true;
        }
        false
    });
    let pending: Vec<_> = pending.collect();
    if pending.is_empty() {
        // Building the view of all machines is most of the work.
        return Plan { made_at: cell.index(), assignments: Vec::new(), next: None, unplaced: 0 };
    }
    let mut engine = Engine::bare(cell, placement::Settings::default());
    let mut queue = Queue::default();
    for (job, index) in &pending {
        queue.enter(cell, job, *index, latest, &mut engine);
    }
    let PassResult { assignments, .. } = queue.pass(&mut engine, cell, latest, usize::MAX);
    let unplaced = pending.len() - assignments.len();
    Plan { made_at: cell.index(), assignments, next: None, unplaced }
}
