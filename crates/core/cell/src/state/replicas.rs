//! The replicas of the Borgmaster: who they are is state of the cell (paper, section 3.1; design,
//! sections 3 and 4). What consensus does with them is not here.

use std::sync::Arc;

use imbl::OrdMap;
use model::{DirectoryId, KeyDigest, Level, ReplicaId};

use crate::{Cell, Certificate};

/// The replica that a cell is bootstrapped with, and its only voter as long as nothing is recorded.
pub(crate) const FIRST: ReplicaId = ReplicaId(1);

/// A replica of the Borgmaster, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its id, which no other ever had.
    pub id: ReplicaId,
    /// Where it answers, as `host:port`; empty where that is not known. It was told when it was
    /// added, and says so itself at its start.
    pub address: Arc<str>,
    /// The level of the state machine that its build has, as it said last; 0 before it ever did.
    pub level: Level,
    /// What it is in consensus.
    pub member: Member,
    /// Whether it is to be removed: it is until consensus has let it go.
    pub leaving: bool,
    /// With what its process joins; nothing where nobody asked for a token.
    pub token: Option<ReplicaToken>,
    /// Its data directory: nobody else is this replica. Not known before it said so.
    pub directory: DirectoryId,
}

impl Replica {
    /// A replica that stays, without a token, of whose directory nothing is known.
    #[must_use]
    pub fn new(id: ReplicaId, address: impl Into<Arc<str>>, level: Level, member: Member) -> Self {
        let (leaving, token, directory) = (false, None, DirectoryId::default());
        Self { id, address: address.into(), level, member, leaving, token, directory }
    }
}

/// A replica's join token: whoever holds it is handed what every replica has, once, until it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaToken {
    /// Its certificate.
    pub certificate: Certificate,
    /// The key that used it first: no other can.
    pub used: Option<KeyDigest>,
}

/// What a replica is in consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// Recorded, and not in consensus yet.
    Waiting,
    /// It is sent the log, and has no vote.
    Learner,
    /// It votes, and may lead.
    Voter,
}

/// How a replica's part in consensus changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberChange {
    /// One that waited is sent the log from now on.
    Learner,
    /// A learner that has caught up votes from now on.
    Voter,
    /// One that is leaving is in consensus no longer, and its record goes.
    Out,
}

/// The replicas of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    /// The last id that was given.
    pub(crate) last: ReplicaId,
    pub(crate) records: OrdMap<ReplicaId, Replica>,
}

/// Of a cell in which nothing is recorded.
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

    /// Whether somebody would vote, and stay, without a replica.
    pub(crate) fn vote_without(&self, left_out: ReplicaId) -> bool {
        let stays = |replica: &Replica| replica.member == Member::Voter && !replica.leaving;
        self.records.values().any(|replica| replica.id != left_out && stays(replica))
    }
}

impl Cell {
    /// Every replica that is recorded, by id. None is in a cell of one replica that has not described
    /// itself yet.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.records.values()
    }

    /// A replica by its id, where it is recorded.
    #[must_use]
    pub fn replica(&self, id: ReplicaId) -> Option<&Replica> {
        self.replicas.records.get(&id)
    }

    /// The replicas that vote, those that are leaving included, by id. A cell of which nothing is
    /// recorded has one voter, replica 1.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> {
        let first = self.replicas.records.is_empty().then_some(FIRST);
        first.into_iter().chain(self.replicas.members(Member::Voter))
    }

    /// The replicas that are sent the log and have no vote, those that are leaving included, by id.
    pub fn learners(&self) -> impl Iterator<Item = ReplicaId> {
        self.replicas.members(Member::Learner)
    }

    /// The last id given to a replica; 1 before any was added.
    #[must_use]
    pub fn last_replica(&self) -> ReplicaId {
        self.replicas.last
    }
}
