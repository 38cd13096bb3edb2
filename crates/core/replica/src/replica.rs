//! The step function.

mod durable;
mod exchange;
mod lead;

use std::collections::VecDeque;
use std::sync::Arc;

use bns::Changes;
use cell::{Applied, Cell, MemberChange, Op};
use master::{Action, Master, Spread};
use model::{LogIndex, Random, ReplicaId, RestoreEpoch, Stamp, Term, Time};
use raft::eraftpb;
use raft::{Config, RawNode, SnapshotStatus, StateRole};

use crate::io::{
    Bootstrap, Input, Output, Persist, Recovered, Refusal, ReplicaError, Settings, Ticket,
};
use crate::links::{Links, Logs};
use crate::log::Snapshot;
use crate::log::{self, Memberships, Memory, from_raft};
use crate::members::{self, Members};
use crate::message::Body;
use crate::reads::Reads;
use crate::slow_disk::{Behind, PATIENCE_TICKS};
use crate::{HardState, LogEntry, UnknownOperation};

/// The encoding of operations in the log. The formats belong to the crate `formats`, above this
/// one.
pub trait Codec {
    /// Encodes a record's payload.
    fn encode(&self, at: Time, op: &Op) -> Vec<u8>;

    /// Decodes a payload of a level that this build supports.
    ///
    /// # Errors
    /// A description of the problem.
    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String>;

    /// Whether a payload is an operation that changes the membership ([`Op::ChangeMember`]), which
    /// must be known before it is decoded. False for invalid payloads.
    fn is_membership(&self, payload: &[u8]) -> bool;

    /// Encodes the events of an operation; empty if there are none. `cell` is the state directly
    /// after the operation.
    fn events(&self, cell: &Cell, applied: &Applied) -> Vec<u8>;
}

/// A codec's knowledge about records that are not decoded.
struct Kinds<'a, C>(&'a C);

impl<C: Codec> Memberships for Kinds<'_, C> {
    fn is_membership(&self, entry: &LogEntry) -> bool {
        !entry.data.is_empty() && self.0.is_membership(&entry.data)
    }
}

/// A caller that waits for the operation of this record.
struct Waiting {
    index: LogIndex,
    term: Term,
    ticket: Ticket,
}

/// A step ends after this many outputs, so that a long log is replayed in bounded memory.
const OUTPUTS_MAX: usize = 4_096;
/// The maximum bytes of committed records applied at once.
const COMMITTED_BYTES_MAX: u64 = 256 << 10;
/// The maximum bytes of records per message.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of messages with records in flight to another replica.
const INFLIGHT_MAX: usize = 256;

/// One replica.
pub struct Replica<C> {
    settings: Settings,
    codec: C,
    bootstrap: Option<Bootstrap>,
    node: RawNode<Memory>,
    cell: Cell,
    /// When its names changed: every record that is applied is taken in.
    names: Changes,
    /// The term of the last applied record.
    applied_term: Term,
    master: Master,
    links: Links,
    waiting: VecDeque<Waiting>,
    reads: Reads,
    members: Members,
    behind: Behind,
    /// Messages that state that something is durable, each with the number of the write that must
    /// be durable first.
    awaiting_disk: VecDeque<(u64, Vec<eraftpb::Message>)>,
    /// The hard state last handed to the disk.
    hard_state: HardState,
    /// Records that are committed and not applied yet.
    committed: VecDeque<LogEntry>,
    /// The durable commit index for records that change the membership.
    agreed: LogIndex,
    /// The same, not durable yet: each with the number of the write.
    agreeing: VecDeque<(u64, LogIndex)>,
    /// The bytes proposed since messages were last taken from consensus.
    proposed_bytes: u64,
    /// The commit index last announced to the others on its own, as the leader.
    announced_committed: u64,
    /// The number of the last write handed to the disk, and of the last durable one.
    handed: u64,
    durable: u64,
    /// A received snapshot, until consensus accepts or rejects it.
    arrived: Option<Snapshot>,
    /// An accepted snapshot, until it is durable and reported to consensus as applied.
    installing: Option<(u64, LogIndex)>,
    /// The time last stamped on a record.
    stamped: Time,
    next_raft_tick: Time,
    /// The leader and the term that the caller was last told; whether that is still so is asked of
    /// consensus.
    told: (Option<ReplicaId>, Term),
    actions: Vec<Action>,
    restore_epoch: RestoreEpoch,
}

