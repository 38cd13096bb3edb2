//! What running tasks have read of secrets and names fits their descriptions.

use super::{Violation, Violations};
use crate::Cell;
use crate::state::TaskState;

impl Cell {
    pub(super) fn check_inputs(&self, found: &mut Violations) {
        for job in self.jobs() {
            for (index, task) in job.tasks() {
                let TaskState::Running(placement) = &task.state else { continue };
                let Some(inputs) = placement.inputs.as_deref() else { continue };
                let spec = job.described(index);
                let fits = inputs.secrets.len() == spec.secrets().count()
                    && inputs.names.len() == spec.task(index).names().len();
                let counts = inputs.told.wrapping_sub(inputs.done) <= 1;
                if let Some(instance) = job.instance(index).filter(|_| !fits || !counts) {
                    found.add(Violation::Inputs { instance });
                }
            }
        }
    }
}
