//! Continuing a cell after data loss: of the operations after a checkpoint, or of the majority of
//! its replicas.

use std::sync::Arc;

use model::{CollectionId, Member, ReplicaId, TaskIndex};

use super::Image;
use crate::state::Tokens;
use crate::{Cell, Job, Replica, Task, TaskState};

/// Number of ids of each kind that a restored cell skips: at least as many as the cell may have
/// assigned after the checkpoint.
const IDS_LEFT_OUT: u64 = 1_000_000_000;

/// Number of replica ids that are skipped; fewer, since replicas are few and people type their ids.
const REPLICA_IDS_LEFT_OUT: u64 = 1_000;

/// Number of incarnations of a pending task that are skipped: at least as many as may have begun.
const INCARNATIONS_LEFT_OUT: u32 = 1_000;

impl Cell {
    /// The cell as it continues from a checkpoint after later operations are lost. Machines and
    /// people still know ids that were assigned in the lost period, so those are never reused: up
    /// to a billion of each kind are skipped. The next incarnation of a pending task is later than
    /// any that a machine may have; otherwise two incarnations with the same name would be
    /// confused. No join token is kept: a token used in the lost period would be taken for an
    /// unused one.
    #[must_use]
    pub fn restored(&self) -> Self {
        let mut cell = self.clone();
        cell.last_collection.0 = cell.last_collection.0.saturating_add(IDS_LEFT_OUT);
        cell.last_machine.0 = cell.last_machine.0.saturating_add(IDS_LEFT_OUT);
        cell.last_session.0 = cell.last_session.0.saturating_add(IDS_LEFT_OUT);
        let last_grant = &mut cell.quota.last_grant.0;
        *last_grant = last_grant.saturating_add(IDS_LEFT_OUT);
        cell.tokens = Tokens::default();
        cell.leave_out_incarnations();
        for id in cell.replicas().map(|replica| replica.id).collect::<Vec<_>>() {
            if let Some(replica) = cell.replicas.records.get_mut(&id) {
                replica.token = None;
            }
        }
        cell
    }

    fn leave_out_incarnations(&mut self) {
        let waits = |(_, task): &(TaskIndex, &Task)| {
            matches!(task.state, TaskState::Queued { .. } | TaskState::Pending { .. })
        };
        let waiting = |job: &Arc<Job>| -> Vec<(CollectionId, TaskIndex)> {
            job.tasks().filter(waits).map(|(index, _)| (job.id, index)).collect()
        };
        for (id, index) in self.jobs.iter().flat_map(waiting).collect::<Vec<_>>() {
            if let Some(task) = self.jobs.get_mut(id).and_then(|job| job.task_mut(index)) {
                task.generation.0 = task.generation.0.saturating_add(INCARNATIONS_LEFT_OUT);
            }
        }
    }
}

impl Image {
    /// The image from which one replica continues alone, because the majority of the others is lost
    /// or the state was taken elsewhere: it is the only voter, and no other replica is recorded. It
    /// has the given address, or else the recorded one. Replica ids that were or may have been
    /// assigned are never reused. Everything else is unchanged; [`Cell::restored`] skips ids of
    /// other kinds.
    #[must_use]
    pub fn of_one_replica(mut self, id: ReplicaId, address: Option<Arc<str>>) -> Self {
        let last = self.replicas.iter().map(|replica| replica.id).fold(id, ReplicaId::max);
        let last = self.last_replica.max(last);
        self.last_replica = ReplicaId(last.0.saturating_add(REPLICA_IDS_LEFT_OUT));
        let known = self.replicas.into_iter().find(|replica| replica.id == id);
        // The replica has read this image, so its build has at least this level.
        let level = known.as_ref().map_or(self.level, |known| known.level.max(self.level));
        let address = address.or(known.map(|known| known.address)).unwrap_or_default();
        // It reports its directory again, which may be a different one by now.
        self.replicas = vec![Replica::new(id, address, level, Member::Voter)];
        self
    }
}
