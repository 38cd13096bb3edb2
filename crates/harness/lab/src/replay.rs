//! Replays usage in a cell.
//!
//! The model, in this order in each round:
//! 1. Tasks whose time is over leave.
//! 2. Production that arrives is placed by the production rule of feasibility (limits), on the
//!    first machine that fits, from a random one on. If none fits, tasks that are not production
//!    leave a machine where it would fit then, as in a preemption.
//! 3. Each machine, in a fixed order, takes of the first tasks of the queue those that fit
//!    (reservations). The queue never ends, so machines are packed up to the reservations all the
//!    time: the least favourable case for memory. A task that fits nowhere goes to the end of the
//!    queue.
//! 4. Every task uses what its curve says. Where a machine's memory is short, the Borglet's rule
//!    decides who is killed: each is a would-be out-of-memory event. What is killed comes again.
//! 5. The estimator gets all samples, and its changes are in force from now on.
//!
//! Not modelled: other tasks that wait for a killed one, CPU throttling (usage above the machine's
//! CPU is counted as used), page cache, the machine's own needs, delays between Borglet and master,
//! constraints, ports.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use cell::Demand;
use model::Reclamation;
use model::{
    Bytes, CollectionId, Generation, InstanceId, MilliCores, Random, Resources, Span, TaskId,
    TaskIndex, Time,
};
use reclaim::{Estimator, Pace, Sample, Task};

use crate::machine::{Candidate, LabMachine, Rule, victims};
use crate::outcome::{Amounts, Outcome, Ratios, Slot, Totals, permille};
use crate::usage::{Held, Subject, WINDOW, Workload};

/// When a replay begins, so that tasks can have started before.
const BEGINNING: Time = Time(1_000_000_000_000_000);
/// The maximum number of changes of reservations in a round.
const CHANGES_MAX: usize = 10_000;
/// How many tasks at the head of the queue a machine considers.
const CONSIDERED: usize = 8;

/// What is replayed.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The capacities of the machines.
    pub machines: Vec<Resources>,
    /// The settings, one after the other, and how long each is in force.
    pub schedule: Vec<(Reclamation, Span)>,
    /// The time between two rounds, at least a microsecond.
    pub every: Span,
    /// So much time before the beginning is replayed, with the first setting, and not counted: at
    /// first every reservation is a limit.
    pub lead_in: Span,
    /// The seed of placements and of the places of maxima in their windows.
    pub seed: u64,
}

/// A running task.
struct RunningTask<'a> {
    instance: InstanceId,
    subject: &'a Subject,
    machine: usize,
    arrived: Span,
    started: Time,
    held: Held,
    used: (MilliCores, Bytes),
    reservation: Resources,
    newest_sample: Option<Time>,
    gone: bool,
}

struct ReplayWorld<'a> {
    workload: &'a Workload,
    seed: u64,
    random: Random,
    machines: Vec<LabMachine>,
    /// In the order of the instances.
    runs: Vec<RunningTask<'a>>,
    estimator: Estimator,
    begun: u64,
    /// Production that has to be placed.
    arrived: Vec<&'a Subject>,
    arrivals: usize,
    /// The head of the queue, and the number of the task that comes after it.
    queue: VecDeque<&'a Subject>,
    next: usize,
    totals: Totals,
    outcome: Outcome,
    counts: bool,
}

/// Replays a workload.
#[must_use]
pub fn replay(workload: &Workload, plan: &ReplayPlan) -> Outcome {
    let machines =
        plan.machines.iter().zip(0..).map(|(capacity, nth)| LabMachine::new(nth, *capacity));
    let most = NonZeroUsize::new(CHANGES_MAX).unwrap_or(NonZeroUsize::MIN);
    let mut world = ReplayWorld {
        workload,
        seed: plan.seed,
        random: Random::new(plan.seed),
        machines: machines.collect(),
        runs: Vec::new(),
        estimator: Estimator::new(Pace::default(), most),
        begun: 0,
        arrived: Vec::new(),
        arrivals: 0,
        queue: VecDeque::new(),
        next: 0,
        totals: Totals::default(),
        outcome: Outcome { machines: plan.machines.len(), ..Outcome::default() },
        counts: false,
    };
    let every = Span(plan.every.0.max(1));
    let mut at = Span::ZERO;
    let first = plan.schedule.first().map_or(Reclamation::Off, |(setting, _)| *setting);
    while at < plan.lead_in {
        world.round(first, at, every);
        at = at + every;
    }
    world.counts = true;
    let begin = at;
    let mut end = begin;
    for (setting, length) in &plan.schedule {
        world.totals = Totals::default();
        end = end + *length;
        let (mut slot, mut before) = (Slotted::begin(*setting, at, begin), world.totals);
        while at < end {
            if at.0 >= slot.until.0 {
                world.close(&slot, &before);
                (slot, before) = (Slotted::begin(*setting, at, begin), world.totals);
            }
            world.round(*setting, at, every);
            at = at + every;
        }
        world.close(&slot, &before);
        world.outcome.totals.push((*setting, world.totals));
    }
    world.finish()
}

