//! Messages between replicas. Consensus' own messages are represented by our types: outside bytes
//! never reach the library's decoder.

use std::sync::Arc;

use bytes::Bytes;
use cell::Op;
use master::{Reachability, Spread};
use model::{DirectoryId, Level, LogIndex, MachineId, ReplicaId, RestoreEpoch, Term};
use raft::eraftpb::{self, MessageType};

use crate::LogEntry;
use crate::log::{self, Memberships, Snapshot};

/// A message from one replica to another.
#[derive(Clone, Debug)]
pub struct Message {
    /// The sender.
    pub from: ReplicaId,
    /// The receiver.
    pub to: ReplicaId,
    /// Which restoration the sender's cell continues from: replicas of another one are ignored.
    pub restore_epoch: RestoreEpoch,
    /// The sender's data directory: a sender with another directory than the recorded one is not
    /// that replica.
    pub directory: DirectoryId,
    /// The content.
    pub body: Body,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub enum Body {
    /// A message of consensus.
    Consensus(Box<Consensus>),
    /// To the leader: proposals of the sender's link shard, and the reachability of its machines.
    Heard {
        /// The proposals.
        proposals: Vec<Op>,
        /// The reachability of machines.
        reachabilities: Vec<(MachineId, Reachability)>,
    },
    /// From the leader: how machines are spread over the replicas, and who polls machines of others
    /// as well.
    Active(Arc<Spread>),
    /// From the leader: machines whose missed polls are to be counted anew before they are silent.
    BeginAnew(Vec<MachineId>),
    /// To the leader: the sender's description of itself.
    Describe {
        /// Its address.
        address: Arc<str>,
        /// The highest level of the state machine that it supports.
        level: Level,
    },
}

/// A message of consensus (raft).
#[derive(Clone, Debug, Default)]
pub struct Consensus {
    /// The kind.
    pub kind: ConsensusKind,
    /// The sender's term; 0 in messages without a term.
    pub term: Term,
    /// The term of the record before `entries`.
    pub log_term: Term,
    /// The index of that record, or of the acknowledged one.
    pub index: LogIndex,
    /// Records.
    pub entries: Vec<LogEntry>,
    /// The sender's commit index.
    pub commit: LogIndex,
    /// The term of the record at `commit`.
    pub commit_term: Term,
    /// The snapshot, in the message that sends one.
    pub snapshot: Option<Snapshot>,
    /// Whether this is a rejection.
    pub reject: bool,
    /// The index with which to retry after a rejection.
    pub reject_hint: LogIndex,
    /// Correlates an answer with its request.
    pub context: Bytes,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $raft:ident,)*) => {
        /// The kinds of messages of consensus.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum ConsensusKind {
            $($(#[$doc])* $name,)*
        }

        impl ConsensusKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            fn to_raft(self) -> MessageType {
                match self {
                    $(Self::$name => MessageType::$raft,)*
                }
            }

            fn from_raft(kind: MessageType) -> Option<Self> {
                match kind {
                    $(MessageType::$raft => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Records to append.
    #[default]
    Append = MsgAppend,
    /// The result of an append.
    AppendResponse = MsgAppendResponse,
    /// A request for a vote.
    RequestVote = MsgRequestVote,
    /// A vote or its refusal.
    RequestVoteResponse = MsgRequestVoteResponse,
    /// A request for a pre-vote.
    RequestPreVote = MsgRequestPreVote,
    /// A pre-vote or its refusal.
    RequestPreVoteResponse = MsgRequestPreVoteResponse,
    /// A snapshot.
    Snapshot = MsgSnapshot,
    /// A heartbeat of the leader.
    Heartbeat = MsgHeartbeat,
    /// A follower's answer to a heartbeat.
    HeartbeatResponse = MsgHeartbeatResponse,
    /// A request to start an election at once.
    TimeoutNow = MsgTimeoutNow,
    /// A request to transfer leadership.
    TransferLeader = MsgTransferLeader,
    /// A request for the commit index, for a linearizable read.
    ReadIndex = MsgReadIndex,
    /// The commit index for a read.
    ReadIndexResponse = MsgReadIndexResp,
}

impl ConsensusKind {
    /// Whether a follower sends it as an answer to the leader.
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::AppendResponse | Self::HeartbeatResponse)
    }
}

impl Consensus {
    /// The commit index that the message states: the answer to a read states it as its index.
    #[must_use]
    pub fn committed(&self) -> LogIndex {
        match self.kind {
            ConsensusKind::ReadIndexResponse => self.index.max(self.commit),
            _ => self.commit,
        }
    }

    /// `None` for messages that the library uses internally.
    pub(crate) fn from_raft(message: eraftpb::Message, offered: Option<&Snapshot>) -> Option<Self> {
        let kind = ConsensusKind::from_raft(message.get_msg_type())?;
        let wanted = message.get_snapshot().get_metadata().index;
        let snapshot = offered.filter(|offered| offered.cell.index().0 == wanted);
        if kind == ConsensusKind::Snapshot && snapshot.is_none() {
            return None;
        }
        Some(Self {
            kind,
            term: Term(message.term),
            log_term: Term(message.log_term),
            index: LogIndex(message.index),
            entries: message.entries.iter().map(log::from_raft).collect(),
            commit: LogIndex(message.commit),
            commit_term: Term(message.commit_term),
            snapshot: snapshot.filter(|_| kind == ConsensusKind::Snapshot).cloned(),
            reject: message.reject,
            reject_hint: LogIndex(message.reject_hint),
            context: message.context,
        })
    }

    pub(crate) fn into_raft(
        self,
        from: ReplicaId,
        to: ReplicaId,
        memberships: &impl Memberships,
    ) -> eraftpb::Message {
        let mut message = eraftpb::Message::default();
        message.set_msg_type(self.kind.to_raft());
        message.from = from.0;
        message.to = to.0;
        message.term = self.term.0;
        message.log_term = self.log_term.0;
        message.index = self.index.0;
        // A read's context is stored in a record, but is not one.
        let records = self.kind == ConsensusKind::Append;
        let entry =
            |entry: &LogEntry| log::to_raft(entry, records && memberships.is_membership(entry));
        message.set_entries(self.entries.iter().map(entry).collect::<Vec<_>>().into());
        message.commit = self.commit.0;
        message.commit_term = self.commit_term.0;
        if let Some(snapshot) = &self.snapshot {
            message.set_snapshot(log::snapshot(snapshot));
        }
        message.reject = self.reject;
        message.reject_hint = self.reject_hint.0;
        message.context = self.context;
        message
    }
}
