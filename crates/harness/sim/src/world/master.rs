//! A Borgmaster's process: a real replica over a simulated disk, and the parties that wait for
//! answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cell::{Applied, Cell, Outcome};
use master::Partition;
use model::{CellCopy, LogIndex, ReplicaId, SchedulerName, Span, Term, Time, UserName};
use replica::{
    Body, Bootstrap, Codec, Consensus, ConsensusKind, Input, LogEntry, Message, Output, Persist,
    Refusal, Replica, ReplicaError, Settings, Ticket,
};

use crate::disk::{Checkpoint, Crash, Disk};
use crate::injected_bug::InjectedBug;
use crate::log_observer::{ReplicaObservations, Tap};
use crate::machine::Machine;
use crate::machine::inputs::{InputsAnswer, InputsRequest};
use crate::network::Node;
use crate::world::clients::ClientRequest;
use crate::world::estimates::Estimates;
use crate::world::{Event, World, cell_name, number_of};

/// Delay from an input until the step that handles it: inputs that arrive meanwhile are in the same
/// step.
const BATCH: Span = Span(30);
/// How long writing a checkpoint takes.
const CHECKPOINT_TAKES: Span = Span::from_millis(400);

/// Who waits for an answer of a master.
#[derive(Clone, Debug)]
pub(crate) enum Requester {
    Client {
        client: usize,
        attempt: u64,
        again: Option<cell::RequestId>,
    },
    /// A proposal of the scheduler in one of its incarnations; of the rival if there is none.
    Scheduler {
        incarnation: Option<u64>,
        number: u64,
        instances: Vec<model::InstanceId>,
    },
    /// What the scheduler enables, and the assignments of the same proposal, which are decided after it.
    Enabler {
        incarnation: Option<u64>,
        number: u64,
        then: Box<(Time, Vec<cell::Assignment>)>,
    },
    /// A reader: the acknowledged index at its request.
    Reader(LogIndex),
    /// A Borglet that asks for what a task needs.
    Machine(InputsRequest),
}

/// The process of one replica, or the host where it was.
pub(crate) struct MasterHost<C: Codec> {
    pub(crate) settings: Settings,
    /// The administrator of the cell that it bootstraps, if it does.
    pub(crate) founder: Option<UserName>,
    pub(crate) disk: Disk,
    /// Number of starts: events of earlier incarnations are dropped.
    pub(crate) incarnation: u64,
    replica: Option<Replica<Tap<C>>>,
    pub(crate) seen: Rc<RefCell<ReplicaObservations>>,
    pub(crate) estimates: Estimates,
    frozen: bool,
    /// It is not restarted any more.
    pub(crate) gone: bool,
    backlog: Vec<Event>,
    inbox: Vec<Input>,
    wakes: Option<Time>,
    askers: BTreeMap<Ticket, Requester>,
    last_ticket: u64,
    pub(crate) leads: Option<Term>,
    /// The term of the record that it applied last.
    pub(crate) term: Term,
    checkpoint_every: u64,
    pub(crate) last_checkpoint: LogIndex,
    /// When the last message to the scheduler arrives.
    pub(crate) last_sent: Time,
}

impl<C: Codec> MasterHost<C> {
    pub(crate) fn new(
        settings: Settings,
        disk: Disk,
        founder: Option<UserName>,
        checkpoint_every: u64,
        seen: Rc<RefCell<ReplicaObservations>>,
    ) -> Self {
        Self {
            estimates: Estimates::new(&settings),
            settings,
            founder,
            disk,
            incarnation: 0,
            replica: None,
            seen,
            frozen: false,
            gone: false,
            backlog: Vec::new(),
            inbox: Vec::new(),
            wakes: None,
            askers: BTreeMap::new(),
            last_ticket: 0,
            leads: None,
            term: Term(0),
            checkpoint_every,
            last_checkpoint: LogIndex(0),
            last_sent: Time::ZERO,
        }
    }

    pub(crate) fn id(&self) -> ReplicaId {
        self.settings.id
    }

    pub(crate) fn cell(&self) -> Option<&Cell> {
        self.replica.as_ref().map(Replica::cell)
    }