impl<C: Codec> Replica<C> {
    /// A replica with its state recovered from disk. If its log is empty, the cell is bootstrapped
    /// according to `bootstrap` once it leads.
    ///
    /// # Errors
    /// When consensus rejects the settings.
    pub fn new(
        settings: Settings,
        codec: C,
        now: Time,
        recovered: Recovered,
        bootstrap: Option<Bootstrap>,
    ) -> Result<Self, ReplicaError> {
        let (cell, term) = recovered.checkpoint.unwrap_or_default();
        let config = Config {
            id: settings.id.0,
            election_tick: 10,
            heartbeat_tick: 2,
            applied: cell.index().0,
            max_size_per_msg: MESSAGE_BYTES_MAX,
            max_inflight_msgs: INFLIGHT_MAX,
            max_committed_size_per_ready: COMMITTED_BYTES_MAX,
            pre_vote: true,
            check_quorum: true,
            // Everything proposed in a step is sent to each other replica in one message, ...
            batch_append: true,
            // ... and the next message, or `announce_committed`, carries the commit index.
            skip_bcast_commit: true,
            ..Config::default()
        };
        // A replica with a state of a term has seen that term, and has not voted in it.
        let hard_state = match recovered.hard_state {
            older if older.term < term => HardState { term, vote: 0, ..older },
            newest => newest,
        };
        let kinds = Kinds(&codec);
        let memory = Memory::new(&cell, term, recovered.entries, hard_state, &kinds);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        // The only voter need not wait for others.
        let begins = bootstrap.is_some() || cell.index() > LogIndex(0);
        let begins = begins || memory.last() > LogIndex(0);
        let alone = begins && cell.voters().eq([settings.id]) && memory.has_no_membership();
        let mut node = RawNode::new(&config, memory, &logger)?;
        if alone {
            node.campaign()?;
        }
        let mut replica = Self {
            codec,
            bootstrap,
            node,
            master: Master::new(settings.master),
            links: Links::new(settings.id, settings.master),
            settings,
            stamped: cell.time(),
            names: Changes::of(&cell),
            cell,
            applied_term: term,
            waiting: VecDeque::new(),
            reads: Reads::default(),
            members: Members::default(),
            behind: Behind::default(),
            awaiting_disk: VecDeque::new(),
            hard_state,
            committed: VecDeque::new(),
            agreed: hard_state.agreed,
            agreeing: VecDeque::new(),
            proposed_bytes: 0,
            announced_committed: 0,
            handed: 0,
            durable: 0,
            arrived: None,
            installing: None,
            next_raft_tick: now,
            told: (None, Term(0)),
            actions: Vec::new(),
            restore_epoch: recovered.restore_epoch,
        };
        replica.pin_election_timeout();
        if replica.cell.index() > LogIndex(0) {
            replica.began(now, term);
        }
        Ok(replica)
    }

    /// The cell's state as applied by this replica.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The applied records after one; `None` if some are no longer in memory, or it is not applied yet.
    #[must_use]
    pub fn records_after(&self, index: LogIndex, term: Term) -> Option<Vec<LogEntry>> {
        self.node.store().between(index, term, self.cell.index())
    }

    /// When the names of that state changed.
    #[must_use]
    pub fn names(&self) -> &Changes {
        &self.names
    }

    /// Which replicas poll which machines, as last received from the leader.
    #[must_use]
    pub fn spread(&self) -> &Arc<Spread> {
        self.links.spread()
    }

    /// The current term of consensus.
    #[must_use]
    pub fn term(&self) -> Term {
        Term(self.node.raft.term)
    }

    /// The leader, as far as this replica knows.
    pub(crate) fn leader(&self) -> Option<ReplicaId> {
        let leader = self.node.raft.leader_id;
        (leader > 0).then_some(ReplicaId(leader))
    }

