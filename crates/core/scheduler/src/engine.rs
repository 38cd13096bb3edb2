//! Placement: the scheduler's view of machines and classes, and the search for the best machine.

mod in_alloc;
mod preempt;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use cell::feasibility::{Colocated, fits};
use cell::{Cell, Demand, Job, Machine};
use model::{CollectionId, Generation, InstanceId, MachineId, Random, TaskId, TaskIndex, Time};
use spec::Constraint;

use crate::Settings;
use crate::class::{Class, ClassId, Where};
use crate::evictable::Evictable;
use crate::kept::{Kept, KeptRoom};
use crate::machines::{BLOCK, Change, Machines, Slot};
use crate::planned::Planned;
use crate::pool::{Pool, UNMATCHED};
use crate::queue::Queue;
use crate::score::{INFEASIBLE, Term, Terms, mixing, over_a_maximum, packing, unmatched};
use crate::spread::Spread;

/// Maximum number of constraint sets for which marks are cached.
const MARKS_MAX: usize = 1_000;
/// Number of uses of a window before another one is drawn: a job of thousands of tasks that kept to
/// a single window would fill its machines with only its own tasks.
const LOOKS: usize = 16;
/// Slots of removed machines are kept until there are more of them than machines, and more than
/// this.
const GONE_MAX: usize = 4_096;
/// Maximum memory for cached scores, in bytes.
const POOL_BYTES_MAX: usize = 24 << 20;

/// The scheduler's view of machines and classes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) machines: Machines,
    pub(crate) queue: Queue,
    pub(crate) evictable: Evictable,
    /// What tasks that wait for their retry keep of their machines.
    pub(crate) kept: KeptRoom,
    /// What is proposed and not yet confirmed or rejected.
    pub(crate) planned: BTreeMap<InstanceId, Planned>,
    random: Random,
    /// Number of machines when the slots were last assigned.
    ordered: usize,
    marks: BTreeMap<Vec<Constraint>, Vec<u8>>,
    spreads: BTreeMap<CollectionId, Spread>,
    changes: Changes,
    /// The machines that gained room since the last pass.
    improved: BTreeSet<Slot>,
    /// The machines that remember crashes, and whether each is suspect.
    suspects: BTreeMap<Slot, bool>,
    /// The class whose scores were used last.
    last: Option<ClassId>,
}

/// The log of machines that changed, in order.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// Number of changes before those that are kept.
    before: u64,
    slots: Vec<Slot>,
    /// By slot, the free CPU and memory when it was last logged; see [`Changes::is_small`].
    listed: Vec<[i32; 2]>,
}

impl Changes {
    fn end(&self) -> u64 {
        self.before + self.slots.len() as u64
    }

    fn add(&mut self, slot: Slot) {
        if self.slots.last() != Some(&slot) {
            self.slots.push(slot);
        }
    }

    /// The changes after a position; `None` if they are no longer kept.
    fn since(&self, seen: u64) -> Option<&[Slot]> {
        let from = usize::try_from(seen.checked_sub(self.before)?).ok()?;
        self.slots.get(from..)
    }

    fn forget(&mut self, most: usize) {
        if self.slots.len() > 2 * most {
            let gone = self.slots.len() - most;
            self.slots.drain(..gone);
            self.before += gone as u64;
        }
    }

    /// Whether a machine is about as full as when it was last logged: within one percent of its CPU
    /// and memory (paper, section 3.4: "ignoring small changes").
    fn is_small(&mut self, machines: &Machines, slot: Slot) -> bool {
        const HUNDREDTH: u32 = crate::score::WHOLE / 100;
        let at = slot as usize;
        if self.listed.len() < machines.len() {
            self.listed.resize(machines.len(), [i32::MIN; 2]);
        }
        let (now, listed) = ([machines.free[0][at], machines.free[1][at]], self.listed[at]);
        let near = |dimension: usize| {
            let by = now[dimension].abs_diff(listed[dimension]);
            (u64::from(by) * u64::from(machines.inverse[dimension][at])) >> 20
                < u64::from(HUNDREDTH)
        };
        if near(0) && near(1) {
            return true;
        }
        self.listed[at] = now;
        false
    }
}

impl Engine {
    /// The view of a cell, with every pending task in the queue.
    pub(crate) fn new(cell: &Cell, settings: Settings) -> Self {
        let mut engine = Self::bare(cell, settings);
        engine.queue = Queue::of(cell, &engine.machines, &engine.settings);
        for kept in Kept::in_cell(cell, cell.time()).into_values().flatten() {
            if let Some(slot) = engine.machines.slot(kept.machine) {
                engine.kept.add(slot, kept);
            }
        }
        engine
    }

