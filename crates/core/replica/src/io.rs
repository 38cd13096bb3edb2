//! The inputs and outputs of a replica, and its settings.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Assignment, Cell, LEVEL, Mutation, Op, Outcome, RequestId, Reservation};
use master::{Answer, Poll};
use model::{
    CellName, DirectoryId, Enabled, Level, LogIndex, MachineId, ReplicaId, RestoreEpoch,
    SchedulerName, Span, Term, Time, UserName,
};
use thiserror::Error;

use crate::{HardState, LogEntry, Message, UnknownOperation};

/// The settings of a replica.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The id of this replica.
    pub id: ReplicaId,
    /// The `host:port` at which other replicas and clients reach it; empty if that is not needed.
    pub address: Arc<str>,
    /// The id of its data directory, by which others recognise it; unknown in single-process tests
    /// and benchmarks.
    pub directory: DirectoryId,
    /// The maximum level of the state machine: [`LEVEL`], or less to behave like an older build.
    pub level: Level,
    /// The tick of consensus: heartbeats every 2 ticks, elections after 10 to 20.
    pub raft_tick: Span,
    /// The maximum number of requests that wait to be committed, and of waiting reads.
    pub waiting_max: usize,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The settings of the master.
    pub master: master::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            id: ReplicaId(1),
            address: "".into(),
            directory: DirectoryId::default(),
            level: LEVEL,
            raft_tick: Span::from_millis(50),
            waiting_max: 10_000,
            seed: 0,
            master: master::Settings::default(),
        }
    }
}

/// How to bootstrap the cell if its log is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The cell's name.
    pub name: CellName,
    /// The administrator.
    pub administrator: UserName,
    /// Whether quota is metered from the start, so that jobs without quota are rejected.
    pub quota: bool,
    /// Whether best-effort batch jobs wait in the batch queue from the start.
    pub queue: bool,
}

/// The state recovered from the disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The cell of the newest checkpoint, and the term of its last record.
    pub checkpoint: Option<(Cell, Term)>,
    /// The records after it, in order.
    pub entries: Vec<LogEntry>,
    /// The log on the disk does not lead to the checkpoint.
    pub diverged: bool,
    /// The persistent state of elections.
    pub hard_state: HardState,
    /// Which restoration the cell continues from; the first part of every stamp.
    pub restore_epoch: RestoreEpoch,
}

impl Recovered {
    /// Whether the disk was empty: no cell, no record, and no vote.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let Self { checkpoint, entries, hard_state, .. } = self;
        checkpoint.is_none() && entries.is_empty() && *hard_state == HardState::default()
    }

    /// Adds a record of the log, in order, starting with the one at the index of the checkpoint's
    /// last record.
    ///
    /// If that record has another term, the log is from a replaced leader and was never committed,
    /// and the checkpoint came from another replica: the following records are void.
    pub fn entry(&mut self, term: Term, index: LogIndex, level: Level, data: &[u8]) {
        if let Some((cell, covered)) = &self.checkpoint
            && index <= cell.index()
        {
            self.diverged |= index == cell.index() && term != *covered;
        } else if !self.diverged {
            self.entries.push(LogEntry { term, index, level, data: Bytes::copy_from_slice(data) });
        }
    }
}

/// A number that identifies the caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// An input of the step function.
#[derive(Debug)]
pub enum Input {
    /// A client opens a session.
    OpenSession(Ticket, UserName),
    /// A client's request.
    Request(Ticket, RequestId, UserName, Mutation),
    /// A machine enrols or renews its certificate, or a replica's process joins.
    Enrolment(Ticket, Op),
    /// A scheduler's proposal.
    Propose(Ticket, SchedulerName, Vec<Assignment>, Option<Time>),
    /// Decide which tasks of the batch queue are enabled, as a scheduler proposes.
    Enable(Ticket, SchedulerName, Vec<Enabled>),
    /// A linearizable read.
    Read(Ticket),
    /// A message of another replica.
    Received(Message),
    /// A message to another replica could not be sent.
    Unreachable(ReplicaId),
    /// A snapshot was sent to another replica and accepted there, or not.
    SnapshotSent(ReplicaId, bool),
    /// A request to transfer leadership: to this replica, or to the one with the most of the log.
    Transfer(Option<ReplicaId>),
    /// A poll succeeded or failed.
    Answered {
        /// The machine.
        machine: MachineId,
        /// Whether the poll carried an order.
        had_order: bool,
        /// The answer.
        answer: Answer,
    },
    /// The reservations of a round of estimates, for the leader. If they are lost, the next round has
    /// them again.
    Reserve(Vec<Reservation>),
    /// The records with this number, and all earlier ones, are durable.
    Persisted(u64),
    /// A durable checkpoint covers the records up to this index.
    Checkpointed(LogIndex),
}

