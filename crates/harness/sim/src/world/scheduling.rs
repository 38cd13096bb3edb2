//! The scheduler's process, with a real scheduler, and a rival that makes arbitrary proposals.

use cell::{Assignment, Cell, TaskState};
use model::{InstanceId, Random, Span, TaskIndex, Time};
use replica::{Codec, LogEntry};
use scheduler::Scheduler;

use crate::injected_bug::InjectedBug;
use crate::network::{Fate, Node};
use crate::world::{Event, World};

/// The delay before a master that does not answer is tried again.
const RETRY: Span = Span::from_millis(100);
/// The delay after a rejection: the copy may have to catch up before the same plan makes sense.
const REFUSED_REST: Span = Span::from_millis(20);
/// Timeout of a proposal.
const PROPOSAL_TIMEOUT: Span = Span::from_secs(10);
/// Delay from an input until the turn that handles it.
const BATCH: Span = Span(30);

/// The scheduler's process.
#[derive(Debug, Default)]
pub(crate) struct SchedulerHost {
    /// Number of its starts and connections.
    pub(crate) incarnation: u64,
    frozen: bool,
    backlog: Vec<Event>,
    scheduler: Option<Scheduler>,
    /// The replica that it connects to and sends proposals to.
    host: usize,
    proposes_to: usize,
    /// The replica that sends it committed records, and that replica's incarnation.
    follows: Option<(usize, u64)>,
    proposal: Option<(u64, Vec<InstanceId>)>,
    proposals: u64,
    next: Option<Time>,
    rest_until: Time,
    turn: Option<Time>,
}

impl SchedulerHost {
    /// Its incarnation, if it follows that incarnation of a replica.
    pub(crate) fn followed_by(&self, host: usize, incarnation: u64) -> Option<u64> {
        (self.follows == Some((host, incarnation))).then_some(self.incarnation)
    }

    /// Its copy of the cell.
    pub(crate) fn copy(&self) -> Option<&Cell> {
        self.scheduler.as_ref().map(Scheduler::cell)
    }

    /// The replica that it follows.
    pub(crate) fn follows(&self) -> Option<usize> {
        self.follows.map(|(host, _)| host)
    }

    /// The process ends and loses all state.
    fn end(&mut self) {
        let (incarnation, proposals) = (self.incarnation + 1, self.proposals);
        let (host, proposes_to) = (self.host, self.proposes_to);
        *self = Self { incarnation, proposals, host, proposes_to, ..Self::default() };
    }
}

impl<C: Codec> World<C> {
    pub(crate) fn scheduler_event(&mut self, event: Event) {
        let (Event::SchedulerConnects { incarnation }
        | Event::Copied { incarnation, .. }
        | Event::Followed { incarnation, .. }
        | Event::StreamEnds { incarnation }
        | Event::SchedulerTurn { incarnation, .. }
        | Event::Judged { incarnation, .. }) = &event
        else {
            return;
        };
        if *incarnation != self.scheduler.incarnation {
            return;
        }
        if self.scheduler.frozen {
            self.scheduler.backlog.push(event);
            return;
        }
        match event {
            Event::SchedulerConnects { .. } => self.connect_scheduler(),
            Event::Copied { cell, .. } => {
                self.scheduler.scheduler = Some(Scheduler::new(*cell));
                self.scheduler.rest_until = self.now;
                self.plan_turn(self.now + BATCH);
            }
            Event::Followed { entry, .. } => self.follow(&entry),
            Event::StreamEnds { .. } => self.restart_scheduler(RETRY),
            Event::SchedulerTurn { at, .. } if self.scheduler.turn == Some(at) => {
                self.scheduler.turn = None;
                self.turn();
            }
            Event::Judged { number, refused, .. } => self.decided(number, refused),
            _ => {}
        }
    }

    /// Kills the scheduler, which is restarted after a while.
    pub(crate) fn restart_scheduler(&mut self, after: Span) {
        self.scheduler.end();
        let incarnation = self.scheduler.incarnation;
        self.agenda.at(self.now + after, Event::SchedulerConnects { incarnation });
    }

    /// Freezes or unfreezes it.
    pub(crate) fn freeze_scheduler(&mut self, frozen: bool) {
        self.scheduler.frozen = frozen;
        if !frozen {
            for event in std::mem::take(&mut self.scheduler.backlog) {
                self.agenda.at(self.now, event);
            }
        }
    }

    /// Its stream from one replica, or any, breaks; it notices after a while.
    pub(crate) fn stream_breaks(&mut self, from: Option<usize>, found_after: Span) {
        let breaks = |(host, _): &mut (usize, u64)| from.is_none_or(|from| from == *host);
        if self.scheduler.follows.take_if(breaks).is_some() {
            let incarnation = self.scheduler.incarnation;
            self.agenda.at(self.now + found_after, Event::StreamEnds { incarnation });
        }
    }