    /// Keeps the room of a task on its last machine if it waits for its retry.
    pub(crate) fn keep_room(&mut self, job: &Job, index: TaskIndex, now: Time) {
        if let Some(kept) = Kept::of(job, index, now)
            && let Some(slot) = self.machines.slot(kept.machine)
        {
            self.kept.add(slot, kept);
        }
    }

    /// A task waits no more: what was kept for it is there for all.
    pub(crate) fn release_room(&mut self, task: TaskId) {
        if let Some(slot) = self.kept.remove(task) {
            self.changed(slot, Change::More);
        }
    }

    /// The view of a cell's machines, with an empty queue.
    pub(crate) fn bare(cell: &Cell, settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let shuffled = settings.relaxed && cell.machine_count() > settings.enough;
        let machines = Machines::of(cell, &mut random, shuffled);
        let suspects = cell.machines().filter(|machine| !machine.crashes.is_empty());
        let suspects = suspects.filter_map(|machine| machines.slot(machine.id));
        // Tasks that were there before the first change are evictable, too.
        let mut evictable = Evictable::default();
        let slots = cell.machines().filter_map(|machine| machines.slot(machine.id));
        slots.for_each(|slot| evictable.mark_stale(slot));
        Self {
            ordered: machines.count(),
            suspects: suspects.map(|slot| (slot, false)).collect(),
            evictable,
            kept: KeptRoom::default(),
            planned: BTreeMap::new(),
            settings,
            machines,
            queue: Queue::default(),
            random,
            marks: BTreeMap::new(),
            spreads: BTreeMap::new(),
            changes: Changes::default(),
            improved: BTreeSet::new(),
            last: None,
        }
    }

    /// A machine's description changed, or what is placed on it.
    pub(crate) fn machine_changed(&mut self, cell: &Cell, id: MachineId, described: bool) {
        let known = self.machines.len();
        let (slot, change) = match described {
            true => self.machines.describe(cell, id),
            false => self.machines.recount(cell, id),
        };
        let Some(slot) = slot else { return };
        self.evictable.mark_stale(slot);
        if let Some(machine) = cell.machine(id) {
            if !machine.crashes.is_empty() {
                self.suspects.entry(slot).or_default();
            }
            if described {
                // It may be in other failure domains now.
                self.spreads.clear();
                for (constraints, marks) in &mut self.marks {
                    marks.resize(self.machines.len(), UNMATCHED);
                    marks[slot as usize] = mark(constraints, machine);
                }
            }
        }
        if self.machines.len() != known {
            self.forget_places();
        }
        // It may now match constraints that it did not match before.
        self.changed(slot, if described { Change::More } else { change });
        self.room_is_awaited(cell, slot);
    }

    /// A task that waits for evictions on a machine causes no further ones elsewhere. If some of
    /// that room was taken meanwhile, it may no longer suffice, and the machine is examined again.
    pub(crate) fn room_is_awaited(&mut self, cell: &Cell, slot: Slot) {
        if self.queue.classes.limited.is_empty() || self.improved.contains(&slot) {
            return;
        }
        let Some(machine) = cell.machine(self.machines.id(slot)) else { return };
        let leaves = |instance: &InstanceId| {
            let stops = cell.placement(*instance).is_some_and(|placed| placed.stop.is_some());
            stops || self.evictable.planned.contains(instance)
        };
        if machine.instances().iter().any(leaves) {
            self.improved.insert(slot);
        }
    }

    /// Reserves resources of a machine for the plan.
    pub(crate) fn hold(
        &mut self,
        slot: Slot,
        demand: &Demand,
        ports: &[u16],
        address: Option<Ipv4Addr>,
    ) {
        let change = self.machines.plan(slot, demand, ports, address);
        self.evictable.mark_stale(slot);
        self.changed(slot, change);
    }

    fn changed(&mut self, slot: Slot, change: Change) {
        match change {
            Change::None => return,
            Change::More => drop(self.improved.insert(slot)),
            Change::Less => {}
        }
        let small = self.settings.score_cache
            && change == Change::Less
            && self.changes.is_small(&self.machines, slot);
        if !small {
            self.changes.add(slot);
        }
    }

