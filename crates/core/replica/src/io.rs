//! What a replica takes in and puts out, and what it is set to.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Assignment, Cell, LEVEL, Mutation, Op, Outcome, RequestId};
use master::{Answer, Poll};
use model::{
    CellName, DirectoryId, Level, LogIndex, MachineId, ReplicaId, Span, Term, Time, UserName,
};
use thiserror::Error;

use crate::{HardState, LogEntry, Message, UnknownOperation};

/// What a replica is set to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which replica of its cell this is.
    pub id: ReplicaId,
    /// Where the other replicas and clients reach it, as `host:port`; empty where nobody needs to.
    pub address: Arc<str>,
    /// Its data directory, by which others know that it is this one; not known in tests and
    /// benchmarks that need no more than one process.
    pub directory: DirectoryId,
    /// The highest level of the state machine that it may be at: [`LEVEL`], or less to go on like
    /// an older build.
    pub level: Level,
    /// The pace of consensus: heartbeats are 2 of it, elections 10 to 20.
    pub raft_tick: Span,
    /// How many requests may wait for their record to be committed, and as many reads.
    pub waiting_max: usize,
    /// Where its randomness begins.
    pub seed: u64,
    /// What the master is set to.
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

/// Who founds the cell, where its log is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The cell's name.
    pub name: CellName,
    /// Who administers it.
    pub administrator: UserName,
    /// Whether what has no quota is refused in it from its beginning on.
    pub quota: bool,
}

/// What was found on the disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The cell of the newest checkpoint, and the term of its last record.
    pub checkpoint: Option<(Cell, Term)>,
    /// The records after it, in order.
    pub entries: Vec<LogEntry>,
    /// The log on the disk is not what led to the checkpoint.
    pub diverged: bool,
    /// What was promised in elections.
    pub hard_state: HardState,
    /// How often the cell was restored from a checkpoint by hand; the first part of every stamp.
    pub restore_epoch: u64,
}

impl Recovered {
    /// Whether nothing was found: no cell, no record, and no promise.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let Self { checkpoint, entries, hard_state, .. } = self;
        checkpoint.is_none() && entries.is_empty() && *hard_state == HardState::default()
    }

    /// Adds a record of the log, in the order in which they were read, from the one on in whose
    /// place the checkpoint's last is.
    ///
    /// Where that one has another term, the log is of a leader who was replaced before it was
    /// agreed upon, and the checkpoint came from another replica: what follows is void.
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

/// A number by which whoever asked is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Something that came in.
#[derive(Debug)]
pub enum Input {
    /// A client opens a session.
    OpenSession(Ticket, UserName),
    /// A client's request.
    Request(Ticket, RequestId, UserName, Mutation),
    /// A machine joins or renews its certificate, or a replica's process joins.
    Enrolment(Ticket, Op),
    /// A scheduler's proposal.
    Propose(Ticket, Vec<Assignment>),
    /// Somebody wants to read what is true now, and not what this replica knows already.
    Read(Ticket),
    /// A message of another replica.
    Received(Message),
    /// A message to another replica could not be sent.
    Unreachable(ReplicaId),
    /// A snapshot was sent to another replica and taken there, or not.
    SnapshotSent(ReplicaId, bool),
    /// That another replica should lead: this one, or whichever has most of the log.
    Transfer(Option<ReplicaId>),
    /// A poll was answered, or was not.
    Answered {
        /// Which machine.
        machine: MachineId,
        /// Whether the poll carried an order.
        had_order: bool,
        /// The answer.
        answer: Answer,
    },
    /// The records of this number, and all before it, are durable.
    Persisted(u64),
    /// Records up to this index are covered by a durable checkpoint.
    Checkpointed(LogIndex),
}

