//! What replicas say to each other. Consensus' own messages are kept in our types: outside bytes
//! never reach the library's decoder.

use std::sync::Arc;

use bytes::Bytes;
use cell::Op;
use master::{Reachability, Spread};
use model::{DirectoryId, Level, LogIndex, MachineId, ReplicaId, Term};
use raft::eraftpb::{self, MessageType};

use crate::LogEntry;
use crate::log::{self, Memberships, Snapshot};

/// A message from one replica to another.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who sends it.
    pub from: ReplicaId,
    /// For whom it is.
    pub to: ReplicaId,
    /// How often the sender's cell was restored by hand: replicas of before take no part.
    pub restore_epoch: u64,
    /// The sender's data directory: one that the cell knows another of is not that replica.
    pub directory: DirectoryId,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug)]
pub enum Body {
    /// Something of consensus.
    Consensus(Box<Consensus>),
    /// To the leader: what the sender's link shard would like to be proposed, and how its machines
    /// answer.
    Heard {
        /// What is to be proposed.
        proposals: Vec<Op>,
        /// How machines answer.
        reachabilities: Vec<(MachineId, Reachability)>,
    },
    /// Of the leader: over whom the machines are spread, and who polls which of others as well.
    Active(Arc<Spread>),
    /// Of the leader: machines that have to miss all their polls once more before they are silent.
    BeginAnew(Vec<MachineId>),
    /// To the leader: what the sender would like to be recorded of itself.
    Describe {
        /// Where it is reached.
        address: Arc<str>,
        /// The highest level of the state machine that it can be at.
        level: Level,
    },
}

/// A message of consensus (raft).
#[derive(Clone, Debug, Default)]
pub struct Consensus {
    /// What kind.
    pub kind: ConsensusKind,
    /// The sender's term; 0 in what has none.
    pub term: Term,
    /// The term of the record before the first one here.
    pub log_term: Term,
    /// The place of that record, or of what is answered.
    pub index: LogIndex,
    /// Records.
    pub entries: Vec<LogEntry>,
    /// Up to where the sender knows that all agree.
    pub commit: LogIndex,
    /// The term of the record there.
    pub commit_term: Term,
    /// The cell to go on from, in the message that sends one.
    pub snapshot: Option<Snapshot>,
    /// That something is refused.
    pub reject: bool,
    /// Where to try again then.
    pub reject_hint: LogIndex,
    /// By which an answer finds its question.
    pub context: Bytes,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $raft:ident,)*) => {
        /// What a message of consensus is about.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum ConsensusKind {
            $($(#[$doc])* $name,)*
        }

        impl ConsensusKind {
            /// All of them.
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
    /// Whether they were.
    AppendResponse = MsgAppendResponse,
    /// Please vote.
    RequestVote = MsgRequestVote,
    /// A vote.
    RequestVoteResponse = MsgRequestVoteResponse,
    /// Would you vote?
    RequestPreVote = MsgRequestPreVote,
    /// Whether it would.
    RequestPreVoteResponse = MsgRequestPreVoteResponse,
    /// A cell to go on from.
    Snapshot = MsgSnapshot,
    /// The leader is there.
    Heartbeat = MsgHeartbeat,
    /// So is the follower.
    HeartbeatResponse = MsgHeartbeatResponse,
    /// Lead, now.
    TimeoutNow = MsgTimeoutNow,
    /// Let another lead.
    TransferLeader = MsgTransferLeader,
    /// Up to where does everybody agree?
    ReadIndex = MsgReadIndex,
    /// Up to here.
    ReadIndexResponse = MsgReadIndexResp,
}

impl ConsensusKind {
    /// Whether it is what a follower answers a leader.
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::AppendResponse | Self::HeartbeatResponse)
    }
}

impl Consensus {
    /// Up to where it says that all agree: the answer to a read says it by its index.
    #[must_use]
    pub fn committed(&self) -> LogIndex {
        match self.kind {
            ConsensusKind::ReadIndexResponse => self.index.max(self.commit),
            _ => self.commit,
        }
    }

    /// None for what the library keeps to itself.
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
        // A read's context is in the place of a record, and is none.
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