    fn connect_scheduler(&mut self) {
        let host = self.scheduler.host;
        let master = Node::Master(host);
        let there = self.network.stream(self.now, self.now, Node::Scheduler, master);
        let back = self.network.stream(self.now, self.now, master, Node::Scheduler);
        let incarnation = self.scheduler.incarnation;
        let cell = match (there, back) {
            (Some(_), Some(_)) if self.takes_followers(host) => self.masters[host].cell().cloned(),
            _ => None,
        };
        match cell {
            Some(cell) => {
                let arrives = back.unwrap_or(self.now) + Span::from_millis(1);
                self.scheduler.follows = Some((host, self.masters[host].incarnation));
                self.masters[host].last_sent = arrives;
                self.agenda.at(arrives, Event::Copied { incarnation, cell: Box::new(cell) });
            }
            None => {
                self.scheduler.host = self.another_master(host);
                self.agenda.at(self.now + RETRY, Event::SchedulerConnects { incarnation });
            }
        }
    }

    /// Whether a replica accepts new followers: a single replica does once it knows all that was
    /// acknowledged.
    fn takes_followers(&self, host: usize) -> bool {
        let master = &self.masters[host];
        !master.is_frozen() && (master.leads.is_some() || self.operator.has_several())
    }

    fn follow(&mut self, entry: &LogEntry) {
        let Some(scheduler) = &mut self.scheduler.scheduler else { return };
        let expected = scheduler.cell().index().0 + 1;
        if entry.index.0 != expected {
            let index = entry.index;
            let what =
                format!("record {index} came to the scheduler where {expected} was expected");
            return self.invariants.violated(what);
        }
        let decoded = match entry.data.is_empty() {
            true => Ok((scheduler.cell().time(), cell::Op::Nothing)),
            false => self.codec.decode(&entry.data),
        };
        match decoded {
            // An injected bug: one operation in several hundred is skipped.
            Ok((at, _))
                if self.injected_bug == Some(InjectedBug::MissedOperation)
                    && entry.index.0.is_multiple_of(257) =>
            {
                drop(scheduler.follow(at, &cell::Op::Nothing));
            }
            Ok((at, op)) => drop(scheduler.follow(at, &op)),
            Err(what) => self.invariants.violated(format!("a record cannot be read: {what}")),
        }
        self.plan_turn(self.now + BATCH);
    }

    fn plan_turn(&mut self, at: Time) {
        let at = at.max(self.now);
        if self.scheduler.turn.is_none_or(|turn| at < turn) {
            self.scheduler.turn = Some(at);
            let incarnation = self.scheduler.incarnation;
            self.agenda.at(at, Event::SchedulerTurn { incarnation, at });
        }
    }

    /// Runs the process when an input arrived or something is due.
    fn turn(&mut self) {
        let host = &mut self.scheduler;
        let Some(scheduler) = &mut host.scheduler else { return };
        if host.proposal.is_none() && self.now < host.rest_until {
            // What became due while a proposal was pending is done after the rest.
            let next = host.next.filter(|next| *next > self.now);
            host.next = Some(next.map_or(host.rest_until, |next| next.min(host.rest_until)));
        } else if host.proposal.is_none() {
            let plan = scheduler.pass(self.now);
            host.next = plan.next;
            if !plan.assignments.is_empty() {
                host.proposals += 1;
                let number = host.proposals;
                let instances = plan.assignments.iter().map(|planned| planned.instance).collect();
                host.proposal = Some((number, instances));
                self.propose(number, plan.assignments);
            }
        }
        let host = &self.scheduler;
        if let Some(next) = host.next.filter(|next| *next > self.now && host.proposal.is_none()) {
            self.plan_turn(next);
        }
    }

    fn propose(&mut self, number: u64, assignments: Vec<Assignment>) {
        let incarnation = self.scheduler.incarnation;
        let host = self.scheduler.proposes_to;
        if let Fate::Arrives(delay, _) = self.network.send(Node::Scheduler, Node::Master(host)) {
            let event =
                Event::Proposed { host, incarnation: Some(incarnation), number, assignments };
            self.agenda.at(self.now + delay, event);
        }
        let given_up = Event::Judged { incarnation, number, refused: None };
        self.agenda.at(self.now + PROPOSAL_TIMEOUT, given_up);
    }

    /// A proposal was decided by the master, or failed as a whole.
    pub(crate) fn answer_scheduler(
        &mut self,
        host: usize,
        incarnation: Option<u64>,
        number: u64,
        refused: Option<Vec<InstanceId>>,
    ) {
        let Some(incarnation) = incarnation else { return };
        if let Fate::Arrives(delay, _) = self.network.send(Node::Master(host), Node::Scheduler) {
            self.agenda.at(self.now + delay, Event::Judged { incarnation, number, refused });
        }
    }