/// An action for the caller.
#[derive(Debug)]
pub enum Output {
    /// Make records durable, then confirm with [`Input::Persisted`]. In order.
    Persist(Persist),
    /// Send a message to another replica. Messages to one replica are sent in order; lost ones are
    /// compensated.
    Send(Message),
    /// Answer a caller: the operation is committed and was decided at this index.
    Reply(Ticket, LogIndex, Outcome),
    /// The cell, from this index on, includes everything that had been acknowledged anywhere when
    /// the read was requested.
    Readable(Ticket, LogIndex),
    /// Tell a caller that the request was not executed, or that the result is unknown.
    Refused(Ticket, Refusal),
    /// Poll a machine, then report the result with [`Input::Answered`].
    Poll(Poll),
    /// An operation is committed and applied.
    Committed {
        /// Its record; followers of the cell get it.
        entry: LogEntry,
        /// The cell's time after the operation.
        at: Time,
        /// The resulting events, encoded by [`crate::Codec::events`].
        events: Vec<u8>,
    },
    /// The cell was replaced by another replica's snapshot: followers of the cell must start over,
    /// and the events of the skipped operations are not known here.
    Restored {
        /// The term of the snapshot's last record.
        term: Term,
        /// Which restoration it continues from.
        restore_epoch: RestoreEpoch,
    },
    /// Uncommitted records were replaced by those of another leader.
    Replaced {
        /// The first replaced record.
        from: LogIndex,
        /// The number of replaced records.
        records: usize,
    },
    /// This replica became the leader in this term.
    Leads(Term),
    /// This replica is no longer the leader.
    Follows,
    /// The leader and the term, as far as this replica knows.
    Leader(Option<ReplicaId>, Term),
    /// This replica was removed from the cell: it must stop.
    Dismissed,
}

/// Records to make durable.
#[derive(Debug)]
pub struct Persist {
    /// The number that [`Input::Persisted`] confirms.
    pub number: u64,
    /// The log restarts after this record: the checkpoint of its cell is durable already.
    pub restart: Option<(LogIndex, Term)>,
    /// The records.
    pub entries: Vec<LogEntry>,
    /// The persistent state of elections, if it changed.
    pub hard_state: Option<HardState>,
}

/// The leader's view of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The replica.
    pub replica: ReplicaId,
    /// Whether it has answered recently.
    pub answers: bool,
    /// The last record that it is known to have.
    pub index: LogIndex,
}

/// Why a request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing was done.
    #[error("this replica is not the leader of the cell: try again in a moment")]
    NotLeading,
    /// Nothing was done.
    #[error("the master has too many pending requests: try again in a moment")]
    Overloaded,
    /// Nothing was done.
    #[error(
        "the cell is at level {is} of the state machine, and the request needs level {needs}: try again when every replica runs a build that supports it"
    )]
    Level {
        /// The required level.
        needs: Level,
        /// The cell's level.
        is: Level,
    },
    /// It was proposed, and the leader changed before the result was known.
    #[error(
        "the leader changed and the result of the request is unknown: repeat it in the same session"
    )]
    Unknown,
}

/// A fatal error of a replica.
#[derive(Debug, Error)]
pub enum ReplicaError {
    /// A committed record cannot be applied.
    #[error(transparent)]
    UnknownOperation(#[from] UnknownOperation),
    /// Consensus rejected its input.
    #[error("consensus: {0}")]
    Consensus(#[from] raft::Error),
    /// The disk lacks records that it had reported as durable.
    #[error(
        "the other replicas know that record {committed} was durable here, but this disk ends at {last}: it lost acknowledged records"
    )]
    LostRecords {
        /// The last record committed with its vote.
        committed: LogIndex,
        /// The last record on the disk.
        last: LogIndex,
    },
    /// The cell has recorded another data directory for this replica.
    #[error(
        "the cell knows replica {replica} by data directory {recorded}, and this is directory {own}: it was emptied, or is another replica's"
    )]
    AnotherDirectory {
        /// The replica.
        replica: ReplicaId,
        /// The recorded directory.
        recorded: DirectoryId,
        /// This directory.
        own: DirectoryId,
    },
    /// Another replica leads without a record that was committed.
    #[error(
        "replica {leader} leads without record {index}, which was committed here with all records up to {committed}: a replica that had acknowledged it lost it, for example because it was emptied or restored from an older copy. This replica stops to preserve those records"
    )]
    Contradicted {
        /// The leader.
        leader: ReplicaId,
        /// The first record that differs.
        index: LogIndex,
        /// The last record known to be committed.
        committed: LogIndex,
    },
}
