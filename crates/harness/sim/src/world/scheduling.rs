//! The scheduler's process around the production code of its loop (`follower`): its connections and its
//! restarts. And a rival that makes arbitrary proposals.

use cell::{Assignment, Cell, TaskState};
use follower::{Effect, Follower, Input, Proposal};
use model::{CellCopy, InstanceId, Random, Span, TaskIndex, Time};
use replica::{Codec, LogEntry};

use crate::injected_bug::InjectedBug;
use crate::network::{Fate, Node};
use crate::world::{Event, World};

/// Delay from an input until the tick that handles it.
const BATCH: Span = Span(30);

/// The scheduler's process.
#[derive(Debug, Default)]
pub(crate) struct SchedulerHost {
    /// Number of its starts and connections.
    pub(crate) incarnation: u64,
    frozen: bool,
    backlog: Vec<Event>,
    follower: Follower,
    /// The replica that sends it committed records, and that replica's incarnation.
    follows: Option<(usize, u64)>,
    /// The replica that receives its proposals.
    proposes_to: usize,
    /// The proposal whose answer it awaits, and the number of assignments in it.
    proposed: Option<(u64, usize)>,
    /// When it is scheduled to tick.
    ticks: Option<Time>,
}

impl SchedulerHost {
    /// Its incarnation, if it follows that incarnation of a replica.
    pub(crate) fn followed_by(&self, host: usize, incarnation: u64) -> Option<u64> {
        (self.follows == Some((host, incarnation))).then_some(self.incarnation)
    }

    /// Its copy of the cell.
    pub(crate) fn copy(&self) -> Option<&Cell> {
        self.follower.cell()
    }

    /// The replica that it follows.
    pub(crate) fn follows(&self) -> Option<usize> {
        self.follows.map(|(host, _)| host)
    }

    /// What comes by a stream and from calls before this comes too late.
    fn disconnect(&mut self) {
        self.incarnation += 1;
        (self.follows, self.proposed, self.ticks) = (None, None, None);
    }
}

impl<C: Codec> World<C> {
    pub(crate) fn scheduler_event(&mut self, event: Event) {
        let (Event::StreamBegins { incarnation, .. }
        | Event::Followed { incarnation, .. }
        | Event::StreamEnds { incarnation }
        | Event::SchedulerTicks { incarnation, .. }
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
            Event::StreamBegins { image: Some(cell), copy, .. } => {
                self.scheduler_input(Input::Loading);
                self.scheduler_input(Input::Loaded(cell, copy));
            }
            Event::StreamBegins { image: None, .. } => self.scheduler_input(Input::Resumed),
            Event::Followed { entry, .. } => self.follow(&entry),
            Event::StreamEnds { .. } => self.scheduler_disconnected(),
            Event::SchedulerTicks { at, .. } if self.scheduler.ticks == Some(at) => {
                self.scheduler.ticks = None;
                self.scheduler_ticks();
            }
            Event::Judged { number, refused, .. } => self.judged(number, refused),
            _ => {}
        }
    }

    /// Hands an input over; the process does at its next tick what follows from it.
    fn scheduler_input(&mut self, input: Input) {
        if let Err(error) = self.scheduler.follower.take_in(self.now, input) {
            self.invariants.violated(format!("the scheduler {error}"));
        }
        self.plan_scheduler_tick(self.now + BATCH);
    }