    fn decided(&mut self, number: u64, refused: Option<Vec<InstanceId>>) {
        let host = &mut self.scheduler;
        let Some((_, instances)) = host.proposal.take_if(|(waiting, _)| *waiting == number) else {
            return;
        };
        let Some(scheduler) = &mut host.scheduler else { return };
        let count = match refused {
            // The copy will show it once it has caught up.
            Some(refused) => refused.len(),
            None => {
                let count = instances.len();
                scheduler.not_judged(instances);
                self.scheduler.proposes_to = self.another_master(self.scheduler.proposes_to);
                count
            }
        };
        self.counts.refused += count as u64;
        if count > 0 {
            self.scheduler.rest_until = self.now + REFUSED_REST;
        }
        self.plan_turn(self.now + BATCH);
    }
}

/// A second, arbitrary scheduler: from an often outdated copy it places tasks on random machines,
/// with any evictions it may make.
#[derive(Debug)]
pub(crate) struct Rival {
    random: Random,
    copy: Option<Cell>,
    pub(crate) active: bool,
    /// Mean time between its turns.
    pub(crate) pace: Span,
}

impl Rival {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, copy: None, active: false, pace: Span::from_millis(700) }
    }
}

impl<C: Codec> World<C> {
    /// Starts the rival with a mean time between turns.
    pub(crate) fn rival_begins(&mut self, pace: Span) {
        self.rival.pace = pace;
        if !std::mem::replace(&mut self.rival.active, true) {
            self.agenda.at(self.now, Event::RivalTurn);
        }
    }

    /// Stops the rival.
    pub(crate) fn rival_ends(&mut self) {
        self.rival.active = false;
    }

    pub(crate) fn rival_turn(&mut self) {
        if !self.rival.active {
            self.rival.copy = None;
            return;
        }
        if let Some(cell) = &self.rival.copy {
            let assignments = proposals(cell, self.now, &mut self.rival.random);
            if !assignments.is_empty() {
                let host = self.any_master();
                let event = Event::Proposed { host, incarnation: None, number: 0, assignments };
                self.agenda.at(self.now + Span::from_millis(1), event);
            }
        }
        // It refreshes its copy only occasionally; the copy may be a minute old.
        if self.rival.copy.is_none() || self.rival.random.chance(100) {
            let host = self.any_master();
            self.rival.copy = self.masters[host].cell().cloned();
        }
        let wait = self.rival.random.wait(self.rival.pace);
        self.agenda.at(self.now + wait, Event::RivalTurn);
    }
}

/// Proposals for a few pending tasks, each on a random machine with the possible victims there.
fn proposals(cell: &Cell, now: Time, random: &mut Random) -> Vec<Assignment> {
    let waits = |task: &cell::Task| match task.state {
        TaskState::Pending { not_before, .. } => not_before <= now,
        _ => false,
    };
    let jobs: Vec<_> = cell.jobs_with_pending_tasks().collect();
    let machines: Vec<_> = cell.machines().collect();
    let mut assignments = Vec::new();
    for _ in 0..=random.below(3) {
        let (Some(job), Some(machine)) = (random.one_of(&jobs), random.one_of(&machines)) else {
            break;
        };
        let Some((index, task)) = job.tasks().find(|(_, task)| waits(task)) else { continue };
        let instance = model::TaskId { collection: job.id, index }.generation(task.generation);
        let alloc = alloc(cell, job, random);
        let its = alloc.and_then(|alloc| cell.machine(cell.placement(alloc)?.machine));
        let machine = its.unwrap_or(machine);
        let ports = machine.free_ports(job.port_count(index), &[]);
        let takes_address = job.network(index).is_own() && alloc.is_none();
        let address = if takes_address { machine.free_address(&[]) } else { None };
        let victims = match alloc {
            Some(_) => Vec::new(),
            None => victims(cell, job, index, machine),
        };
        let machine = machine.id;
        assignments.push(Assignment { instance, alloc, machine, address, ports, victims });
    }
    assignments
}

/// A random alloc of a job's alloc set, if it runs in one.
fn alloc(cell: &Cell, job: &cell::Job, random: &mut Random) -> Option<InstanceId> {
    let set = cell.job(job.alloc_set?)?;
    let allocs = set.tasks().filter_map(|(index, _)| set.instance(index));
    let allocs: Vec<_> = allocs.filter(|alloc| cell.placement(*alloc).is_some()).collect();
    random.one_of(&allocs).copied()
}

/// Tasks of lower priority, lowest first, as many as are needed for room.
fn victims(
    cell: &Cell,
    job: &cell::Job,
    index: TaskIndex,
    machine: &cell::Machine,
) -> Vec<InstanceId> {
    let asked = job.limit(index);
    let mut lower: Vec<_> = machine
        .instances()
        .iter()
        .filter(|id| cell.placement(**id).is_some_and(|placed| placed.stop.is_none()))
        .filter_map(|id| Some((cell.job(id.collection)?.spec.priority, *id)))
        .filter(|(priority, _)| *priority < job.spec.priority)
        .collect();
    lower.sort_unstable();
    let (mut free, mut victims) = (machine.free(), Vec::new());
    for (_, id) in lower {
        if asked.first_above(&free).is_none() {
            break;
        }
        free = free.plus(cell.job(id.collection).map_or(asked, |job| job.limit(id.index)));
        victims.push(id);
    }
    victims
}