    /// Whether it is elected in its term, and may lack what is committed: see [`Self::is_serving`].
    pub(crate) fn is_elected(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// Whether it is elected, has everything that was ever acknowledged, and the caller knows.
    pub(crate) fn is_serving(&self) -> bool {
        self.is_elected() && self.master.is_leading() && self.told.1 == self.term()
    }

    /// The highest index known to be committed.
    #[must_use]
    pub fn commit_index(&self) -> LogIndex {
        LogIndex(self.node.raft.raft_log.committed)
    }

    /// Handles the inputs and appends the resulting outputs. Drain all pending inputs before a
    /// step: everything proposed in one step becomes durable together.
    ///
    /// # Errors
    /// When this build cannot apply a committed record, or its disk lost acknowledged records; the
    /// replica must stop then.
    pub fn step(
        &mut self,
        now: Time,
        inputs: impl IntoIterator<Item = Input>,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        self.check_directory()?;
        self.tick_consensus(now, outputs);
        for input in inputs {
            self.handle(now, input, outputs)?;
        }
        self.decide(now, outputs);
        self.announce_committed();
        while self.node.has_ready() && outputs.len() < OUTPUTS_MAX {
            self.ready(now, outputs)?;
            self.decide(now, outputs);
            self.announce_committed();
        }
        let readable = self.reads.readable(self.cell.index());
        outputs.extend(readable.map(|ticket| Output::Readable(ticket, self.cell.index())));
        if self.node.store().wants_snapshot() {
            let snapshot = Snapshot { term: self.applied_term, cell: self.cell.clone() };
            self.node.mut_store().offer(snapshot);
        }
        Ok(())
    }

    /// When the next step is due if no input arrives before: at once while there is more to do than
    /// one step does.
    #[must_use]
    pub fn next_step(&self) -> Time {
        if self.node.has_ready() {
            return Time::ZERO;
        }
        let ticks = [self.master.next_tick(), self.links.shard.next_tick()];
        ticks.into_iter().flatten().fold(self.next_raft_tick, Time::min)
    }

    fn tick_consensus(&mut self, now: Time, outputs: &mut Vec<Output>) {
        // After a pause, do not catch up on missed ticks: that would end a healthy term.
        if now.since(self.next_raft_tick) > self.settings.raft_tick.saturating_mul(5) {
            self.next_raft_tick = now;
        }
        while self.next_raft_tick <= now {
            self.next_raft_tick = self.next_raft_tick + self.settings.raft_tick;
            // It cannot stand for election while it has neither the log before its snapshot nor the
            // snapshot itself; nor if it is empty and does not bootstrap a cell.
            let has_nothing = self.bootstrap.is_none() && self.has_nothing();
            if self.installing.is_none() && !has_nothing {
                self.node.tick();
                self.pin_election_timeout();
            }
        }
        if let Some(leader) = self.leader().filter(|leader| *leader != self.settings.id) {
            let (cell, me, epoch) = (&self.cell, &self.settings, self.restore_epoch);
            self.members.describe(now, cell, me, leader, epoch, outputs);
        }
        let log = &self.node.raft.raft_log;
        let (committed, durable) = (LogIndex(log.committed), LogIndex(log.persisted));
        let patience = self.settings.raft_tick.saturating_mul(PATIENCE_TICKS);
        if self.behind.is_stuck(now, committed, durable, patience) {
            self.transfer(now, None);
        }
    }

    /// The library draws election timeouts from the system's randomness; here they are derived from
    /// the seed and the term, so that runs can be repeated.
    fn pin_election_timeout(&mut self) {
        let base = self.node.raft.election_timeout();
        let seed = self.settings.seed ^ (self.settings.id.0 << 48) ^ self.node.raft.term;
        let extra = Random::new(seed).index(base);
        self.node.raft.set_randomized_election_timeout(base + extra);
    }

    fn handle(
        &mut self,
        now: Time,
        input: Input,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        match input {
            Input::OpenSession(ticket, user) => {
                self.request(now, ticket, &Op::OpenSession { user }, outputs);
            }
            Input::Request(ticket, id, by, mutation) => {
                self.request(now, ticket, &Op::Request { id, by, mutation }, outputs);
            }
            Input::Enrolment(ticket, op) => self.request(now, ticket, &op, outputs),
            Input::Propose(ticket, by, assignments, began) => {
                self.request(now, ticket, &Op::Assign { by, assignments, began }, outputs);
            }
            Input::Enable(ticket, by, enabled) => {
                self.request(now, ticket, &Op::Enable { by, enabled }, outputs);
            }
            Input::Read(ticket) => match self.reads.len() < self.settings.waiting_max {
                true => self.reads.ask(ticket),
                false => outputs.push(Output::Refused(ticket, Refusal::Overloaded)),
            },
            Input::Received(message) => self.received(now, message)?,
            Input::Unreachable(replica) => self.node.report_unreachable(replica.0),
            Input::SnapshotSent(replica, taken) => {
                let status = if taken { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
                self.node.report_snapshot(replica.0, status);
                self.node.mut_store().withdraw();
            }
            Input::Transfer(to) => self.transfer(now, to),
            Input::Answered { machine, had_order, answer } => {
                let (cell, actions) = (&self.cell, &mut self.actions);
                self.links.shard.answered(now, cell, machine, had_order, &answer, actions);
            }
            Input::Reserve(reservations) => {
                self.actions.push(Action::Propose(Op::Reserve(reservations)));
            }
            Input::Persisted(number) => self.persisted(now, number, outputs)?,
            Input::Checkpointed(index) => self.node.mut_store().compact(index),
        }
        Ok(())
    }

    fn request(&mut self, now: Time, ticket: Ticket, op: &Op, outputs: &mut Vec<Output>) {
        let (needs, is) = (op.needs(), self.cell.level());
        let refusal = if !self.is_serving() {
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

    /// Proposes an operation; returns whether consensus accepted it.
    fn propose(&mut self, now: Time, op: &Op, ticket: Option<Ticket>) -> bool {
        // The library would forward it.
        if !self.is_elected() {
            return false;
        }
        let at = self.stamped.max(now);
        let payload = self.codec.encode(at, op);
        self.proposed_bytes = self.proposed_bytes.saturating_add(payload.len() as u64);
        // Do not grow a message that is large enough.
        self.node.raft.set_batch_append(self.proposed_bytes <= MESSAGE_BYTES_MAX);
        // Replicas of an older build can apply it until the cell reaches a level that they do not
        // support.
        let level = self.cell.level().max(op.needs());
        let proposed = match members::conf_change(op) {
            None => self.node.propose(log::context(level, &[]), payload),
            Some(change) => self.node.propose_conf_change(log::context(level, &payload), change),
        };
        if proposed.is_err() {
            return false;
        }
        self.stamped = at;
        let index = LogIndex(self.node.raft.raft_log.last_index());
        let term = Term(self.node.raft.term);
        self.waiting.extend(ticket.map(|ticket| Waiting { index, term, ticket }));
        true
    }

    /// As the leader, announces the commit index to the others if no record in flight carries it.
    fn announce_committed(&mut self) {
        let log = &self.node.raft.raft_log;
        let (committed, last) = (log.committed, log.last_index());
        if self.is_elected() && committed == last && committed > self.announced_committed {
            self.announced_committed = committed;
            self.node.raft.bcast_append();
        }
    }

    /// Handles what the link shard and the leader do on their own.
    fn decide(&mut self, now: Time, outputs: &mut Vec<Output>) {
        self.tell_leader(outputs);
        self.links.tick(now, &self.cell);
        self.links.shard.tick(now, &self.cell, &mut self.actions);
        let reachabilities = self.links.shard.contacts_changed();
        if self.is_serving() {
            let (cell, master, raft) = (&self.cell, &mut self.master, &self.node.raft);
            let committed = LogIndex(raft.raft_log.committed);
            let logs = Logs { progress: raft.prs(), committed };
            if let Some((others, spread)) =
                self.links.send_spread(now, cell, master, &reachabilities, &logs)
            {
                self.tell(&others, &Body::Active(spread), outputs);
            }
            self.master.tick(now, &self.cell, &mut self.actions);
        }
        let mut proposals = Vec::new();
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Propose(op) if self.is_serving() => {
                    if self.master.may_propose(&op) {
                        self.propose(now, &op, None);
                    }
                }
                Action::Propose(op) => proposals.push(op),
                Action::Poll(poll) => outputs.push(Output::Poll(poll)),
                Action::BeginAnew(machines) => {
                    self.links.shard.begin_anew(&machines);
                    let others: Vec<_> =
                        self.cell.voters().filter(|id| *id != self.settings.id).collect();
                    self.tell(&others, &Body::BeginAnew(machines), outputs);
                }
            }
        }
        // Dropped without a leader; the shard sends it again.
        let leader = self.leader().filter(|leader| *leader != self.settings.id);
        let says = !proposals.is_empty() || !reachabilities.is_empty();
        if let Some(leader) = leader.filter(|_| says && !self.is_serving()) {
            self.tell(&[leader], &Body::Heard { proposals, reachabilities }, outputs);
        }
        self.reconcile(now);
        let (tick, me) = (self.settings.raft_tick, self.settings.id);
        if let Some(context) = self.reads.question(now, tick, me) {
            self.node.read_index(context);
        }
    }

    /// A term starts in the applied records, or the cell was replaced.
    fn began(&mut self, now: Time, term: Term) {
        let (restore_epoch, index) = (self.restore_epoch, self.cell.index());
        let since = Stamp { restore_epoch, term, index };
        self.links.shard.term_began(now, &self.cell, since);
    }

    /// Changes the membership and the level towards what the cell demands, one step at a time.
    fn reconcile(&mut self, now: Time) {
        if !self.is_serving() || self.members.proposed.is_some() {
            return;
        }
        let next = members::next(&self.cell, &self.settings, self.node.raft.prs());
        match next {
            None => {}
            Some(members::LeaderStep::Resign) => self.transfer(now, None),
            Some(members::LeaderStep::Propose(op)) => {
                let proposed = self.propose(now, &op, None);
                let last = LogIndex(self.node.raft.raft_log.last_index());
                self.members.proposed = proposed.then_some(last);
            }
        }
    }

    fn ready(&mut self, now: Time, outputs: &mut Vec<Output>) -> Result<(), ReplicaError> {
        let mut ready = self.node.ready();
        let number = ready.number();
        self.proposed_bytes = 0;
        self.node.raft.set_batch_append(true);
        self.send(ready.take_messages(), outputs);
        for read in ready.take_read_states() {
            self.reads.answered(&read.request_ctx, LogIndex(read.index));
        }
        let restart = self.install(now, ready.snapshot(), outputs);
        let entries: Vec<LogEntry> = ready.entries().iter().map(from_raft).collect();
        let records = self.node.mut_store().append(&entries, &Kinds(&self.codec));
        if let Some(first) = entries.first().filter(|_| records > 0) {
            outputs.push(Output::Replaced { from: first.index, records });
        }
        let committed = ready.take_committed_entries();
        self.committed.extend(committed.iter().map(from_raft));
        let promised = ready.hs().filter(|_| ready.must_sync());
        let before = self.hard_state.agreed;
        let hard_state = self.promise(promised.map(|state| (Term(state.term), state.vote)));
        if ready.must_sync() || hard_state.is_some() {
            self.handed = number;
            if self.hard_state.agreed > before {
                self.agreeing.push_back((number, self.hard_state.agreed));
            }
            outputs.push(Output::Persist(Persist { number, restart, entries, hard_state }));
        }
        if let Some((index, _)) = restart {
            self.installing = Some((number, index));
        }
        let messages = ready.take_persisted_messages();
        match self.handed <= self.durable {
            true => self.send(messages, outputs),
            false if messages.is_empty() => {}
            false => self.send_when_durable(messages),
        }
        self.node.advance_append_async(ready);
        if self.handed <= self.durable {
            // The library keeps a note for each number until it is confirmed.
            self.node.on_persist_ready(number);
        }
        self.apply_committed(now, outputs)?;
        self.pin_election_timeout();
        Ok(())
    }

    /// Applies committed records, up to one that changes the membership and is not durable yet.
    fn apply_committed(
        &mut self,
        now: Time,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        let mut last = None;
        while let Some(entry) = self.committed.pop_front_if(|entry| {
            entry.index <= self.agreed || !self.node.store().is_membership(entry.index)
        }) {
            last = Some(entry.index);
            self.apply(now, entry, outputs)?;
        }
        if let Some(last) = last {
            self.node.advance_apply_to(last.0);
        }
        Ok(())
    }

    /// Installs the snapshot that consensus has accepted, if any.
    fn install(
        &mut self,
        now: Time,
        taken: &eraftpb::Snapshot,
        outputs: &mut Vec<Output>,
    ) -> Option<(LogIndex, Term)> {
        let index = taken.get_metadata().index;
        let Snapshot { term, cell } =
            self.arrived.take_if(|arrived| index > 0 && arrived.cell.index().0 == index)?;
        let index = cell.index();
        self.node.mut_store().restore(&cell, term);
        self.stamped = self.stamped.max(cell.time());
        // What changed on the way to it is not known.
        self.names = Changes::of(&cell);
        (self.cell, self.applied_term) = (cell, term);
        // It includes the records that waited to be applied.
        (self.committed, self.agreeing) = Default::default();
        self.members.proposed = None;
        self.began(now, term);
        outputs.push(Output::Restored { term, restore_epoch: self.restore_epoch });
        Some((index, term))
    }

    fn apply(
        &mut self,
        now: Time,
        entry: LogEntry,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        // The leader, too, applies the decoded record and not its own copy of the operation: every
        // replica and every replay see the same operation.
        let (at, op) = self.decode(&entry)?;
        self.stamped = self.stamped.max(at);
        let applied = self.cell.apply(at, &op);
        self.names.applied(&self.cell, &applied.events);
        let (cell, reordered) = (&self.cell, &applied.reordered);
        self.links.shard.applied(now, cell, &op, reordered, &mut self.actions);
        self.master.applied(now, cell, &op, reordered);
        if std::mem::replace(&mut self.applied_term, entry.term) != entry.term {
            self.began(now, entry.term);
        }
        self.applied_members(&op, &applied, outputs)?;
        let mine =
            |waiting: &mut Waiting| waiting.index == entry.index && waiting.term == entry.term;
        if let Some(Waiting { ticket, .. }) = self.waiting.pop_front_if(mine) {
            outputs.push(Output::Reply(ticket, self.cell.index(), applied.outcome.clone()));
        }
        self.members.proposed.take_if(|proposed| *proposed <= entry.index);
        let begins_term = entry.term.0 == self.node.raft.term;
        let events = self.codec.events(&self.cell, &applied);
        outputs.push(Output::Committed { entry, at: self.cell.time(), events });
        if begins_term && self.is_elected() && !self.is_serving() {
            self.lead(now, outputs);
        }
        Ok(())
    }

    /// Reports a change of the membership to consensus.
    fn applied_members(
        &mut self,
        op: &Op,
        applied: &Applied,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        let Some(change) = members::conf_change(op).filter(|_| !applied.events.is_empty()) else {
            return Ok(());
        };
        self.node.apply_conf_change(&change)?;
        let out = Op::ChangeMember { replica: self.settings.id, to: MemberChange::Out };
        if *op == out {
            outputs.push(Output::Dismissed);
        }
        Ok(())
    }

    fn decode(&self, entry: &LogEntry) -> Result<(Time, Op), UnknownOperation> {
        if entry.data.is_empty() {
            return Ok((self.cell.time(), Op::Nothing));
        }
        let (index, knows) = (entry.index, self.settings.level);
        if entry.level > knows || !cell::has_level(entry.level) {
            return Err(UnknownOperation::Level { index, needs: entry.level, knows });
        }
        let decoded = self.codec.decode(&entry.data);
        decoded.map_err(|what| UnknownOperation::Malformed { index, what })
    }
}