    /// Which copy of the cell that is.
    pub(crate) fn copy(&self) -> Option<CellCopy> {
        let index = self.cell()?.index();
        let restore_epoch = self.disk.restore_epoch;
        Some(CellCopy { index, term: self.term, restore_epoch })
    }

    /// The records after a copy, if it is one of the same history and they are in memory.
    pub(crate) fn records_after(&self, has: CellCopy) -> Option<Vec<LogEntry>> {
        let is_continued = has.restore_epoch == self.disk.restore_epoch;
        self.replica.as_ref().filter(|_| is_continued)?.records_after(has.index, has.term)
    }

    /// When the names of that cell changed.
    pub(crate) fn names(&self) -> Option<&bns::Changes> {
        self.replica.as_ref().map(Replica::names)
    }

    /// Makes a round of estimates, if the process runs.
    pub(crate) fn estimate(&mut self, now: Time) -> Option<Input> {
        let replica = self.replica.as_ref()?;
        let partition = Partition { me: self.settings.id, spread: Arc::clone(replica.spread()) };
        self.estimates.round(now, replica.cell(), &partition)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.replica.is_some()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Queues an event until it is unfrozen.
    pub(crate) fn later(&mut self, event: Event) {
        self.backlog.push(event);
    }

    /// Crashes the process; returns whether there was one.
    pub(crate) fn crash(&mut self, how: Crash) -> bool {
        if self.replica.take().is_none() {
            return false;
        }
        self.disk.crash(how);
        self.incarnation += 1;
        self.estimates = Estimates::new(&self.settings);
        self.inbox.clear();
        self.askers.clear();
        self.backlog.clear();
        self.frozen = false;
        self.wakes = None;
        self.leads = None;
        true
    }

    pub(crate) fn ticket(&mut self, asker: Requester) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.askers.insert(ticket, asker);
        ticket
    }
}

impl<C: Codec> World<C> {
    /// Starts a replica with what its disk holds.
    pub(crate) fn start_master(&mut self, host: usize) {
        if self.masters[host].is_up() || self.masters[host].gone {
            return;
        }
        let Some(recovered) = self.masters[host].disk.recover() else {
            return self.lose_replica(host);
        };
        let tap = Tap::new(Rc::clone(&self.codec), Rc::clone(&self.masters[host].seen));
        let bootstrap = cell_name().zip(self.masters[host].founder.clone());
        let bootstrap = bootstrap.map(|(name, administrator)| {
            // The load has more users than get quota.
            let queue = self.has_queue;
            Bootstrap { name, administrator, quota: false, queue }
        });
        let term = recovered.checkpoint.as_ref().map_or(Term(0), |(_, term)| *term);
        let (settings, now) = (self.masters[host].settings.clone(), self.now);
        match Replica::new(settings, tap, now, recovered, bootstrap) {
            Ok(replica) => {
                self.counts.masters += 1;
                let master = &mut self.masters[host];
                master.seen.borrow_mut().begin(replica.cell());
                master.seen.borrow_mut().of_before =
                    master.disk.restore_epoch != self.invariants.epoch();
                (master.term, master.last_checkpoint) = (term, replica.cell().index());
                master.replica = Some(replica);
                let (incarnation, interval) =
                    (master.incarnation, master.settings.master.estimate_interval);
                self.wake_master(host, now);
                self.agenda.at(now + interval, Event::Estimates { host, incarnation });
            }
            Err(error) => self.invariants.violated(format!("the master cannot start: {error}")),
        }
    }

    /// Freezes or unfreezes a replica.
    pub(crate) fn freeze_master(&mut self, host: usize, frozen: bool) {
        let master = &mut self.masters[host];
        master.frozen = frozen && master.is_up();
        if !master.frozen {
            for event in std::mem::take(&mut master.backlog) {
                self.agenda.at(self.now, event);
            }
        }
    }

    /// A disk has room again: pending writes continue.
    pub(crate) fn disk_has_room(&mut self, host: usize) {
        self.masters[host].disk.full = false;
        if let Some(number) = self.masters[host].disk.waiting() {
            let incarnation = self.masters[host].incarnation;
            self.agenda
                .at(self.now + Span::from_millis(1), Event::Written { host, incarnation, number });
        }
    }