/// A slot in progress.
struct Slotted {
    setting: Reclamation,
    at: Span,
    until: Span,
}

impl Slotted {
    fn begin(setting: Reclamation, now: Span, begin: Span) -> Self {
        Self { setting, at: Span(now.0.saturating_sub(begin.0)), until: now + WINDOW }
    }
}

impl<'a> ReplayWorld<'a> {
    fn round(&mut self, setting: Reclamation, at: Span, every: Span) {
        let now = BEGINNING + at;
        self.leave(at);
        self.take_arrivals(at, now);
        self.pack(at, now);
        self.measure(at);
        self.kill_where_short();
        self.estimate(setting, now);
        if self.counts {
            self.count(every);
        }
    }

    fn leave(&mut self, at: Span) {
        for run in &mut self.runs {
            let over = |stays: Span| at.0 >= run.arrived.0.saturating_add(stays.0);
            if run.subject.stays.is_some_and(over) {
                run.gone = true;
                if let Some(machine) = self.machines.get_mut(run.machine) {
                    machine.remove(&run.demand());
                }
            }
        }
        self.runs.retain(|run| !run.gone);
    }

    fn take_arrivals(&mut self, at: Span, now: Time) {
        let mut arrived = std::mem::take(&mut self.arrived);
        while let Some(subject) = self.workload.production.get(self.arrivals) {
            if subject.arrives > at {
                break;
            }
            arrived.push(subject);
            self.arrivals += 1;
        }
        for subject in arrived {
            match self.machine_for(subject) {
                Some(machine) => self.start(subject, machine, at, now),
                None => self.totals.unplaced += 1,
            }
        }
    }

    /// A machine for a production task, cleared of others if it must be.
    fn machine_for(&mut self, subject: &Subject) -> Option<usize> {
        let demand = demand(subject, subject.limit);
        let from = self.random.index(self.machines.len());
        let places = (from..self.machines.len()).chain(0..from);
        let machine = |place: usize| self.machines.get(place);
        let fits = |place: &usize| machine(*place).is_some_and(|one| one.fits(demand));
        if let Some(place) = places.clone().find(fits) {
            return Some(place);
        }
        let would_fit = |place: &usize| machine(*place).is_some_and(|one| one.would_fit(demand));
        let place = places.clone().find(would_fit)?;
        let on_it = self.runs.iter().filter(|run| run.machine == place && !run.is_prod());
        let mut others: Vec<_> =
            on_it.map(|run| (run.subject.priority, std::cmp::Reverse(run.instance))).collect();
        others.sort_unstable();
        for (_, std::cmp::Reverse(instance)) in others {
            if self.machines.get(place).is_some_and(|machine| machine.fits(demand)) {
                break;
            }
            self.end(instance);
            self.totals.preempted += 1;
        }
        self.runs.retain(|run| !run.gone);
        Some(place)
    }

