//! Submitting, killing and forgetting jobs.

use std::sync::Arc;

use model::{CollectionId, TaskIndex, TaskSelection, UserName};
use spec::JobSpec;

use super::{Events, ids_used_up};
use crate::state::bounds::TASKS_MAX;
use crate::{
    Cell, Death, EventKind, Job, JobState, PendingCause, Rejection, Reply, Subject, TaskState,
};

impl Cell {
    pub(super) fn submit(
        &mut self,
        by: &UserName,
        spec: &Arc<JobSpec>,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        if let Some(problem) = spec.problems().first() {
            return Err(Rejection::Invalid(problem.to_string()));
        }
        if let Some(job) = self.job_named(by, &spec.name)
            && job.is_alive()
        {
            return match job.spec == *spec {
                true => Ok(Reply::Submitted { collection: job.id, unchanged: true }),
                false => {
                    Err(Rejection::DiffersFromLiving { owner: by.clone(), name: spec.name.clone() })
                }
            };
        }
        let tasks = self.tasks.saturating_add(spec.tasks.into());
        if tasks > TASKS_MAX {
            return Err(Rejection::Full { what: "tasks", has: self.tasks, most: TASKS_MAX });
        }
        let last = self.last_collection.0;
        let id = CollectionId(last.checked_add(1).ok_or(ids_used_up("job ids", last))?);
        self.last_collection = id;
        self.tasks = tasks;
        let job = Job::new(id, by.clone(), Arc::clone(spec), self.time);
        let submitted = EventKind::Submit { cause: PendingCause::Submitted };
        events.add(Subject::Job(id), submitted.clone());
        for (index, _) in job.tasks() {
            if let Some(instance) = job.instance(index) {
                events.add(Subject::Task(instance), submitted.clone());
            }
        }
        self.jobs.insert(id, Arc::new(job));
        self.job_names.insert((by.clone(), spec.name.clone(), id));
        self.pending.insert(id);
        Ok(Reply::Submitted { collection: id, unchanged: false })
    }

    pub(super) fn kill(
        &mut self,
        by: &UserName,
        id: CollectionId,
        selection: &TaskSelection,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let job = Arc::clone(self.jobs.get(id).ok_or(Rejection::NoSuchJob(id))?);
        if *by != job.owner && !self.is_administrator(by) {
            return Err(Rejection::NotAllowed {
                by: by.clone(),
                what: format!("kill {}/{}", job.owner, job.spec.name),
                who: format!("{} or an administrator", job.owner),
            });
        }
        let last = job.spec.tasks.saturating_sub(1);
        if let TaskSelection::Some(ranges) = selection
            && ranges.iter().any(|(_, to)| to.0 > last)
        {
            return Err(Rejection::NoSuchTask { last });
        }
        let mut killed = 0;
        let chosen: Vec<TaskIndex> = job
            .tasks()
            .map(|(index, _)| index)
            .filter(|index| selection.contains(*index))
            .collect();
        drop(job);
        for index in chosen {
            killed += u32::from(self.kill_task(by, id, index, events));
        }
        Ok(Reply::Killed { tasks: killed })
    }

    /// Whether the task was alive and nobody had asked for its end before.
    fn kill_task(
        &mut self,
        by: &UserName,
        id: CollectionId,
        index: TaskIndex,
        events: &mut Events,
    ) -> bool {
        let Some(job) = self.jobs.get_mut(id) else { return false };
        let Some(instance) = job.instance(index) else { return false };
        let Some(task) = job.tasks.get_mut(index.0 as usize) else { return false };
        match &mut task.state {
            TaskState::Dead { .. } => false,
            TaskState::Running(placement) if placement.killed_by.is_some() => false,
            TaskState::Running(placement) => {
                placement.killed_by = Some(by.clone());
                events.reorder(placement.machine);
                let asked = EventKind::KillRequested { by: by.clone() };
                events.add(Subject::Task(instance), asked);
                true
            }
            TaskState::Pending { .. } => {
                let asked = EventKind::KillRequested { by: by.clone() };
                events.add(Subject::Task(instance), asked);
                self.die(instance, Death::Killed, events);
                true
            }
        }
    }

    /// Removes a dead job. A living one is kept.
    pub(super) fn forget(&mut self, id: CollectionId) {
        let Some(job) = self.jobs.get(id) else { return };
        if !matches!(job.state, JobState::Dead { .. }) {
            return;
        }
        self.job_names.remove(&(job.owner.clone(), job.spec.name.clone(), id));
        self.tasks = self.tasks.saturating_sub(job.spec.tasks.into());
        self.jobs.remove(id);
    }
}