    fn wake_master(&mut self, host: usize, at: Time) {
        let (at, master) = (at.max(self.now), &mut self.masters[host]);
        if master.wakes.is_none_or(|wakes| at < wakes) {
            master.wakes = Some(at);
            self.agenda.at(at, Event::MasterStep { host, incarnation: master.incarnation });
        }
    }

    pub(crate) fn tell_master(&mut self, host: usize, input: Input) {
        self.masters[host].inbox.push(input);
        self.wake_master(host, self.now + BATCH);
    }

    pub(crate) fn master_wakes(&mut self, host: usize, incarnation: u64) {
        let master = &mut self.masters[host];
        if incarnation != master.incarnation || master.wakes.is_none_or(|wakes| wakes > self.now) {
            return;
        }
        master.wakes = None;
        let Some(replica) = &mut master.replica else { return };
        self.counts.steps += 1;
        let mut outputs = Vec::new();
        let stepped = replica.step(self.now, master.inbox.drain(..), &mut outputs);
        let next = replica.next_step();
        let note = replica.note();
        let applied = self.collect_applied(host);
        if let Err(error) = stepped {
            outputs.retain(|output| matches!(output, Output::Committed { .. }));
            self.stops(host, &error);
        }
        for output in outputs {
            // Handling the output may have ended it.
            let ended = self.masters[host].incarnation != incarnation;
            if !ended || matches!(output, Output::Committed { .. }) {
                self.handle_output(host, output, &applied);
            }
        }
        if self.masters[host].incarnation == incarnation {
            if let Some(note) = note {
                self.masters[host].disk.note(note);
            }
            self.consider_checkpoint(host);
            self.wake_master(host, next);
        }
    }

    /// Takes what a replica applied for the first time, and reports its violations.
    fn collect_applied(&mut self, host: usize) -> Vec<(LogIndex, Applied)> {
        let mut seen = self.masters[host].seen.borrow_mut();
        for violation in std::mem::take(&mut seen.violations) {
            self.invariants.violated(violation);
        }
        for (index, state) in std::mem::take(&mut seen.states) {
            self.invariants.state(index, state);
        }
        std::mem::take(&mut seen.applied)
    }

    fn handle_output(&mut self, host: usize, output: Output, applied: &[(LogIndex, Applied)]) {
        match output {
            Output::Persist(persist) => self.persist(host, persist),
            Output::Send(message) => self.send_message(host, message),
            Output::Reply(ticket, index, outcome) => {
                self.invariants.acknowledged(index);
                self.reply(host, ticket, index, outcome, applied);
            }
            Output::Readable(ticket, index) => {
                if let Some(Requester::Reader(floor)) = self.masters[host].askers.remove(&ticket) {
                    self.counts.reads += 1;
                    self.invariants.read(self.masters[host].id(), floor, index);
                }
            }
            Output::Refused(ticket, refusal) => self.refuse(host, ticket, refusal),
            Output::Poll(poll) => self.poll(host, poll),
            Output::Committed { .. } if self.masters[host].seen.borrow().of_before => {}
            Output::Committed { entry, at, events } => {
                self.masters[host].term = entry.term;
                let applied = applied_at(applied, entry.index);
                if self.invariants.committed(
                    &entry,
                    at,
                    &events,
                    applied,
                    self.masters[host].cell(),
                ) {
                    self.counts.operations += 1;
                    self.operations.count(self.age());
                    self.check_really_ended(host);
                    applied.into_iter().for_each(|applied| self.members_changed(host, applied));
                }
                self.stream(host, entry);
            }
            Output::Restored { term, .. } => {
                self.masters[host].term = term;
                self.restored_from_snapshot(host);
            }
            Output::Replaced { .. } => {}
            Output::Leads(term) => {
                self.masters[host].leads = Some(term);
                let index = self.masters[host].cell().map_or(LogIndex(0), Cell::index);
                self.invariants.leads(index);
            }
            Output::Follows => {
                self.masters[host].leads = None;
                if self.injected_bug == Some(InjectedBug::StaleRole) {
                    self.announce(host);
                }
            }
            Output::Leader(leader, term) => self.elected(host, leader, term),
            Output::Dismissed => self.dismissed(host),
        }
    }