    /// Kills the scheduler, which is restarted after a while and then has nothing.
    pub(crate) fn restart_scheduler(&mut self, after: Span) {
        self.scheduler.disconnect();
        self.scheduler.follower = Follower::default();
        (self.scheduler.frozen, self.scheduler.backlog) = (false, Vec::new());
        self.plan_scheduler_tick(self.now + after);
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

    fn scheduler_disconnected(&mut self) {
        self.scheduler.disconnect();
        self.scheduler_input(Input::Disconnected);
    }

    /// Follows a replica: from what the scheduler has, if the replica has the records after it.
    fn connect_scheduler(&mut self, attempt: u64, has: Option<CellCopy>) {
        let present = self.present();
        let turn = usize::try_from(attempt).unwrap_or(0) % present.len().max(1);
        let host = present.get(turn).copied().unwrap_or(0);
        let master = Node::Master(host);
        let there = self.network.stream(self.now, self.now, Node::Scheduler, master);
        let back = self.network.stream(self.now, self.now, master, Node::Scheduler);
        let (Some(_), Some(back)) = (there, back) else { return self.scheduler_disconnected() };
        let master = &mut self.masters[host];
        let takes_followers =
            !master.is_frozen() && (master.leads.is_some() || self.operator.has_several());
        // A single replica takes followers once it knows all that was acknowledged.
        let Some(copy) = master.copy().filter(|_| takes_followers) else {
            return self.scheduler_disconnected();
        };
        let records = has.and_then(|has| master.records_after(has));
        let image = if records.is_some() { None } else { master.cell().cloned().map(Box::new) };
        let arrives = back + Span::from_millis(1);
        self.scheduler.follows = Some((host, master.incarnation));
        master.last_sent = arrives;
        let incarnation = self.scheduler.incarnation;
        self.agenda.at(arrives, Event::StreamBegins { incarnation, image, copy });
        for entry in records.into_iter().flatten() {
            self.agenda.at(arrives, Event::Followed { incarnation, entry });
        }
    }

    fn follow(&mut self, entry: &LogEntry) {
        let decoded = match entry.data.is_empty() {
            true => Ok(None),
            false => self.codec.decode(&entry.data).map(Some),
        };
        let operation = match decoded {
            // An injected bug: one operation in several hundred is skipped.
            Ok(Some((at, _)))
                if self.injected_bug == Some(InjectedBug::MissedOperation)
                    && entry.index.0.is_multiple_of(257) =>
            {
                Some((at, cell::Op::Nothing))
            }
            Ok(operation) => operation,
            Err(what) => {
                return self.invariants.violated(format!("a record cannot be read: {what}"));
            }
        };
        let (index, term) = (entry.index, entry.term);
        self.scheduler_input(Input::Record { index, term, operation });
    }

    fn plan_scheduler_tick(&mut self, at: Time) {
        let at = at.max(self.now);
        if self.scheduler.ticks.is_none_or(|ticks| at < ticks) {
            self.scheduler.ticks = Some(at);
            let incarnation = self.scheduler.incarnation;
            self.agenda.at(at, Event::SchedulerTicks { incarnation, at });
        }
    }

    /// Runs the process when an input arrived or something is due.
    fn scheduler_ticks(&mut self) {
        let effect = self.scheduler.follower.tick(self.now);
        let awaits = self.scheduler.follower.awaits();
        if let Some((_, count)) =
            self.scheduler.proposed.take_if(|(number, _)| awaits != Some(*number))
        {
            self.scheduler_unanswered(count);
        }
        match effect {
            Some(Effect::Follow { attempt, has }) => self.connect_scheduler(attempt, has),
            Some(Effect::Propose(proposal)) => self.propose(proposal),
            None => {}
        }
        if let Some(next) = self.scheduler.follower.next_tick() {
            self.plan_scheduler_tick(next);
        }
    }

    fn propose(&mut self, proposal: Proposal) {
        let Proposal { number, began, enabled, assignments, .. } = proposal;
        self.scheduler.proposed = Some((number, assignments.len().max(1)));
        let incarnation = Some(self.scheduler.incarnation);
        let host = self.scheduler.proposes_to;
        if let Fate::Arrives(delay, _) = self.network.send(Node::Scheduler, Node::Master(host)) {
            let event = Event::Proposed { host, incarnation, number, began, enabled, assignments };
            self.agenda.at(self.now + delay, event);
        }
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

    fn judged(&mut self, number: u64, refused: Option<Vec<InstanceId>>) {
        let Some((_, count)) = self.scheduler.proposed.take_if(|(of, _)| *of == number) else {
            return;
        };
        match refused {
            Some(refused) => {
                self.counts.refused += refused.len() as u64;
                self.scheduler_input(Input::Decided { number, rejected: !refused.is_empty() });
            }
            None => {
                self.scheduler_unanswered(count);
                self.scheduler_input(Input::Undecided { number });
            }
        }
    }

    /// It is unknown what became of this many assignments. The next proposal goes to another replica.
    fn scheduler_unanswered(&mut self, count: usize) {
        self.counts.refused += count as u64;
        self.scheduler.proposes_to = self.another_master(self.scheduler.proposes_to);
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
                let (incarnation, number, began) = (None, 0, self.now);
                let enabled = Vec::new();
                let event =
                    Event::Proposed { host, incarnation, number, began, enabled, assignments };
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
        let own = job.machine_of(index).and_then(|machine| cell.machine(machine));
        let machine = its.or(own).unwrap_or(machine);
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
