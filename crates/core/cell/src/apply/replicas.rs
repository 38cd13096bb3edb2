//! Replicas are added, join consensus, report about themselves, and leave. The membership of
//! consensus changes by one replica at a time, at the index of the operation that records it.

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{DirectoryId, Level, Member, MemberChange, ReplicaId, UserName};

use super::{Events, cut, ids_used_up, text_bounds};
use crate::apply::mutation::Change;
use crate::bounds::REPLICAS_MAX;
use crate::state::FIRST;
use crate::{Cell, Countable, Permission, Rejection, Replica, ReplicaPermission, Reply};

/// Add a replica of the Borgmaster. It waits until consensus adds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddReplica {
    /// The address it will serve at, as `host:port`.
    pub address: String,
}

impl Change for AddReplica {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::AddReplica { address: cut(&self.address) })
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::replica_address(&self.address)
    }

    fn address(&self) -> Option<&str> {
        Some(&self.address)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let address = self.address.as_str();
        text_bounds::replica_address(address)?;
        let there = |replica: &&Replica| *replica.address == *address && !replica.leaving;
        if let Some(other) = cell.replicas().find(there) {
            return Err(Rejection::ReplicaAddressTaken(other.id));
        }
        // The first one counts, whether it has described itself or not.
        let (has, most) = (cell.replicas().count().max(1), REPLICAS_MAX);
        if has >= most {
            let (has, most) = (has as u64, most as u64);
            return Err(Rejection::Full { what: Countable::Replicas, has, most });
        }
        let last = cell.replicas.last.0;
        let id =
            ReplicaId(last.checked_add(1).ok_or_else(|| ids_used_up(Countable::ReplicaIds, last))?);
        // From now on the voters are recorded. The first replica supports at least the cell's
        // level.
        cell.record_first("", cell.level, DirectoryId::default(), events);
        cell.replicas.last = id;
        let replica = Replica::new(id, address, Level(0), Member::Waiting);
        let address = Arc::clone(&replica.address);
        cell.replicas.records.insert(id, replica);
        events.add(Subject::Cell, EventKind::ReplicaAdded { replica: id, address });
        Ok(Reply::ReplicaAdded(id))
    }
}

/// Remove a replica: at once while it waits, else as soon as consensus has removed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveReplica {
    /// The replica.
    pub replica: ReplicaId,
}

impl Change for RemoveReplica {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        let (replica, what) = (self.replica, ReplicaPermission::Remove);
        cell.only_administrators(by, || Permission::OfReplica { replica, what })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let id = self.replica;
        let Some(replica) = cell.replicas.records.get(&id) else {
            let only = cell.replicas.records.is_empty() && id == FIRST;
            let why = if only { Rejection::LastVoter } else { Rejection::NoSuchReplica };
            return Err(why(id));
        };
        if replica.leaving {
            return Ok(Reply::Done);
        }
        if !cell.replicas.vote_without(id) {
            return Err(Rejection::LastVoter(id));
        }
        if replica.member == Member::Waiting {
            cell.replicas.records.remove(&id);
        } else if let Some(replica) = cell.replicas.records.get_mut(&id) {
            replica.leaving = true;
        }
        events.add(Subject::Cell, EventKind::ReplicaRemoved { replica: id });
        Ok(Reply::Done)
    }
}

impl Cell {
    /// A change that is not the replica's next step does nothing.
    pub(super) fn change_member(&mut self, id: ReplicaId, to: MemberChange, events: &mut Events) {
        let Some(replica) = self.replicas.records.get_mut(&id) else { return };
        match (replica.member, replica.leaving, to) {
            (Member::Waiting, false, MemberChange::Learner) => replica.member = Member::Learner,
            (Member::Learner, false, MemberChange::Voter) => replica.member = Member::Voter,
            (_, true, MemberChange::Out) => drop(self.replicas.records.remove(&id)),
            _ => return,
        }
        events.add(Subject::Cell, EventKind::ReplicaMember { replica: id, to });
    }

    /// An empty or invalid address leaves the recorded one, and so does an unknown directory. A
    /// report from another directory than the recorded one is not from this replica.
    pub(super) fn describe_replica(
        &mut self,
        id: ReplicaId,
        address: &str,
        level: Level,
        directory: DirectoryId,
        events: &mut Events,
    ) {
        let address = if text_bounds::replica_address(address).is_ok() { address } else { "" };
        if id == FIRST && self.record_first(address, level, directory, events) {
            return;
        }
        let Some(replica) = self.replicas.records.get_mut(&id) else { return };
        if replica.directory.differs(directory) {
            return;
        }
        let moved = !address.is_empty() && *replica.address != *address;
        let first_said = directory.is_known() && !replica.directory.is_known();
        if !moved && replica.level == level && !first_said {
            return;
        }
        replica.level = level;
        if first_said {
            replica.directory = directory;
        }
        if moved {
            replica.address = address.into();
        }
        let address = Arc::clone(&replica.address);
        events.add(Subject::Cell, EventKind::ReplicaDescribed { replica: id, address, level });
    }

    /// Records the first replica as a voter if nothing is recorded yet; returns whether it did.
    fn record_first(
        &mut self,
        address: &str,
        level: Level,
        directory: DirectoryId,
        events: &mut Events,
    ) -> bool {
        if !self.replicas.records.is_empty() {
            return false;
        }
        let id = FIRST;
        let first = Replica { directory, ..Replica::new(id, address, level, Member::Voter) };
        let address = Arc::clone(&first.address);
        self.replicas.records.insert(id, first);
        events.add(Subject::Cell, EventKind::ReplicaDescribed { replica: id, address, level });
        true
    }
}