    /// For an injected bug: a replica tells the others that it leads in its current term.
    fn announce(&mut self, host: usize) {
        let master = &self.masters[host];
        let Some(replica) = &master.replica else { return };
        let (from, directory) = (master.id(), master.settings.directory);
        let restore_epoch = master.disk.restore_epoch;
        let (cell, term) = (replica.cell(), replica.term());
        let (index, log_term) = (cell.index(), master.term);
        let kind = ConsensusKind::Append;
        let says = Consensus { kind, term, log_term, index, commit: index, ..Consensus::default() };
        let others: Vec<ReplicaId> = cell.voters().filter(|other| *other != from).collect();
        for to in others {
            let body = Body::Consensus(Box::new(says.clone()));
            self.send_message(host, Message { from, to, restore_epoch, directory, body });
        }
    }

    fn persist(&mut self, host: usize, persist: Persist) {
        let master = &mut self.masters[host];
        let (incarnation, number) = (master.incarnation, persist.number);
        let votes = persist.hard_state.is_some_and(|promised| promised.vote > 0);
        let only_votes = votes && persist.entries.is_empty();
        let follows = master.leads.is_none();
        let takes = master.disk.write(persist);
        self.agenda.at(self.now + takes, Event::Written { host, incarnation, number });
        if only_votes {
            self.voted(host, takes);
        }
        if self.injected_bug == Some(InjectedBug::EarlyAcknowledgement) && follows {
            self.tell_master(host, Input::Persisted(number));
        }
    }

    /// A replica that cannot continue has stopped; checks whether it may.
    fn stops(&mut self, host: usize, error: &ReplicaError) {
        let forgets = matches!(
            error,
            ReplicaError::LostRecords { .. } | ReplicaError::AnotherDirectory { .. }
        );
        if !forgets || !self.masters[host].disk.lost {
            let id = self.masters[host].id();
            self.invariants.violated(format!("the master cannot go on: {error} (replica {id})"));
            return;
        }
        self.lose_replica(host);
    }

    /// What the cell records as ended on a machine does not run there.
    fn check_really_ended(&mut self, host: usize) {
        for (id, machine) in self.invariants.take_ended() {
            let machine = self.masters[host].cell().and_then(|cell| cell.machine(machine));
            let number = machine.and_then(|machine| number_of(&machine.address));
            let there = number.and_then(|number| self.machines.get(number));
            let runs = |there: &Machine| there.running().any(|running| running == id);
            if there.is_some_and(|there| runs(there) || there.allocs.contains_key(&id)) {
                self.invariants.violated(format!(
                    "the cell has recorded that {id} ended, but it is still running"
                ));
            }
        }
    }

    fn reply(
        &mut self,
        host: usize,
        ticket: Ticket,
        index: LogIndex,
        outcome: Outcome,
        applied: &[(LogIndex, Applied)],
    ) {
        match self.masters[host].askers.remove(&ticket) {
            Some(Requester::Client { client, attempt, again }) => {
                self.answer_client(host, client, attempt, again, Ok((index, outcome)));
            }
            Some(Requester::Scheduler { incarnation, number, instances }) => {
                let Outcome::Assigned(results) = outcome else { return };
                self.invariants.assigned(&instances, &results, applied_at(applied, index));
                let judged = instances.into_iter().zip(results);
                let refused = judged.filter(|(_, result)| result.is_err()).map(|(id, _)| id);
                self.answer_scheduler(host, incarnation, number, Some(refused.collect()));
            }
            Some(Requester::Enabler { incarnation, number, then }) => {
                let (began, assignments) = *then;
                if assignments.is_empty() {
                    self.answer_scheduler(host, incarnation, number, Some(Vec::new()));
                } else {
                    self.proposed(host, incarnation, number, began, assignments);
                }
            }
            Some(Requester::Machine(asked)) => self.inputs_read(&asked, &outcome),
            Some(Requester::Reader(_)) | None => {}
        }
    }

    fn refuse(&mut self, host: usize, ticket: Ticket, refusal: Refusal) {
        match self.masters[host].askers.remove(&ticket) {
            Some(Requester::Client { client, attempt, again }) => {
                self.answer_client(host, client, attempt, again, Err(refusal));
            }
            Some(
                Requester::Scheduler { incarnation, number, .. }
                | Requester::Enabler { incarnation, number, .. },
            ) => {
                self.answer_scheduler(host, incarnation, number, None);
            }
            Some(Requester::Machine(asked)) => self.answer_inputs(&asked, InputsAnswer::Later),
            Some(Requester::Reader(_)) | None => {}
        }
    }

