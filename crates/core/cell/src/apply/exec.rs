//! Commands that users run inside tasks: who may, and the record of each.
//!
//! Running one changes nothing in the cell, so these mutations only add events.

use event::{EventKind, ExecEnd, Subject};
use model::{Capability, InstanceId, UserName};

use super::Events;
use super::capability::not_the_owner;
use crate::apply::mutation::Change;
use crate::apply::text_bounds;
use crate::{Cell, Job, JobPermission, Rejection, Reply};

/// Record that a user begins or has ended a command inside a task. Nothing runs before its beginning
/// is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordExec {
    /// The incarnation of the task.
    pub instance: InstanceId,
    /// The command in words, shortened.
    pub command: String,
    /// How it ended; `None` at its beginning.
    pub end: Option<ExecEnd>,
}

impl Change for RecordExec {
    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::command(&self.command)
    }

    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    /// Adds the event. The end is recorded even if the user has lost the right meanwhile.
    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let InstanceId { collection, index, .. } = self.instance;
        let job = cell.jobs.get(collection).ok_or(Rejection::NoSuchCollection(collection))?;
        let command = self.command.clone();
        let kind = match self.end {
            Some(end) => EventKind::ExecEnded { command, end },
            None => {
                cell.may_exec(by, job)?;
                if job.instance(index) != Some(self.instance) {
                    let (owner, name) = (job.owner.clone(), job.spec.name.clone());
                    return Err(Rejection::InstanceEnded { owner, name, index });
                }
                EventKind::ExecStarted { command }
            }
        };
        events.add(Subject::Task(self.instance), kind);
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Whether a user may run commands inside the tasks of a job: its owner, administrators, and users
    /// with the capability.
    ///
    /// # Errors
    /// With who may.
    pub fn may_exec(&self, by: &UserName, job: &Job) -> Result<(), Rejection> {
        if job.owner == *by || self.may(by, Capability::ExecTasks) {
            return Ok(());
        }
        let name = (&job.owner, &job.spec.name);
        Err(not_the_owner(by, name, JobPermission::Exec, Capability::ExecTasks))
    }
}
