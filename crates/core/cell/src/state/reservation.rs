//! What is reserved for a task: the estimate of what it needs (paper, section 5.5).

use model::{Resources, TaskIndex, Time};
use spec::JobSpec;

use super::Job;

/// A recorded reservation, and what another replica needs to continue the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The estimate of what the task needs.
    pub amount: Resources,
    /// The time of the newest sample of usage in it, by the machine's clock; none if it has none.
    pub newest_sample: Option<Time>,
}

impl Job {
    /// Whether the needs of its tasks are estimated, unless a task's description says otherwise. An
    /// alloc reserves its limit whether used or not, and what runs in it is not counted again.
    #[must_use]
    pub fn is_estimated(&self) -> bool {
        self.alloc_set.is_none() && !self.spec.kind.is_alloc_set()
    }

    /// The reservation of a task's current incarnation: at most its limit.
    #[must_use]
    pub fn reservation(&self, index: TaskIndex) -> Resources {
        self.reservation_as(self.described(index), index)
    }

    pub(super) fn reservation_as(&self, spec: &JobSpec, index: TaskIndex) -> Resources {
        let limit = spec.limit(index);
        let reserved = self.task(index).and_then(|task| task.reserved.as_deref());
        let reserved = reserved.filter(|_| spec.estimation);
        reserved.map_or(limit, |reserved| reserved.amount.least(limit))
    }
}