    pub(crate) fn asked(&mut self, asked: ClientRequest) {
        let ClientRequest { host, client, attempt, again, what } = asked;
        if !self.masters[host].is_up() {
            // A client that knows other replicas does not wait after a refused connection.
            if self.operator.has_several() {
                self.answer_client(host, client, attempt, again, Err(Refusal::NotLeading));
            }
            return;
        }
        let ticket = self.masters[host].ticket(Requester::Client { client, attempt, again });
        let user = self.clients.user(client);
        let input = match what {
            None => Input::OpenSession(ticket, user),
            Some((id, mutation)) => Input::Request(ticket, id, user, mutation),
        };
        self.tell_master(host, input);
    }

    /// A proposal of a scheduler arrives: what it enables, then its assignments.
    pub(crate) fn enabled(
        &mut self,
        host: usize,
        incarnation: Option<u64>,
        number: u64,
        enabled: Vec<model::Enabled>,
        then: (Time, Vec<cell::Assignment>),
    ) {
        if enabled.is_empty() {
            return self.proposed(host, incarnation, number, then.0, then.1);
        }
        if self.masters[host].is_up() {
            let then = Box::new(then);
            let asker = Requester::Enabler { incarnation, number, then };
            let ticket = self.masters[host].ticket(asker);
            self.tell_master(host, Input::Enable(ticket, SchedulerName::main(), enabled));
        }
    }

    pub(crate) fn proposed(
        &mut self,
        host: usize,
        incarnation: Option<u64>,
        number: u64,
        began: Time,
        assignments: Vec<cell::Assignment>,
    ) {
        if self.masters[host].is_up() {
            let instances = assignments.iter().map(|assignment| assignment.instance).collect();
            let ticket =
                self.masters[host].ticket(Requester::Scheduler { incarnation, number, instances });
            let main = SchedulerName::main();
            let by = match incarnation {
                Some(_) => main,
                None => SchedulerName::new("rival").unwrap_or(main),
            };
            self.tell_master(host, Input::Propose(ticket, by, assignments, Some(began)));
        }
    }

    pub(crate) fn written(&mut self, host: usize, incarnation: u64, number: u64) {
        if incarnation == self.masters[host].incarnation && self.masters[host].disk.finish(number) {
            self.tell_master(host, Input::Persisted(number));
        }
    }

    fn consider_checkpoint(&mut self, host: usize) {
        let master = &mut self.masters[host];
        let Some(cell) = master.cell() else { return };
        if cell.index().0 < master.last_checkpoint.0 + master.checkpoint_every {
            return;
        }
        let (cell, term, incarnation) = (Box::new(cell.clone()), master.term, master.incarnation);
        master.last_checkpoint = cell.index();
        let event = Event::Checkpointed { host, incarnation, cell, term };
        self.agenda.at(self.now + CHECKPOINT_TAKES, event);
    }

    pub(crate) fn checkpointed(&mut self, host: usize, incarnation: u64, cell: Cell, term: Term) {
        let master = &mut self.masters[host];
        if incarnation != master.incarnation || !master.disk.takes_checkpoint(cell.index()) {
            return;
        }
        let needed_from = master.disk.checkpoint(Checkpoint { cell, term });
        self.tell_master(host, Input::Checkpointed(needed_from));
    }

    /// Sends a committed record to its follower.
    fn stream(&mut self, host: usize, entry: LogEntry) {
        let Some(incarnation) = self.scheduler.followed_by(host, self.masters[host].incarnation)
        else {
            return;
        };
        let last = self.masters[host].last_sent;
        match self.network.stream(self.now, last, Node::Master(host), Node::Scheduler) {
            Some(arrives) => {
                self.masters[host].last_sent = arrives;
                self.agenda.at(arrives, Event::Followed { incarnation, entry });
            }
            None => self.stream_breaks(Some(host), Span::from_secs(5)),
        }
    }
}

/// What was applied at an index, from a list in order of index.
fn applied_at(applied: &[(LogIndex, Applied)], index: LogIndex) -> Option<&Applied> {
    let place = applied.binary_search_by_key(&index, |(index, _)| *index).ok()?;
    Some(&applied[place].1)
}
