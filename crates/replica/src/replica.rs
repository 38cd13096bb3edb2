//! The step function.

use std::collections::VecDeque;

use bytes::Bytes;
use cell::{Applied, Assignment, Cell, LEVEL, Mutation, Op, Outcome, RequestId};
use master::{Answer, Master, Poll, Wish};
use model::{CellName, Level, LogIndex, MachineId, Random, Span, Stamp, Term, Time, UserName};
use raft::{Config, RawNode, StateRole};
use thiserror::Error;

use crate::log::{Memory, from_raft};
use crate::{HardState, LogEntry, UnknownOperation};

/// The form of operations in the log. It is the wire formats' business (crate `proto`), which lie
/// above this crate.
pub trait Codec {
    /// A record's payload.
    fn encode(&self, at: Time, op: &Op) -> Vec<u8>;

    /// Reads a payload of a level that this build knows.
    ///
    /// # Errors
    /// Says what is wrong with it.
    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String>;

    /// What an operation caused, for whoever keeps the events; empty where it caused nothing. The
    /// cell is as it is right after the operation.
    fn events(&self, cell: &Cell, applied: &Applied) -> Vec<u8>;
}

/// What a replica is set to.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which replica of its cell this is, from 1.
    pub id: u64,
    /// The pace of consensus: heartbeats are 2 of it, elections 10 to 20.
    pub raft_tick: Span,
    /// How many requests may wait for their record to be committed.
    pub waiting_max: usize,
    /// Where its randomness begins.
    pub seed: u64,
    /// What the master is set to.
    pub master: master::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            id: 1,
            raft_tick: Span::from_millis(50),
            waiting_max: 10_000,
            seed: 0,
            master: master::Settings::default(),
        }
    }
}

/// Who founds the cell, where its log is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
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
    /// What was promised in elections.
    pub hard_state: HardState,
    /// How often the cell was restored from a checkpoint by hand; the first part of every stamp.
    pub restore_epoch: u64,
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
    /// A scheduler's proposal.
    Propose(Ticket, Vec<Assignment>),
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
    /// Answer whoever asked: their operation is committed and was judged at this index.
    Reply(Ticket, LogIndex, Outcome),
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
        /// What it caused, as [`Codec::events`] gives it.
        events: Vec<u8>,
    },
    /// This replica leads from now on.
    Leads(Term),
    /// This replica leads no longer.
    Follows,
}

/// Records to make durable.
#[derive(Debug)]
pub struct Persist {
    /// By which [`Input::Persisted`] names them.
    pub number: u64,
    /// The records.
    pub entries: Vec<LogEntry>,
    /// What was promised in elections, where it changed.
    pub hard_state: Option<HardState>,
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
}

/// Somebody waits for the operation of this record.
struct Waiting {
    index: LogIndex,
    term: Term,
    ticket: Ticket,
}

/// A step ends when it has so much to be done, so that a long log is replayed in bounded memory.
const OUTPUTS_MAX: usize = 4_096;
/// How many bytes of committed records are applied in one go.
const COMMITTED_BYTES_MAX: u64 = 256 << 10;

/// One replica.
pub struct Replica<C> {
    settings: Settings,
    codec: C,
    founding: Option<Founding>,
    node: RawNode<Memory>,
    cell: Cell,
    master: Master,
    waiting: VecDeque<Waiting>,
    /// The moment last stamped on a record.
    stamped: Time,
    next_raft_tick: Time,
    role: StateRole,
    wishes: Vec<Wish>,
    restore_epoch: u64,
}

impl<C: Codec> Replica<C> {
    /// A replica with what it finds on its disk. The cell of a replica whose log is empty is
    /// founded as `founding` says, once it leads.
    ///
    /// # Errors
    /// Where consensus refuses the settings.
    pub fn new(
        settings: Settings,
        codec: C,
        now: Time,
        recovered: Recovered,
        founding: Option<Founding>,
    ) -> Result<Self, ReplicaError> {
        let (cell, term) = recovered.checkpoint.unwrap_or_default();
        let base = (cell.index(), term);
        let config = Config {
            id: settings.id,
            election_tick: 10,
            heartbeat_tick: 2,
            applied: base.0.0,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 256,
            max_committed_size_per_ready: COMMITTED_BYTES_MAX,
            pre_vote: true,
            check_quorum: true,
            ..Config::default()
        };
        // Whoever has a state of a term has seen that term, and has voted for nobody in it.
        let hard_state = match recovered.hard_state {
            older if older.term < term => HardState { term, vote: 0 },
            newest => newest,
        };
        let memory = Memory::new(settings.id, base, recovered.entries, hard_state);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = RawNode::new(&config, memory, &logger)?;
        // The only voter has nobody to wait for.
        node.campaign()?;
        Ok(Self {
            settings,
            codec,
            founding,
            node,
            master: Master::new(settings.master),
            stamped: cell.time(),
            cell,
            waiting: VecDeque::new(),
            next_raft_tick: now,
            role: StateRole::Follower,
            wishes: Vec::new(),
            restore_epoch: recovered.restore_epoch,
        })
    }