/// Something to be done.
#[derive(Debug)]
pub enum Output {
    /// Make records durable, then say so ([`Input::Persisted`]). In order.
    Persist(Persist),
    /// Send a message to another replica. In order for each, as far as they arrive; those that do
    /// not are made up for.
    Send(Message),
    /// Answer whoever asked: their operation is committed and was judged at this index.
    Reply(Ticket, LogIndex, Outcome),
    /// What this replica's cell is now, or later, has all that had been acknowledged anywhere when
    /// the read was asked for.
    Readable(Ticket, LogIndex),
    /// Tell whoever asked that it was not done, or that nobody knows.
    Refused(Ticket, Refusal),
    /// Poll a machine, then say what came of it ([`Input::Answered`]).
    Poll(Poll),
    /// An operation is committed and applied.
    Committed {
        /// Its record; followers of the cell get it.
        entry: LogEntry,
        /// The cell's time right after it.
        at: Time,
        /// What it caused, as [`crate::Codec::events`] gives it.
        events: Vec<u8>,
    },
    /// The cell is another's snapshot from now on: followers of the cell begin anew, and what the
    /// operations between caused is not known here.
    Restored {
        /// The term of the snapshot's last record.
        term: Term,
        /// How often the cell was restored by hand.
        restore_epoch: u64,
    },
    /// Records that had not been known to be committed are replaced by those of another leader.
    Replaced {
        /// The first of them.
        from: LogIndex,
        /// How many.
        records: usize,
    },
    /// This replica leads from now on.
    Leads(Term),
    /// This replica leads no longer.
    Follows,
    /// Who leads, as far as this replica knows, and in which term.
    Leader(Option<ReplicaId>, Term),
    /// This replica is no longer one of the cell's: it must stop.
    Dismissed,
}

/// Records to make durable.
#[derive(Debug)]
pub struct Persist {
    /// By which [`Input::Persisted`] names them.
    pub number: u64,
    /// That the log begins anew after this record: the checkpoint of its cell is durable already.
    pub restart: Option<(LogIndex, Term)>,
    /// The records.
    pub entries: Vec<LogEntry>,
    /// What was promised in elections, where it changed.
    pub hard_state: Option<HardState>,
}

/// What the leader sees of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which one.
    pub replica: ReplicaId,
    /// Whether it has answered lately.
    pub answers: bool,
    /// The last record of which it is known that it has it.
    pub index: LogIndex,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing was done.
    #[error("this replica does not lead the cell: ask again in a moment")]
    NotLeading,
    /// Nothing was done.
    #[error("the master has too many requests to answer: ask again in a moment")]
    Overloaded,
    /// Nothing was done.
    #[error(
        "the cell is at level {is} of the state machine, and that needs level {needs}: ask again when every replica runs a build that has it"
    )]
    Level {
        /// The level that it needs.
        needs: Level,
        /// The cell's level.
        is: Level,
    },
    /// It was proposed, and the leader changed before it was known to be done.
    #[error(
        "the leader changed meanwhile and it is not known whether this was done: repeat it in the same session"
    )]
    Unknown,
}

/// Why a replica cannot go on.
#[derive(Debug, Error)]
pub enum ReplicaError {
    /// A committed record cannot be applied.
    #[error(transparent)]
    UnknownOperation(#[from] UnknownOperation),
    /// Consensus refuses what it is given.
    #[error("consensus: {0}")]
    Consensus(#[from] raft::Error),
    /// Its disk does not have what it had said was durable.
    #[error(
        "the other replicas know that record {committed} was durable here, and this disk ends at {last}: it lost what it had acknowledged. Remove this replica (`bourg master remove`) and add it anew with an empty directory"
    )]
    Forgot {
        /// What was agreed upon with its vote.
        committed: LogIndex,
        /// The last record that it has.
        last: LogIndex,
    },
    /// The cell knows this replica by another data directory.
    #[error(
        "the cell knows replica {replica} by data directory {recorded}, and this is directory {own}: it was emptied, or is another replica's. Remove replica {replica} (`bourg master remove {replica}`) and add a new one with an empty directory (`bourg master add`)"
    )]
    AnotherDirectory {
        /// Which replica.
        replica: ReplicaId,
        /// The directory that the cell knows.
        recorded: DirectoryId,
        /// This one.
        own: DirectoryId,
    },
    /// Another replica leads without a record that was committed.
    #[error(
        "replica {leader} leads without record {index}, which was committed here like all up to {committed}: a replica that had acknowledged it lost it, as one that was emptied or put back from an older copy. This replica stops, to keep those records. To go on with them, stop the other replicas for good and run `bourg master restore` here; to go on without them, remove this replica (`bourg master remove`) and add it anew with an empty directory"
    )]
    Contradicted {
        /// Who leads.
        leader: ReplicaId,
        /// The first record that differs.
        index: LogIndex,
        /// Up to here it is known that records were committed.
        committed: LogIndex,
    },
}
