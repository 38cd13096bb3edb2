//! Changing the number of tasks of a job.

use std::sync::Arc;

use model::{JobName, TaskIndex, TaskSelection, UserName, Version};
use spec::{JobSpec, limits};

use super::update::{ADMINISTER, Opening, OpeningKind};
use super::{Events, text_bounds};
use crate::apply::mutation::Change;
use crate::{Cell, JobPermission, OutOfBounds, Rejection, Reply};

/// Change the number of tasks of a live job. With none it lives on, until it is resized again or killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeJob {
    /// The owner of the job.
    pub owner: UserName,
    /// Its name.
    pub job: JobName,
    /// The new number of tasks.
    pub tasks: u32,
    /// See [`UpdateJob::expected`].
    pub expected: Option<Version>,
}

impl Change for ResizeJob {
    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        if self.tasks > limits::TASKS_MAX {
            return Err(Rejection::OutOfBounds(OutOfBounds::Tasks(self.tasks)));
        }
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let Self { owner, job, tasks, expected } = self;
        let what = || JobPermission::Resize.of(owner, job);
        let id = cell.changeable(by, (owner, job), what, ADMINISTER, *expected)?;
        let Some(job) = cell.jobs.get(id) else { return Err(Rejection::NoSuchCollection(id)) };
        if job.spec.is_on_every_machine() {
            let (owner, name) = (owner.clone(), job.spec.name.clone());
            return Err(Rejection::OnEveryMachine { owner, name });
        }
        if *tasks == 0 && job.spec.kind.is_alloc_set() {
            let (owner, name) = (owner.clone(), job.spec.name.clone());
            return Err(Rejection::NoTasks { owner, name });
        }
        let mut spec = JobSpec::clone(&job.spec);
        spec.tasks = *tasks;
        // Overrides of tasks that are removed go with them.
        spec.overrides.retain(|index, _| index.0 < *tasks);
        // Tasks that an update leaves as they are stay so.
        let size = job.spec.tasks;
        let goes_on = |index: &TaskIndex| index.0 >= size || job.has_or_gets_current(*index);
        let all = (0..size.max(*tasks)).map(TaskIndex).filter(goes_on);
        let selected = TaskSelection::Some(all.map(|index| (index, index)).collect()).normalised();
        text_bounds::resized_description(&spec)?;
        let (spec, kind) = (Arc::new(spec), OpeningKind::Size);
        let opening = Opening { tasks: &selected, kind, ..Opening::to(&spec) };
        Ok(cell.open_update(by, id, &opening, events)?.reply(id))
    }
}