    /// Whether slots have to be reassigned: there are many more machines than before, many were
    /// removed, or one is larger than any before.
    pub(crate) fn is_outgrown(&self, cell: &Cell, described: &[MachineId]) -> bool {
        let mut machines = described.iter().filter_map(|id| cell.machine(*id));
        let shuffles = self.settings.relaxed && self.machines.count() > self.settings.enough;
        machines.any(|machine| !self.machines.measures(machine))
            || (shuffles && self.machines.count() > 2 * self.ordered)
            || self.machines.gone() > self.machines.count() + GONE_MAX
    }

    fn forget_places(&mut self) {
        let limited = self.queue.classes.limited.clone();
        self.queue.classes.forget_places(&self.machines);
        limited.into_iter().for_each(|class| self.queue.unblock(class));
    }

    /// A task of a job left its machine, or is no longer planned on it: cached scores that counted
    /// it are too high. `None` if its machine is unknown.
    pub(crate) fn job_left(&mut self, job: CollectionId, machine: Option<MachineId>) {
        match machine.and_then(|machine| self.machines.slot(machine)) {
            Some(slot) => {
                if let Some(spread) = self.spreads.get_mut(&job) {
                    spread.remove(&self.machines, slot);
                }
            }
            None => drop(self.spreads.remove(&job)),
        }
        for id in self.queue.classes_of(job) {
            let Some(class) = self.queue.classes.get(id) else { continue };
            let per_switch = class.ask().max_per_switch.is_some_and(|maximum| maximum.hard);
            let kept = matches!(class.places, Where::Nowhere | Where::Few(_));
            if class.job() == Some(job) && (per_switch || !kept) {
                self.queue.classes.set_places(id, Where::Unknown);
                self.queue.unblock(id);
            }
        }
    }

    /// Determines which machines are suspect at a given time.
    pub(crate) fn refresh_suspects(&mut self, cell: &Cell, now: Time) {
        let (machines, changes) = (&self.machines, &mut self.changes);
        self.suspects.retain(|slot, known| {
            let Some(machine) = cell.machine(machines.id(*slot)) else { return false };
            let is = machine.is_suspect(now);
            if is != *known {
                *known = is;
                changes.add(*slot);
            }
            !machine.crashes.is_empty()
        });
    }

    /// Starts a pass: applies what time has changed, and unblocks classes for which there may be
    /// room again.
    pub(crate) fn begin_pass(&mut self, cell: &Cell, now: Time) {
        self.refresh_suspects(cell, now);
        let improved = std::mem::take(&mut self.improved);
        if !improved.is_empty() && !self.queue.classes.limited.is_empty() {
            self.evictable.catch_up(cell, &self.machines);
            for id in self.queue.classes.limited.clone() {
                self.look_again(cell, id, &improved);
            }
        }
        self.changes.forget(self.machines.len().max(4_096));
    }

    /// Whether machines that gained room have enough for a class that fitted nowhere.
    fn look_again(&mut self, cell: &Cell, id: ClassId, improved: &BTreeSet<Slot>) {
        let Some(class) = self.queue.classes.get(id) else { return };
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        let mut slots = match &class.places {
            Where::Few(slots) => slots.clone(),
            _ => Vec::new(),
        };
        for slot in improved {
            if slots.contains(slot) {
                continue;
            }
            let plain = class.scan.of(&self.machines, marks, *slot) != INFEASIBLE
                && self.fits(cell, class, *slot);
            if plain || self.could_preempt(cell, class, *slot) {
                slots.push(*slot);
            }
        }
        if !slots.is_empty() {
            let many = slots.len() > BLOCK;
            self.queue
                .classes
                .set_places(id, if many { Where::Unknown } else { Where::Few(slots) });
            self.queue.unblock(id);
        }
    }

    /// The best machine for a task of a class; `None` if it fits nowhere without evictions.
    pub(crate) fn best(&mut self, cell: &Cell, id: ClassId, now: Time) -> Option<Slot> {
        self.prepare(cell, id);
        let mut class =
            std::mem::replace(&mut self.queue.classes.get_mut(id)?.places, Where::Unknown);
        let found = match &mut class {
            Where::Nowhere => None,
            Where::Few(slots) => self.best_of_few(cell, id, slots, now),
            Where::Unknown => {
                let blocks = (self.machines.len() / BLOCK).max(1);
                let start = if self.settings.relaxed { self.random.index(blocks) } else { 0 };
                let mut pool = self.queue.classes.window(POOL_BYTES_MAX);
                let bytes = pool.bytes();
                pool.begin(start, self.changes.end());
                let found = self.best_of_pool(cell, id, &mut pool, now);
                self.queue.classes.window_bytes += pool.bytes() - bytes;
                class = Where::Pool(Box::new(pool));
                found
            }
            Where::Pool(pool) => {
                let bytes = pool.bytes();
                pool.looks += 1;
                if self.settings.relaxed && pool.looks >= LOOKS && !pool.is_whole(&self.machines) {
                    let blocks = (self.machines.len() / BLOCK).max(1);
                    pool.begin(self.random.index(blocks), self.changes.end());
                }
                self.refresh(id, pool);
                let found = self.best_of_pool(cell, id, pool, now);
                self.queue.classes.window_bytes += pool.bytes() - bytes;
                found
            }
        };
        self.last = Some(id);
        self.queue.classes.get_mut(id)?.places = class;
        found
    }

