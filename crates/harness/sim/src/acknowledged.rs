//! What was acknowledged to clients and has to hold from then on.

use std::collections::{BTreeMap, BTreeSet};

use cell::{
    Cell, DrainMachine, Mutation, RemoveMachine, Reply, Submission, TaskState, UndrainMachine,
    UpdateState,
};
use model::{CollectionId, JobName, LogIndex, MachineName, TaskSelection, UserName};

/// The obligations from acknowledged requests.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// The owner and name of each job.
    jobs: BTreeMap<CollectionId, (LogIndex, UserName, JobName)>,
    kills: Vec<(LogIndex, CollectionId, TaskSelection)>,
    /// When each job was updated.
    updated: BTreeSet<(CollectionId, LogIndex)>,
    /// Whether a machine is drained.
    drained: BTreeMap<MachineName, bool>,
}

impl Promises {
    /// A request was applied at an index.
    pub(crate) fn made(
        &mut self,
        index: LogIndex,
        by: &UserName,
        mutation: &Mutation,
        reply: &Reply,
    ) {
        if let Reply::Submitted { collection, submission: Submission::Updated, .. }
        | Reply::Updated { collection, .. } = reply
        {
            // An update starts tasks again that were killed before.
            self.updated.insert((*collection, index));
        }
        match (mutation, reply) {
            (Mutation::Submit(spec), Reply::Submitted { collection, .. }) => {
                self.jobs.insert(*collection, (index, by.clone(), spec.name.clone()));
            }
            (Mutation::Kill(kill), Reply::Killed { collection, .. }) => {
                self.kills.push((index, *collection, kill.tasks.clone()));
            }
            (Mutation::DrainMachine(DrainMachine { machine, .. }), _) => {
                self.drained.insert(machine.clone(), true);
            }
            (Mutation::UndrainMachine(UndrainMachine { machine }), _) => {
                self.drained.insert(machine.clone(), false);
            }
            (Mutation::RemoveMachine(RemoveMachine { machine, .. }), _) => {
                self.drained.remove(machine);
            }
            _ => {}
        }
    }

    /// An update of a job is undone: that starts the tasks again that it had removed, also those that a user killed,
    /// and another update may take its place.
    pub(crate) fn undone(&mut self, job: CollectionId, index: LogIndex) {
        self.updated.insert((job, index));
    }

    /// Operations after an index are legitimately lost.
    pub(crate) fn lost_after(&mut self, last: LogIndex) {
        self.jobs.retain(|_, (index, _, _)| *index <= last);
        self.updated.retain(|(_, index)| *index <= last);
        self.kills.retain(|(index, _, _)| *index <= last);
        self.drained.clear();
    }

    /// Whether all of them hold, while no request is pending; jobs that have been dead for long are
    /// removed.
    ///
    /// # Errors
    /// With the first that does not hold.
    pub(crate) fn kept(&self, cell: &Cell) -> Result<(), String> {
        for (id, (index, owner, name)) in &self.jobs {
            let job = cell.job(*id);
            if job.is_none_or(|job| job.owner != *owner || job.spec.name != *name) {
                return Err(format!(
                    "{owner}/{name} was acknowledged at {index} as job {id}, now: {job:?}"
                ));
            }
        }
        for (index, id, tasks) in &self.kills {
            let Some(job) = cell.job(*id) else { continue };
            // The index of a task on every machine is given to another machine when its own leaves.
            if job.spec.is_on_every_machine() && matches!(tasks, TaskSelection::Some(_)) {
                continue;
            }
            // An undo starts the tasks again that the update had removed, also those that a user killed.
            let undone = job.update.as_ref().is_some_and(|update| {
                matches!(update.state, UpdateState::Undoing { .. } | UpdateState::Undone { .. })
            });
            let later = (*id, LogIndex(index.0.saturating_add(1)))..=(*id, LogIndex(u64::MAX));
            if undone || self.updated.range(later).next().is_some() {
                continue;
            }
            let lives = |state: &TaskState| match state {
                TaskState::Running(placed) => placed.killed().is_none(),
                TaskState::Queued { .. } | TaskState::Pending { .. } => true,
                TaskState::Dead { .. } => false,
            };
            // Beyond its description there are only replacements, which are started again.
            let all = job.tasks().take(job.spec.tasks as usize);
            let killed = all.filter(|(index, _)| tasks.contains(*index));
            if let Some((task, _)) = killed.into_iter().find(|(_, task)| lives(&task.state)) {
                return Err(format!(
                    "the kill of task {task} of {id} was acknowledged at {index}, but it is alive"
                ));
            }
        }
        for machine in cell.machines() {
            let promised = self.drained.get(&machine.name);
            if promised.is_some_and(|drained| *drained != machine.drain.is_some()) {
                return Err(format!(
                    "the acknowledged drain state of {} is different",
                    machine.name
                ));
            }
        }
        Ok(())
    }
}
