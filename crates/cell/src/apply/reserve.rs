//! What tasks are estimated to need (paper, section 5.5). The estimate is the caller's; here it only
//! counts.

use std::sync::Arc;

use crate::state::levels::RESERVATIONS;
use crate::{Cell, Reservation, TaskState};

impl Cell {
    /// Takes over the reservations of those that live. It changes what they count for on their
    /// machines and nothing that they do: there are no events, and no machine is told.
    pub(super) fn reserve(&mut self, reservations: &[Reservation]) {
        if self.level < RESERVATIONS {
            return;
        }
        for reservation in reservations {
            self.reserve_one(reservation);
        }
    }

    fn reserve_one(&mut self, Reservation { instance, amount }: &Reservation) {
        let Some(job) = self.jobs.get(instance.collection) else { return };
        let (limit, before) = (job.limit(instance.index), job.held(instance.index));
        let Some(task) = job.task(instance.index) else { return };
        // The limit itself is not kept: it may change.
        let amount = amount.least(limit);
        let reserved = (amount != limit).then_some(amount);
        let lives =
            task.generation == instance.generation && !matches!(task.state, TaskState::Dead { .. });
        if !lives || task.reserved.as_deref() == reserved.as_ref() {
            return;
        }
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let Some(task) = job.task_mut(instance.index) else { return };
        task.reserved = reserved.map(Arc::new);
        let placed = match &task.state {
            TaskState::Running(placement) => Some(placement.machine),
            _ => None,
        };
        let now = job.held(instance.index);
        if let Some(machine) = placed.and_then(|id| self.machines.get_mut(id)) {
            machine.resize(&before, &now);
        }
    }
}