    /// A random slot if machines are examined in a random order, else the first.
    pub(crate) fn draw(&mut self, slots: usize) -> Slot {
        let relaxed = self.settings.relaxed && slots > self.settings.enough;
        Slot::try_from(if relaxed { self.random.index(slots) } else { 0 }).unwrap_or(0)
    }

    /// Computes the cached data that a class needs.
    pub(crate) fn prepare(&mut self, cell: &Cell, id: ClassId) {
        let Some(class) = self.queue.classes.get(id) else { return };
        let constraints = &class.key.constraints;
        if !constraints.is_empty() && !self.marks.contains_key(constraints) {
            if self.marks.len() >= MARKS_MAX {
                self.marks.clear();
            }
            let mut marks = vec![UNMATCHED; self.machines.len()];
            for machine in cell.machines() {
                if let Some(slot) = self.machines.slot(machine.id) {
                    marks[slot as usize] = mark(constraints, machine);
                }
            }
            self.marks.insert(constraints.clone(), marks);
        }
        if let Some(id) = class.job()
            && !self.spreads.contains_key(&id)
            && let Some(job) = cell.job(id)
        {
            let mut spread = Spread::of(job, &self.machines);
            let first = TaskId { collection: id, index: TaskIndex(0) }.generation(Generation(0));
            let of_job = self.planned.range(first..);
            for (_, planned) in of_job.take_while(|(instance, _)| instance.collection == id) {
                spread.add(&self.machines, planned.slot);
            }
            self.spreads.insert(id, spread);
        }
    }

    /// Recomputes the scores of machines that changed.
    fn refresh(&mut self, id: ClassId, pool: &mut Pool) {
        let Some(class) = self.queue.classes.get(id) else { return };
        let kept = self.settings.score_cache || self.last == Some(id);
        let changed = self.changes.since(pool.seen).filter(|_| kept);
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        match changed {
            Some(slots) if slots.len() < pool.len() / 4 + BLOCK => {
                for slot in slots {
                    pool.refresh(&self.machines, &class.scan, marks, *slot);
                }
            }
            _ => pool.clear(),
        }
        pool.seen = self.changes.end();
    }

    fn best_of_pool(&self, cell: &Cell, id: ClassId, pool: &mut Pool, now: Time) -> Option<Slot> {
        let class = self.queue.classes.get(id)?;
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        let spread = self.spread(class);
        let enough = if self.settings.relaxed { self.settings.enough } else { usize::MAX };
        let mut widens = pool.fits() < enough / 2 || pool.is_empty();
        loop {
            if widens {
                let weights = &self.settings.weights;
                let more =
                    spread.map(|spread| |slot| spread.of_domains(&self.machines, slot, weights));
                pool.widen(&self.machines, &class.scan, marks, more.as_ref(), enough);
            }
            let real = |slot| self.score(cell, class, marks, slot, now);
            let fits = |slot| self.fits(cell, class, slot);
            let best = pool.best(&self.machines, real, fits);
            if best.is_some() || pool.is_whole(&self.machines) {
                return best;
            }
            widens = true;
        }
    }

    fn best_of_few(&self, cell: &Cell, id: ClassId, slots: &[Slot], now: Time) -> Option<Slot> {
        let class = self.queue.classes.get(id)?;
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        let fitting = slots.iter().filter(|slot| self.fits(cell, class, **slot));
        fitting.min_by_key(|slot| (self.score(cell, class, marks, **slot, now), **slot)).copied()
    }

    /// Whether a task of a class fits on a machine, according to `cell::feasibility`, beside what is
    /// kept there for others.
    pub(crate) fn fits(&self, cell: &Cell, class: &Class, slot: Slot) -> bool {
        let Some(machine) = cell.machine(self.machines.id(slot)) else { return false };
        let offer = self.machines.offer(slot, machine, self.colocated(class, slot));
        let offer = self.kept.taken_from(offer, slot, class.priority());
        fits(&class.ask(), &offer).is_ok()
    }

