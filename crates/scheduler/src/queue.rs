//! The order in which pending tasks are considered (paper, section 3.2): from high to low
//! priority, round-robin over users within one priority, so that no large job holds up the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cell::{Cell, Job, TaskState};
use model::{InstanceId, Priority, Time, UserName};

/// A task that can be placed now.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) job: Arc<Job>,
    pub(crate) instance: InstanceId,
}

/// The tasks that can be placed at a moment, in the order in which they are considered, and the
/// moment at which the next of the others can.
pub(crate) fn queue(cell: &Cell, now: Time) -> (Vec<Waiting>, Option<Time>) {
    let mut by_priority: BTreeMap<Reverse<Priority>, BTreeMap<&UserName, VecDeque<Waiting>>> =
        BTreeMap::new();
    let mut next = None::<Time>;
    for job in cell.jobs_with_pending_tasks() {
        for (index, task) in job.tasks() {
            let TaskState::Pending { not_before, .. } = task.state else { continue };
            if not_before > now {
                next = Some(next.map_or(not_before, |next| next.min(not_before)));
                continue;
            }
            let Some(instance) = job.instance(index) else { continue };
            let users = by_priority.entry(Reverse(job.spec.priority)).or_default();
            let waiting = Waiting { job: Arc::clone(job), instance };
            users.entry(&job.owner).or_default().push_back(waiting);
        }
    }
    (by_priority.into_values().flat_map(round_robin).collect(), next)
}

fn round_robin(mut users: BTreeMap<&UserName, VecDeque<Waiting>>) -> Vec<Waiting> {
    let mut order = Vec::with_capacity(users.values().map(VecDeque::len).sum());
    while !users.is_empty() {
        users.retain(|_, waiting| {
            order.extend(waiting.pop_front());
            !waiting.is_empty()
        });
    }
    order
}