    /// The cell's state as far as this replica has applied it.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The term of consensus that it is in.
    #[must_use]
    pub fn term(&self) -> Term {
        Term(self.node.raft.term)
    }

    /// The newest record that it knows to be committed.
    #[must_use]
    pub fn commit_index(&self) -> LogIndex {
        LogIndex(self.node.raft.raft_log.committed)
    }

    /// Takes in what came and says what is to be done. Drain whatever is waiting before a step:
    /// all that is proposed in one step becomes durable together.
    ///
    /// # Errors
    /// Where this build cannot apply what is committed; the replica must stop then.
    pub fn step(
        &mut self,
        now: Time,
        inputs: impl IntoIterator<Item = Input>,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        self.tick_consensus(now);
        for input in inputs {
            self.take_in(now, input, outputs);
        }
        self.master.tick(now, &self.cell, &mut self.wishes);
        self.fulfil(now, outputs);
        while self.node.has_ready() && outputs.len() < OUTPUTS_MAX {
            self.ready(now, outputs)?;
            self.master.tick(now, &self.cell, &mut self.wishes);
            self.fulfil(now, outputs);
        }
        Ok(())
    }

    /// When the next step is due, if nothing comes in before: at once while there is more to do
    /// than one step does.
    #[must_use]
    pub fn next_step(&self) -> Time {
        if self.node.has_ready() {
            return Time::ZERO;
        }
        self.master.next_tick().map_or(self.next_raft_tick, |next| next.min(self.next_raft_tick))
    }

    fn tick_consensus(&mut self, now: Time) {
        // After a pause, time that nobody saw is not made up for: that would end a healthy term.
        if now.since(self.next_raft_tick) > self.settings.raft_tick.saturating_mul(5) {
            self.next_raft_tick = now;
        }
        while self.next_raft_tick <= now {
            self.node.tick();
            self.next_raft_tick = self.next_raft_tick + self.settings.raft_tick;
            self.pin_election_timeout();
        }
    }

    /// The library draws election timeouts from the system's randomness; here they follow from
    /// the seed and the term, so that a run can be repeated.
    fn pin_election_timeout(&mut self) {
        let base = self.node.raft.election_timeout();
        let seed = self.settings.seed ^ (self.settings.id << 48) ^ self.node.raft.term;
        let extra = Random::new(seed).index(base);
        self.node.raft.set_randomized_election_timeout(base + extra);
    }