    /// Number of tasks of a class's job on a machine and at its switch.
    pub(crate) fn colocated(&self, class: &Class, slot: Slot) -> Colocated {
        let spread = self.spread(class);
        spread.map(|spread| spread.colocated(&self.machines, slot)).unwrap_or_default()
    }

    /// A machine's score for a task of a class, with all terms. It does not access the machine
    /// itself unless a special term applies.
    fn score(
        &self,
        cell: &Cell,
        class: &Class,
        marks: Option<&[u8]>,
        slot: Slot,
        now: Time,
    ) -> u32 {
        let usual = class.scan.of(&self.machines, marks, slot);
        let special =
            class.job().is_some() || !class.avoids.is_empty() || !self.suspects.is_empty();
        if usual == INFEASIBLE || !special {
            return usual;
        }
        let (weights, terms) = (&self.settings.weights, self.special(cell, class, slot, now));
        let more = |sum: u32, (term, value): &(Term, u32)| {
            sum.saturating_add(value.saturating_mul(weights.of(*term)))
        };
        terms.iter().fold(usual, more).min(INFEASIBLE - 1)
    }

    /// The terms that a scan does not include.
    fn special(&self, cell: &Cell, class: &Class, slot: Slot, now: Time) -> [(Term, u32); 6] {
        let ask = class.ask();
        let id = self.machines.id(slot);
        let suspect = self.suspects.contains_key(&slot)
            && cell.machine(id).is_some_and(|machine| machine.is_suspect(now));
        let spread = self.spread(class);
        let [on_machine, in_rack, on_power] =
            spread.map(|spread| spread.shares(&self.machines, slot)).unwrap_or_default();
        let maxima = ask.max_per_machine.is_some() || ask.max_per_switch.is_some();
        let colocated = if maxima { self.colocated(class, slot) } else { Colocated::default() };
        [
            (Term::Crashed, u32::from(class.avoids(id, now))),
            (Term::Suspect, u32::from(suspect)),
            (Term::OverMaximum, over_a_maximum(ask.max_per_machine, ask.max_per_switch, colocated)),
            (Term::SpreadMachine, on_machine),
            (Term::SpreadRack, in_rack),
            (Term::SpreadPower, on_power),
        ]
    }

    /// The terms of a machine's score for a task of a class, wherever it fits.
    pub(crate) fn terms(&self, cell: &Cell, class: &Class, slot: Slot, now: Time) -> Terms {
        let special = self.special(cell, class, slot, now);
        let value = |term| {
            let found = special.iter().find(|(other, _)| *other == term);
            found.map_or(0, |(_, value)| *value)
        };
        let attributes = cell.machine(self.machines.id(slot)).map(|machine| machine.attributes());
        let soft = |attributes| unmatched(&class.key.constraints, attributes);
        let share_of_prod = self.machines.share_of_prod[slot as usize];
        Terms(Term::ALL.map(|term| match term {
            Term::Soft => attributes.map_or(0, soft),
            Term::Packing => packing(self.settings.policy, class.scan.left(&self.machines, slot)),
            Term::Mixing => mixing(class.demand.prod, share_of_prod),
            special => value(special),
        }))
    }

    /// The distribution of the tasks of a class's job.
    pub(crate) fn spread(&self, class: &Class) -> Option<&Spread> {
        class.job().and_then(|job| self.spreads.get(&job))
    }

    /// Records a task of a class as planned on a machine.
    pub(crate) fn is_planned(&mut self, class: Option<CollectionId>, slot: Slot) {
        if let Some(spread) = class.and_then(|job| self.spreads.get_mut(&job)) {
            spread.add(&self.machines, slot);
        }
    }

    /// Drops the distributions of jobs without pending tasks.
    pub(crate) fn end_pass(&mut self) {
        let queue = &self.queue;
        if self.spreads.len() > 2 * queue.job_count() + 1_000 {
            self.spreads.retain(|job, _| queue.has(*job));
        }
    }
}

fn mark(constraints: &[Constraint], machine: &Machine) -> u8 {
    let attributes = machine.attributes();
    let hard = constraints.iter().filter(|constraint| constraint.hard);
    if !hard.clone().all(|constraint| constraint.matches(attributes)) {
        return UNMATCHED;
    }
    u8::try_from(unmatched(constraints, attributes)).unwrap_or(UNMATCHED - 1)
}
