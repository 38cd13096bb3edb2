//! The replicas of the Borgmaster: the membership is state of the cell (paper, section 3.1; design,
//! sections 3 and 4). Consensus itself is not here.

use std::sync::Arc;

use imbl::OrdMap;
use model::{Certificate, DirectoryId, KeyDigest, Level, Member, ReplicaId};

use crate::Cell;

/// The replica that a cell is bootstrapped with; the only voter while no replica is recorded.
pub(crate) const FIRST: ReplicaId = ReplicaId(1);

/// The record of a Borgmaster replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its id, never reused.
    pub id: ReplicaId,
    /// Its address, as `host:port`; empty if unknown. Set when it is added, and reported by the
    /// replica when it starts.
    pub address: Arc<str>,
    /// The level of the state machine that its build implements, as last reported; 0 before that.
    pub level: Level,
    /// Its role in consensus.
    pub member: Member,
    /// Whether it is being removed, until consensus has removed it.
    pub leaving: bool,
    /// The token with which its process joins; `None` if none was issued.
    pub token: Option<ReplicaToken>,
    /// Its data directory, which identifies the replica. Unknown until reported.
    pub directory: DirectoryId,
}

impl Replica {
    /// A replica that is not leaving, without a token and with an unknown directory.
    #[must_use]
    pub fn new(id: ReplicaId, address: impl Into<Arc<str>>, level: Level, member: Member) -> Self {
        let (leaving, token, directory) = (false, None, DirectoryId::default());
        Self { id, address: address.into(), level, member, leaving, token, directory }
    }
}

/// A replica's join token: until it expires, its holder can get the cell's authority with it, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaToken {
    /// Its certificate.
    pub certificate: Certificate,
    /// The key that used it first; no other key is accepted.
    pub used: Option<KeyDigest>,
}

/// The replicas of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    /// The last id assigned.
    pub(crate) last: ReplicaId,
    pub(crate) records: OrdMap<ReplicaId, Replica>,
}

/// The replicas of a cell in which none is recorded.
impl Default for Replicas {
    fn default() -> Self {
        Self { last: FIRST, records: OrdMap::new() }
    }
}

impl Replicas {
    fn members(&self, member: Member) -> impl Iterator<Item = ReplicaId> {
        let members = self.records.values().filter(move |replica| replica.member == member);
        members.map(|replica| replica.id)
    }

    /// Whether a voter that is not leaving would remain without a replica.
    pub(crate) fn vote_without(&self, left_out: ReplicaId) -> bool {
        let stays = |replica: &Replica| replica.member == Member::Voter && !replica.leaving;
        self.records.values().any(|replica| replica.id != left_out && stays(replica))
    }
}

impl Cell {
    /// The recorded addresses of the replicas that are in consensus and stay; empty where it is unknown.
    pub fn member_addresses(&self) -> impl Iterator<Item = &str> {
        let stay = |replica: &&Replica| replica.member != Member::Waiting && !replica.leaving;
        self.replicas().filter(stay).map(|replica| &*replica.address)
    }

    /// Every recorded replica, by id. Empty in a cell of one replica that has not described itself
    /// yet.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.records.values()
    }

    /// A recorded replica by its id.
    #[must_use]
    pub fn replica(&self, id: ReplicaId) -> Option<&Replica> {
        self.replicas.records.get(&id)
    }

    /// The voters, including those that are leaving, by id. If no replica is recorded, replica 1 is
    /// the only voter.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> {
        let first = self.replicas.records.is_empty().then_some(FIRST);
        first.into_iter().chain(self.replicas.members(Member::Voter))
    }

    /// The replicas that receive the log without a vote, including those that are leaving, by id.
    pub fn learners(&self) -> impl Iterator<Item = ReplicaId> {
        self.replicas.members(Member::Learner)
    }

    /// The last id assigned to a replica; 1 before any was added.
    #[must_use]
    pub fn last_replica(&self) -> ReplicaId {
        self.replicas.last
    }
}