    /// Marks a run as ended. The caller removes it.
    fn end(&mut self, instance: InstanceId) -> Option<&'a Subject> {
        let place = self.runs.binary_search_by_key(&instance, |run| run.instance).ok()?;
        let run = self.runs.get_mut(place).filter(|run| !run.gone)?;
        run.gone = true;
        let machine = self.machines.get_mut(run.machine)?;
        machine.remove(&run.demand());
        machine.ram_used = Bytes(machine.ram_used.0.saturating_sub(run.used.1.0));
        Some(run.subject)
    }

    fn pack(&mut self, at: Span, now: Time) {
        let queue = &self.workload.queue;
        if queue.is_empty() {
            return;
        }
        let before: Vec<*const Subject> = self.queue.iter().map(|one| &raw const **one).collect();
        for place in 0..self.machines.len() {
            let mut nth = 0;
            while nth < CONSIDERED {
                while self.queue.len() < CONSIDERED {
                    let subject = queue.get(self.next % queue.len());
                    self.queue.extend(subject);
                    self.next = (self.next + 1) % queue.len();
                }
                let Some(subject) = self.queue.get(nth).copied() else { break };
                let demand = demand(subject, subject.limit);
                if self.machines.get(place).is_some_and(|machine| machine.fits(demand)) {
                    self.queue.remove(nth);
                    self.start(subject, place, at, now);
                } else {
                    nth += 1;
                }
            }
        }
        // What was at the head all the time, and fitted nowhere.
        self.queue.retain(|subject| !before.contains(&(&raw const **subject)));
    }

    fn start(&mut self, subject: &'a Subject, machine: usize, at: Span, now: Time) {
        self.begun += 1;
        self.totals.placed += 1;
        let task = TaskId { collection: CollectionId(self.begun), index: TaskIndex(0) };
        let run = RunningTask {
            instance: task.generation(Generation(1)),
            subject,
            machine,
            arrived: at,
            started: now - subject.age,
            held: Held { from: Span::ZERO, until: Span::ZERO, nth: 0, window: None },
            used: (MilliCores(0), Bytes(0)),
            reservation: subject.limit,
            newest_sample: None,
            gone: false,
        };
        if let Some(machine) = self.machines.get_mut(machine) {
            machine.add(&run.demand());
        }
        self.runs.push(run);
    }

    fn measure(&mut self, at: Span) {
        for machine in &mut self.machines {
            machine.ram_used = Bytes(0);
        }
        let seed = self.seed;
        for run in &mut self.runs {
            let moment = Span(at.0 - run.arrived.0);
            if moment >= run.held.until {
                run.held = run.subject.held(moment, at);
                if let Some(window) = run.held.window.filter(|_| self.counts) {
                    let (limit, reserved) = (run.subject.limit, run.reservation);
                    let cdfs = &mut self.outcome.cdfs;
                    cdfs.cpu_usage.add(window.cpu.average, limit.cpu.0);
                    cdfs.cpu_reservation.add(reserved.cpu.0, limit.cpu.0);
                    cdfs.ram_usage.add(window.ram.average, limit.ram.0);
                    cdfs.ram_reservation.add(reserved.ram.0, limit.ram.0);
                }
            }
            // In a gap a task goes on to use what it used.
            let own = seed ^ run.instance.collection.0;
            if let Some(used) = run.held.at(moment, own) {
                run.used = used;
            }
            if let Some(machine) = self.machines.get_mut(run.machine) {
                machine.ram_used = Bytes(machine.ram_used.0.saturating_add(run.used.1.0));
            }
        }
    }

    fn kill_where_short(&mut self) {
        let short: Vec<usize> = (0..)
            .zip(&self.machines)
            .filter(|(_, machine)| machine.is_short())
            .map(|(place, _)| place)
            .collect();
        for place in short {
            let Some(machine) = self.machines.get(place) else { continue };
            let on_it = self.runs.iter().filter(|run| run.machine == place && !run.gone);
            let candidates = on_it.map(|run| Candidate {
                instance: run.instance,
                priority: run.subject.priority,
                limit: run.subject.limit.ram,
                reservation: run.reservation.ram,
                used: run.used.1,
            });
            for (instance, rule) in victims(machine.capacity().ram, candidates.collect()) {
                match rule {
                    Rule::AboveLimit => self.totals.ooms_above_limit += 1,
                    Rule::LowestPriority => self.totals.ooms += 1,
                }
                let Some(subject) = self.end(instance) else { continue };
                if subject.priority.is_prod() {
                    self.totals.production_killed += u64::from(rule == Rule::LowestPriority);
                    self.arrived.push(subject);
                }
            }
        }
        self.runs.retain(|run| !run.gone);
    }

    fn estimate(&mut self, setting: Reclamation, now: Time) {
        let rejected = self.estimator.rejected().total();
        let tasks = self.runs.iter().map(|run| {
            let (cpu, ram) = run.used;
            Task {
                instance: run.instance,
                limit: run.subject.limit,
                started: Some(run.started),
                reservation: run.reservation,
                newest_sample: run.newest_sample,
                sample: run.held.window.map(|_| Sample { at: now, cpu: Some(cpu), ram: Some(ram) }),
            }
        });
        let round = self.estimator.round(setting, now, tasks);
        for change in round.changes {
            let place = self.runs.binary_search_by_key(&change.instance, |run| run.instance);
            let Some(run) = place.ok().and_then(|place| self.runs.get_mut(place)) else { continue };
            if let Some(machine) = self.machines.get_mut(run.machine) {
                machine.change(&run.demand(), change.reservation);
            }
            run.reservation = change.reservation;
            run.newest_sample = change.newest_sample;
        }
        self.totals.changes += round.changes.len() as u64;
        self.totals.rejected += self.estimator.rejected().total() - rejected;
    }

    fn count(&mut self, every: Span) {
        let totals = &mut self.totals;
        totals.rounds += 1;
        totals.task_micros += u128::from(every.0) * self.runs.len() as u128;
        for machine in &self.machines {
            totals.reclaimed.add(machine.reclaimed());
            totals.reclaimed_shares.0 += u128::from(machine.reclaimed_share());
            totals.reclaimed_shares.1 += 1;
            totals.capacity.add(machine.capacity());
        }
        for run in &self.runs {
            let (cpu, ram) = run.used;
            let (limit, reservation) = (run.subject.limit, run.reservation);
            let used = Resources { cpu, ram, ..Resources::default() };
            let of_all = totals.all.iter_mut().zip([limit, reservation, used]);
            of_all.for_each(|(sum, amount)| sum.add(amount));
            if run.is_prod() {
                let of_prod = totals.production.iter_mut().zip([limit, reservation, used]);
                of_prod.for_each(|(sum, amount)| sum.add(amount));
            }
            let below = used.least(limit).first_above(&reservation).is_some();
            totals.below_usage += u64::from(below && run.held.window.is_some());
            totals.above_limit += u64::from(reservation.first_above(&limit).is_some());
        }
    }

    /// Ends a slot, which began with `before`.
    fn close(&mut self, slot: &Slotted, before: &Totals) {
        let after = self.totals;
        let rounds = after.rounds - before.rounds;
        if rounds == 0 {
            return;
        }
        let less = |after: Amounts, before: Amounts| {
            Amounts { cpu: after.cpu - before.cpu, ram: after.ram - before.ram }.by(rounds)
        };
        let each = |after: [Amounts; 3], before: [Amounts; 3]| {
            let [one, two, three] = after;
            let [from_one, from_two, from_three] = before;
            [less(one, from_one), less(two, from_two), less(three, from_three)]
        };
        let earlier = self.outcome.totals.iter().map(|(_, totals)| totals.events()).sum::<u64>();
        self.outcome.timeline.push(Slot {
            at: slot.at,
            setting: slot.setting,
            production: each(after.production, before.production),
            all: each(after.all, before.all),
            reclaimed: less(after.reclaimed, before.reclaimed),
            running: self.runs.len() as u64,
            ooms: earlier + after.events(),
        });
    }

    fn finish(mut self) -> Outcome {
        let ratios = self.runs.iter().map(|run| {
            let (limit, reservation) = (run.subject.limit, run.reservation);
            let of = |part: u64, of: u64| permille(part.into(), of.into());
            Ratios {
                prod: run.is_prod(),
                cpu: of(reservation.cpu.0, limit.cpu.0),
                ram: of(reservation.ram.0, limit.ram.0),
            }
        });
        self.outcome.ratios = ratios.collect();
        self.outcome
    }
}

impl RunningTask<'_> {
    fn is_prod(&self) -> bool {
        self.subject.priority.is_prod()
    }

    fn demand(&self) -> Demand {
        demand(self.subject, self.reservation)
    }
}

fn demand(subject: &Subject, reservation: Resources) -> Demand {
    Demand { limit: subject.limit, reservation, prod: subject.priority.is_prod(), exclusive: false }
}