    fn take_in(&mut self, now: Time, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::OpenSession(ticket, user) => {
                self.request(now, ticket, &Op::OpenSession { user }, outputs);
            }
            Input::Request(ticket, id, by, mutation) => {
                self.request(now, ticket, &Op::Request { id, by, mutation }, outputs);
            }
            Input::Propose(ticket, assignments) => {
                self.request(now, ticket, &Op::Assign(assignments), outputs);
            }
            Input::Answered { machine, had_order, answer } => {
                let (cell, wishes) = (&self.cell, &mut self.wishes);
                self.master.answered(now, cell, machine, had_order, &answer, wishes);
            }
            Input::Persisted(number) => self.node.on_persist_ready(number),
            Input::Checkpointed(index) => self.node.mut_store().compact(index),
        }
    }

    fn request(&mut self, now: Time, ticket: Ticket, op: &Op, outputs: &mut Vec<Output>) {
        let (needs, is) = (op.needs(), self.cell.level());
        let refusal = if !self.master.is_leading() {
            Some(Refusal::NotLeading)
        } else if needs > is {
            Some(Refusal::Level { needs, is })
        } else if self.waiting.len() >= self.settings.waiting_max {
            Some(Refusal::Overloaded)
        } else {
            (!self.propose(now, op, Some(ticket))).then_some(Refusal::NotLeading)
        };
        if let Some(refusal) = refusal {
            outputs.push(Output::Refused(ticket, refusal));
        }
    }

    /// Whether consensus took it.
    fn propose(&mut self, now: Time, op: &Op, ticket: Option<Ticket>) -> bool {
        let at = self.stamped.max(now);
        let payload = self.codec.encode(at, op);
        // Replicas of an older build apply it until the cell is at a level that they do not have.
        let level = self.cell.level().max(op.needs());
        if self.node.propose(level.0.to_le_bytes().to_vec(), payload).is_err() {
            return false;
        }
        self.stamped = at;
        let index = LogIndex(self.node.raft.raft_log.last_index());
        let term = Term(self.node.raft.term);
        self.waiting.extend(ticket.map(|ticket| Waiting { index, term, ticket }));
        true
    }

    fn fulfil(&mut self, now: Time, outputs: &mut Vec<Output>) {
        for wish in std::mem::take(&mut self.wishes) {
            match wish {
                Wish::Propose(op) => drop(self.propose(now, &op, None)),
                Wish::Poll(poll) => outputs.push(Output::Poll(poll)),
            }
        }
    }

    fn ready(&mut self, now: Time, outputs: &mut Vec<Output>) -> Result<(), ReplicaError> {
        let mut ready = self.node.ready();
        if let Some(role) = ready.ss().map(|state| state.raft_state) {
            self.changed_role(role, outputs);
        }
        let entries: Vec<LogEntry> = ready.entries().iter().map(from_raft).collect();
        self.node.mut_store().append(&entries);
        // A commit index that is lost is found again by the next leader: it needs no fsync.
        let hard_state = ready
            .hs()
            .filter(|_| ready.must_sync())
            .map(|state| HardState { term: Term(state.term), vote: state.vote });
        if ready.must_sync() {
            let number = ready.number();
            outputs.push(Output::Persist(Persist { number, entries, hard_state }));
        }
        let committed = ready.take_committed_entries();
        self.node.advance_append_async(ready);
        let last = committed.last().map(raft::eraftpb::Entry::get_index);
        for entry in &committed {
            self.apply(now, from_raft(entry), outputs)?;
        }
        if let Some(last) = last {
            self.node.advance_apply_to(last);
        }
        self.pin_election_timeout();
        Ok(())
    }

    fn apply(
        &mut self,
        now: Time,
        entry: LogEntry,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        // The leader too applies what the log holds, not what it meant by it: every replica and
        // every replay see the same operation.
        let (at, op) = self.decode(&entry)?;
        self.stamped = self.stamped.max(at);
        let applied = self.cell.apply(at, &op);
        self.master.applied(now, &self.cell, &op, &applied.reordered, &mut self.wishes);
        let mine =
            |waiting: &mut Waiting| waiting.index == entry.index && waiting.term == entry.term;
        if let Some(Waiting { ticket, .. }) = self.waiting.pop_front_if(mine) {
            outputs.push(Output::Reply(ticket, self.cell.index(), applied.outcome.clone()));
        }
        let begins_term = entry.term.0 == self.node.raft.term;
        let events = self.codec.events(&self.cell, &applied);
        outputs.push(Output::Committed { entry, at: self.cell.time(), events });
        if begins_term && self.role == StateRole::Leader && !self.master.is_leading() {
            self.lead(now, outputs);
        }
        Ok(())
    }

    fn decode(&self, entry: &LogEntry) -> Result<(Time, Op), UnknownOperation> {
        if entry.data.is_empty() {
            return Ok((self.cell.time(), Op::Nothing));
        }
        let index = entry.index;
        if entry.level > LEVEL || entry.level == Level(0) {
            return Err(UnknownOperation::Level { index, needs: entry.level, knows: LEVEL });
        }
        let decoded = self.codec.decode(&entry.data);
        decoded.map_err(|what| UnknownOperation::Malformed { index, what })
    }

    /// Its first entry is committed: it knows all that was ever acknowledged.
    fn lead(&mut self, now: Time, outputs: &mut Vec<Output>) {
        let term = Term(self.node.raft.term);
        let (restore_epoch, index) = (self.restore_epoch, self.cell.index());
        let since = Stamp { restore_epoch, term, index };
        self.master.lead(now, since, &self.cell);
        outputs.push(Output::Leads(term));
        if self.cell.name().is_none()
            && let Some(Founding { name, administrator, .. }) = self.founding.clone()
        {
            self.propose(now, &Op::Found { name, administrator }, None);
        }
        // A replica that cannot follow a raised level stops. The only one there is can; where there
        // are several, this has to wait until all have said so.
        if self.cell.level() < LEVEL && self.node.raft.prs().is_singleton() {
            self.propose(now, &Op::RaiseLevel { to: LEVEL }, None);
        }
        // Until the first session is open: a founding that the disk holds in part is completed.
        let quota = self.founding.as_ref().is_some_and(|founding| founding.quota);
        if quota && self.cell.is_untouched() && !self.cell.metering().on {
            self.propose(now, &Op::MeterQuota, None);
        }
    }

    fn changed_role(&mut self, role: StateRole, outputs: &mut Vec<Output>) {
        let led = self.role == StateRole::Leader;
        self.role = role;
        if led && role != StateRole::Leader {
            self.master.follow();
            outputs.push(Output::Follows);
            let waiting = self.waiting.drain(..);
            let unknown = |waiting: Waiting| Output::Refused(waiting.ticket, Refusal::Unknown);
            outputs.extend(waiting.map(unknown));
        }
    }
}

impl Recovered {
    /// Adds what was promised and recorded, in the order in which it was read.
    pub fn entry(&mut self, term: Term, index: LogIndex, level: Level, data: &[u8]) {
        let covered = self.checkpoint.as_ref().is_some_and(|(cell, _)| index <= cell.index());
        if !covered {
            self.entries.push(LogEntry { term, index, level, data: Bytes::copy_from_slice(data) });
        }
    }
}
