//! The Borgmaster's process: a real replica over a simulated disk, and who waits for what.

use std::collections::BTreeMap;
use std::rc::Rc;

use cell::{Applied, Cell, Outcome};
use master::{Answer, Poll};
use model::{LogIndex, Span, Term, Time, UserName};
use replica::{Codec, Founding, Input, LogEntry, Output, Refusal, Replica, Settings, Ticket};

use crate::clients::Asked;
use crate::disk::{Checkpoint, Crash, Disk};
use crate::machine::{Call, Machine};
use crate::network::{Fate, Node};
use crate::tap::Tap;
use crate::world::{Event, World, cell_name, number_of};

/// From something coming in until the step that takes it: what comes meanwhile is in the same step.
const BATCH: Span = Span(30);
/// How long an answer may take beyond the time for which it may be held back.
const PATIENCE: Span = Span::from_secs(3);
/// How long a checkpoint takes to be written.
const CHECKPOINT_TAKES: Span = Span::from_millis(400);

/// Whoever waits for an answer of the master.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    Client {
        client: usize,
        attempt: u64,
        again: Option<cell::RequestId>,
    },
    /// A proposal of the scheduler in one of its lives; of the rival where there is none.
    Scheduler {
        life: Option<u64>,
        number: u64,
        instances: Vec<model::InstanceId>,
    },
}

/// The process, or the place where it was.
pub(crate) struct MasterHost<C: Codec> {
    settings: Settings,
    founder: Option<UserName>,
    pub(crate) disk: Disk,
    /// Counts its lives: what belongs to an earlier one does not happen any more.
    pub(crate) life: u64,
    replica: Option<Replica<Tap<C>>>,
    frozen: bool,
    backlog: Vec<Event>,
    inbox: Vec<Input>,
    wakes: Option<Time>,
    askers: BTreeMap<Ticket, Asker>,
    last_ticket: u64,
    pub(crate) leads: Option<Term>,
    term: Term,
    checkpoint_every: u64,
    last_checkpoint: LogIndex,
    pub(crate) last_sent: Time,
}

