//! What a cell goes on from after something of it was lost: operations that came after a checkpoint,
//! or the majority of its replicas.

use std::sync::Arc;

use model::{CollectionId, ReplicaId, TaskIndex};

use super::Image;
use crate::state::Tokens;
use crate::{Cell, Job, Member, Replica, Task, TaskState};

/// How many ids of each kind a restored cell leaves out: as many as the cell may have given after
/// the checkpoint that it was restored from.
const IDS_LEFT_OUT: u64 = 1_000_000_000;

/// How many of replicas, which are few, and whose ids people type.
const REPLICA_IDS_LEFT_OUT: u64 = 1_000;

/// How many lives of a task that waits: as many as may have begun, one after the other.
const LIVES_LEFT_OUT: u32 = 1_000;

impl Cell {
    /// The cell as it goes on from a checkpoint after what came later is lost. Machines and people
    /// still know of ids that were given in the lost time: those are never given to others, up to a
    /// billion of each kind. The next life of a task that waits is a later one than those that a machine
    /// may have: two with one name would be taken for each other. No join token is left: one that was used
    /// in the lost time would be taken for new.
    #[must_use]
    pub fn restored(&self) -> Self {
        let mut cell = self.clone();
        cell.last_collection.0 = cell.last_collection.0.saturating_add(IDS_LEFT_OUT);
        cell.last_machine.0 = cell.last_machine.0.saturating_add(IDS_LEFT_OUT);
        cell.last_session.0 = cell.last_session.0.saturating_add(IDS_LEFT_OUT);
        let last_grant = &mut cell.quota.last_grant.0;
        *last_grant = last_grant.saturating_add(IDS_LEFT_OUT);
        cell.tokens = Tokens::default();
        cell.leave_out_lives();
        for id in cell.replicas().map(|replica| replica.id).collect::<Vec<_>>() {
            if let Some(replica) = cell.replicas.records.get_mut(&id) {
                replica.token = None;
            }
        }
        cell
    }

    fn leave_out_lives(&mut self) {
        let waits = |(_, task): &(TaskIndex, &Task)| {
            matches!(task.state, TaskState::Queued { .. } | TaskState::Pending { .. })
        };
        let waiting = |job: &Arc<Job>| -> Vec<(CollectionId, TaskIndex)> {
            job.tasks().filter(waits).map(|(index, _)| (job.id, index)).collect()
        };
        for (id, index) in self.jobs.iter().flat_map(waiting).collect::<Vec<_>>() {
            if let Some(task) = self.jobs.get_mut(id).and_then(|job| job.task_mut(index)) {
                task.generation.0 = task.generation.0.saturating_add(LIVES_LEFT_OUT);
            }
        }
    }
}

impl Image {
    /// The image of which one replica goes on alone, because the majority of the others is lost or
    /// the state was taken elsewhere: it is the only voter, and no other is recorded. It has the
    /// address that is given, else the one that is known of it. Ids that were given to replicas, or
    /// may have been in a lost time, are never given again. Everything else is as it was: ids of
    /// other kinds are [`Cell::restored`]'s to leave out.
    #[must_use]
    pub fn of_one_replica(mut self, id: ReplicaId, address: Option<Arc<str>>) -> Self {
        let last = self.replicas.iter().map(|replica| replica.id).fold(id, ReplicaId::max);
        let last = self.last_replica.max(last);
        self.last_replica = ReplicaId(last.0.saturating_add(REPLICA_IDS_LEFT_OUT));
        let known = self.replicas.into_iter().find(|replica| replica.id == id);
        // Whoever goes on has read this image, and so has its level at least.
        let level = known.as_ref().map_or(self.level, |known| known.level.max(self.level));
        let address = address.or(known.map(|known| known.address)).unwrap_or_default();
        // Its directory says anew which one it is: it may be another one by now.
        self.replicas = vec![Replica::new(id, address, level, Member::Voter)];
        self
    }
}
