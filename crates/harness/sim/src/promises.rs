//! What was acknowledged to whoever asked, and has to be so from then on.

use std::collections::BTreeMap;

use cell::{Cell, Mutation, Reply, TaskState};
use model::{CollectionId, JobName, LogIndex, MachineName, TaskSelection, UserName};

/// The promises that acknowledgements are.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Whose job it is, and its name.
    jobs: BTreeMap<CollectionId, (LogIndex, UserName, JobName)>,
    kills: Vec<(LogIndex, CollectionId, TaskSelection)>,
    /// Whether a machine is drained.
    drained: BTreeMap<MachineName, bool>,
}

impl Promises {
    /// A request was done at an index.
    pub(crate) fn made(
        &mut self,
        index: LogIndex,
        by: &UserName,
        mutation: &Mutation,
        reply: &Reply,
    ) {
        match (mutation, reply) {
            (Mutation::Submit(spec), Reply::Submitted { collection, .. }) => {
                self.jobs.insert(*collection, (index, by.clone(), spec.name.clone()));
            }
            (Mutation::Kill(kill), Reply::Killed { collection, .. }) => {
                self.kills.push((index, *collection, kill.tasks.clone()));
            }
            (Mutation::DrainMachine { machine, .. }, _) => {
                self.drained.insert(machine.clone(), true);
            }
            (Mutation::UndrainMachine { machine }, _) => {
                self.drained.insert(machine.clone(), false);
            }
            (Mutation::RemoveMachine { machine }, _) => drop(self.drained.remove(machine)),
            _ => {}
        }
    }

    /// What came after an index is lost, and everybody knows that.
    pub(crate) fn lost_after(&mut self, last: LogIndex) {
        self.jobs.retain(|_, (index, _, _)| *index <= last);
        self.kills.retain(|(index, _, _)| *index <= last);
        self.drained.clear();
    }

    /// Whether all of them are kept, while nobody waits for an answer; jobs that have been dead for
    /// long are forgotten.
    ///
    /// # Errors
    /// Says which is not.
    pub(crate) fn kept(&self, cell: &Cell) -> Result<(), String> {
        for (id, (index, owner, name)) in &self.jobs {
            let job = cell.job(*id);
            if job.is_none_or(|job| job.owner != *owner || job.spec.name != *name) {
                return Err(format!("{owner}/{name} was there at {index} as job {id}: {job:?}"));
            }
        }
        for (index, id, tasks) in &self.kills {
            let Some(job) = cell.job(*id) else { continue };
            let lives = |state: &TaskState| match state {
                TaskState::Running(placed) => placed.killed().is_none(),
                TaskState::Queued { .. } | TaskState::Pending { .. } => true,
                TaskState::Dead { .. } => false,
            };
            let killed = job.tasks().filter(|(index, _)| tasks.contains(*index));
            if let Some((task, _)) = killed.into_iter().find(|(_, task)| lives(&task.state)) {
                return Err(format!("that task {task} of {id} is killed was said at {index}"));
            }
        }
        for machine in cell.machines() {
            let promised = self.drained.get(&machine.name);
            if promised.is_some_and(|drained| *drained != machine.drain.is_some()) {
                return Err(format!("that {} is drained or not was said otherwise", machine.name));
            }
        }
        Ok(())
    }
}