impl<C: Codec> MasterHost<C> {
    pub(crate) fn new(
        settings: Settings,
        disk: Disk,
        founder: Option<UserName>,
        checkpoint_every: u64,
    ) -> Self {
        Self {
            settings,
            founder,
            disk,
            life: 0,
            replica: None,
            frozen: false,
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

    pub(crate) fn cell(&self) -> Option<&Cell> {
        self.replica.as_ref().map(Replica::cell)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.replica.is_some()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Keeps something for when it goes on.
    pub(crate) fn later(&mut self, event: Event) {
        self.backlog.push(event);
    }

    /// Whether there was a process to crash.
    pub(crate) fn crash(&mut self, how: Crash) -> bool {
        if self.replica.take().is_none() {
            return false;
        }
        self.disk.crash(how);
        self.life += 1;
        self.inbox.clear();
        self.askers.clear();
        self.backlog.clear();
        self.frozen = false;
        self.wakes = None;
        self.leads = None;
        true
    }

    fn ticket(&mut self, asker: Asker) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.askers.insert(ticket, asker);
        ticket
    }
}

impl<C: Codec> World<C> {
    /// Starts the master with what its disk holds.
    pub(crate) fn start_master(&mut self) {
        if self.master.is_up() {
            return;
        }
        let recovered = self.master.disk.recover();
        let tap = Tap::new(Rc::clone(&self.codec), Rc::clone(&self.seen));
        let administrator = self.master.founder.clone();
        let founding = cell_name().zip(administrator);
        let founding = founding.map(|(name, administrator)| {
            // Its load is of more users than anybody grants quota to.
            Founding { name, administrator, quota: false }
        });
        let (settings, now) = (self.master.settings.clone(), self.now);
        match Replica::new(settings, tap, now, recovered, founding) {
            Ok(replica) => {
                self.counts.masters += 1;
                self.seen.borrow_mut().begin(replica.cell());
                self.master.last_checkpoint = replica.cell().index();
                self.master.replica = Some(replica);
                self.wake_master(now);
            }
            Err(error) => self.judge.violated(format!("the master cannot start: {error}")),
        }
    }

    /// The master stops for a while, and goes on as if nothing had been.
    pub(crate) fn freeze_master(&mut self, frozen: bool) {
        self.master.frozen = frozen && self.master.is_up();
        if !self.master.frozen {
            for event in std::mem::take(&mut self.master.backlog) {
                self.agenda.at(self.now, event);
            }
        }
    }

    /// The disk has room again: what waited for it is written.
    pub(crate) fn disk_has_room(&mut self) {
        self.master.disk.full = false;
        if let Some(number) = self.master.disk.waiting() {
            let life = self.master.life;
            self.agenda.at(self.now + Span::from_millis(1), Event::Written { life, number });
        }
    }

    fn wake_master(&mut self, at: Time) {
        let at = at.max(self.now);
        if self.master.wakes.is_none_or(|wakes| at < wakes) {
            self.master.wakes = Some(at);
            self.agenda.at(at, Event::MasterStep { life: self.master.life });
        }
    }

    pub(crate) fn tell_master(&mut self, input: Input) {
        self.master.inbox.push(input);
        self.wake_master(self.now + BATCH);
    }

    pub(crate) fn master_wakes(&mut self, life: u64) {
        if life != self.master.life || self.master.wakes.is_none_or(|wakes| wakes > self.now) {
            return;
        }
        self.master.wakes = None;
        let Some(replica) = &mut self.master.replica else { return };
        self.counts.steps += 1;
        let mut outputs = Vec::new();
        let stepped = replica.step(self.now, self.master.inbox.drain(..), &mut outputs);
        let next = replica.next_step();
        if let Err(error) = stepped {
            self.judge.violated(format!("the master cannot go on: {error}"));
            return;
        }
        let (applied, found) = {
            let mut seen = self.seen.borrow_mut();
            (std::mem::take(&mut seen.applied), std::mem::take(&mut seen.violations))
        };
        found.into_iter().for_each(|violation| self.judge.violated(violation));
        for output in outputs {
            self.put_out(output, &applied);
        }
        self.consider_checkpoint();
        self.wake_master(next);
    }

    fn put_out(&mut self, output: Output, applied: &[(LogIndex, Applied)]) {
        match output {
            Output::Persist(persist) => {
                let (life, number) = (self.master.life, persist.number);
                let takes = self.master.disk.write(persist);
                self.agenda.at(self.now + takes, Event::Written { life, number });
            }
            Output::Reply(ticket, index, outcome) => {
                self.judge.acknowledged(index);
                self.reply(ticket, index, outcome, applied);
            }
            Output::Refused(ticket, refusal) => self.refuse(ticket, refusal),
            Output::Poll(poll) => self.poll(poll),
            Output::Committed { entry, at, events } => {
                self.master.term = entry.term;
                let applied = applied_at(applied, entry.index);
                if self.judge.committed(&entry, at, &events, applied) {
                    self.counts.operations += 1;
                    self.operations.count(self.age());
                    self.really_ended();
                }
                self.stream(entry);
            }
            Output::Leads(term) => {
                self.master.leads = Some(term);
                let index = self.master.cell().map_or(LogIndex(0), Cell::index);
                self.judge.leads(index);
            }
            Output::Follows => self.master.leads = None,
            // There is one replica.
            Output::Send(_)
            | Output::Readable(..)
            | Output::Restored { .. }
            | Output::Leader(..)
            | Output::Dismissed => {}
        }
    }

    /// What the cell says has ended on a machine does not run there.
    fn really_ended(&mut self) {
        for (id, machine) in self.judge.take_ended() {
            let machine = self.master.cell().and_then(|cell| cell.machine(machine));
            let number = machine.and_then(|machine| number_of(&machine.address));
            let there = number.and_then(|number| self.machines.get(number));
            let runs = |there: &Machine| there.running().any(|running| running == id);
            if there.is_some_and(|there| runs(there) || there.allocs.contains_key(&id)) {
                self.judge.violated(format!("the cell says that {id} has ended, and it runs on"));
            }
        }
    }

    fn reply(
        &mut self,
        ticket: Ticket,
        index: LogIndex,
        outcome: Outcome,
        applied: &[(LogIndex, Applied)],
    ) {
        match self.master.askers.remove(&ticket) {
            Some(Asker::Client { client, attempt, again }) => {
                self.answer_client(client, attempt, again, Ok((index, outcome)));
            }
            Some(Asker::Scheduler { life, number, instances }) => {
                let Outcome::Assigned(results) = outcome else { return };
                self.judge.assigned(&instances, &results, applied_at(applied, index));
                let judged = instances.into_iter().zip(results);
                let refused = judged.filter(|(_, result)| result.is_err()).map(|(id, _)| id);
                self.answer_scheduler(life, number, Some(refused.collect()));
            }
            None => {}
        }
    }

    fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        match self.master.askers.remove(&ticket) {
            Some(Asker::Client { client, attempt, again }) => {
                self.answer_client(client, attempt, again, Err(refusal));
            }
            Some(Asker::Scheduler { life, number, .. }) => {
                self.answer_scheduler(life, number, None);
            }
            None => {}
        }
    }

    pub(crate) fn asked(&mut self, asked: Asked) {
        if !self.master.is_up() {
            return;
        }
        let Asked { client, attempt, again, what } = asked;
        let ticket = self.master.ticket(Asker::Client { client, attempt, again });
        let user = self.clients.user(client);
        self.tell_master(match what {
            None => Input::OpenSession(ticket, user),
            Some((id, mutation)) => Input::Request(ticket, id, user, mutation),
        });
    }

    pub(crate) fn proposed(
        &mut self,
        life: Option<u64>,
        number: u64,
        assignments: Vec<cell::Assignment>,
    ) {
        if self.master.is_up() {
            let instances = assignments.iter().map(|assignment| assignment.instance).collect();
            let ticket = self.master.ticket(Asker::Scheduler { life, number, instances });
            self.tell_master(Input::Propose(ticket, assignments));
        }
    }

    pub(crate) fn written(&mut self, life: u64, number: u64) {
        if life == self.master.life && self.master.disk.finish(number) {
            self.tell_master(Input::Persisted(number));
        }
    }

    /// Sends a poll; in the end it is answered, or given up.
    fn poll(&mut self, mut poll: Poll) {
        self.counts.polls += 1;
        self.polls.count(self.age());
        let (number, hold) = (self.next_call(), poll.hold);
        let call = Call {
            number,
            master: self.master.life,
            machine: poll.machine,
            had_order: poll.order.is_some(),
            deadline: self.now + hold + PATIENCE,
            ghost: false,
        };
        self.judge.orders(&mut poll);
        let Some(machine) = number_of(&poll.address).filter(|number| *number < self.machines.len())
        else {
            return self.agenda.at(call.deadline, Event::Answered { call, answer: Answer::Failed });
        };
        match self.network.send(Node::Master, Node::Machine(machine)) {
            Fate::Lost => self.gives_call_up(call),
            Fate::Arrives(delay, again) => {
                if let Some(again) = again {
                    let (call, poll) = (Call { ghost: true, ..call }, Box::new(poll.clone()));
                    self.agenda.at(self.now + again, Event::Polled { machine, call, poll });
                }
                let poll = Box::new(poll);
                self.agenda.at(self.now + delay, Event::Polled { machine, call, poll });
            }
        }
    }

    /// The master hears nothing of a call, and gives it up when its time is over.
    pub(crate) fn gives_call_up(&mut self, call: Call) {
        if !call.ghost {
            let at = call.deadline.max(self.now);
            self.agenda.at(at, Event::Answered { call, answer: Answer::Failed });
        }
    }

    pub(crate) fn answered(&mut self, call: Call, answer: Answer) {
        if call.master == self.master.life && !call.ghost {
            let Call { machine, had_order, .. } = call;
            if let Answer::Report { .. } = answer {
                self.seen.borrow_mut().heard(machine, self.now);
            }
            self.tell_master(Input::Answered { machine, had_order, answer });
        }
    }

    fn consider_checkpoint(&mut self) {
        let Some(cell) = self.master.cell() else { return };
        if cell.index().0 < self.master.last_checkpoint.0 + self.master.checkpoint_every {
            return;
        }
        let (cell, term, life) = (Box::new(cell.clone()), self.master.term, self.master.life);
        self.master.last_checkpoint = cell.index();
        self.agenda.at(self.now + CHECKPOINT_TAKES, Event::Checkpointed { life, cell, term });
    }

    pub(crate) fn checkpointed(&mut self, life: u64, cell: Cell, term: Term) {
        if life != self.master.life || self.master.disk.full || self.master.disk.lies {
            return;
        }
        let needed_from = self.master.disk.checkpoint(Checkpoint { cell, term });
        self.tell_master(Input::Checkpointed(needed_from));
    }

    /// Every follower gets a committed record.
    fn stream(&mut self, entry: LogEntry) {
        let Some(life) = self.scheduler.followed_by(self.master.life) else { return };
        let last = self.master.last_sent;
        match self.network.stream(self.now, last, Node::Master, Node::Scheduler) {
            Some(arrives) => {
                self.master.last_sent = arrives;
                self.agenda.at(arrives, Event::Followed { life, entry });
            }
            None => self.stream_breaks(Span::from_secs(5)),
        }
    }
}

/// What was applied at an index, of what was applied in their order.
fn applied_at(applied: &[(LogIndex, Applied)], index: LogIndex) -> Option<&Applied> {
    let place = applied.binary_search_by_key(&index, |(index, _)| *index).ok()?;
    Some(&applied[place].1)
}
