//! Where a task goes: what is known of machines and classes, and how the best machine is found.

mod inside;
mod preempt;

use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{Colocated, fits};
use cell::{Cell, Demand, Machine};
use model::{CollectionId, Generation, InstanceId, MachineId, Random, TaskId, TaskIndex, Time};
use spec::Constraint;

use crate::Settings;
use crate::class::{Class, ClassId, Where};
use crate::evictable::Evictable;
use crate::machines::{BLOCK, Change, Machines, Slot};
use crate::planned::Planned;
use crate::pool::{Pool, UNMATCHED};
use crate::queue::Queue;
use crate::score::{INFEASIBLE, Term, Terms, mixing, over_a_maximum, packing, unmatched};
use crate::spread::Spread;

/// Marks are kept for so many sets of constraints.
const MARKS_MAX: usize = 1_000;
/// A window is looked at so often, and then another one is drawn: a job of thousands of tasks that
/// kept to one would fill its machines with nothing but its own kind.
const LOOKS: usize = 16;
/// Slots of machines that are gone are kept until there are more of them than machines, and so many.
const GONE_MAX: usize = 4_096;
/// The scores that are kept take at most so many bytes.
const POOL_BYTES_MAX: usize = 24 << 20;

/// What is known of machines and classes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) machines: Machines,
    pub(crate) queue: Queue,
    pub(crate) evictable: Evictable,
    /// What is proposed and not yet heard about.
    pub(crate) planned: BTreeMap<InstanceId, Planned>,
    random: Random,
    /// How many machines there were when they were last put in order.
    ordered: usize,
    marks: BTreeMap<Vec<Constraint>, Vec<u8>>,
    spreads: BTreeMap<CollectionId, Spread>,
    changes: Changes,
    /// The machines with more room than before, since the last pass looked.
    improved: BTreeSet<Slot>,
    /// The machines that remember crashes, and which of them are suspect.
    suspects: BTreeMap<Slot, bool>,
    /// Whose scores were looked at last.
    last: Option<ClassId>,
}

/// The machines that changed, one after the other.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// How many were before those that are kept.
    before: u64,
    slots: Vec<Slot>,
    /// By slot, what was left of CPU and memory when it was last listed; see
    /// [`Changes::is_small`].
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

    /// Those after a moment; nothing where they are not kept any more.
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

    /// Whether a machine is about as full as when it was last listed: by a hundredth of itself at
    /// most in CPU and memory (paper, section 3.4: "ignoring small changes").
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
    /// What is known of a cell, every pending task in the queue.
    pub(crate) fn new(cell: &Cell, settings: Settings) -> Self {
        let mut engine = Self::bare(cell, settings);
        engine.queue = Queue::of(cell, &engine.machines, &engine.settings);
        engine
    }

    /// What is known of a cell's machines; nothing is in the queue.
    pub(crate) fn bare(cell: &Cell, settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let shuffled = settings.relaxed && cell.machine_count() > settings.enough;
        let machines = Machines::of(cell, &mut random, shuffled);
        let suspects = cell.machines().filter(|machine| !machine.crashes.is_empty());
        let suspects = suspects.filter_map(|machine| machines.slot(machine.id));
        // What was there before the first change can be made to leave as well.
        let mut evictable = Evictable::default();
        let slots = cell.machines().filter_map(|machine| machines.slot(machine.id));
        slots.for_each(|slot| evictable.spoil(slot));
        Self {
            ordered: machines.count(),
            suspects: suspects.map(|slot| (slot, false)).collect(),
            evictable,
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

    /// What is said of a machine has changed, or what is placed on it.
    pub(crate) fn machine_changed(&mut self, cell: &Cell, id: MachineId, described: bool) {
        let known = self.machines.len();
        let (slot, change) = match described {
            true => self.machines.describe(cell, id),
            false => self.machines.recount(cell, id),
        };
        let Some(slot) = slot else { return };
        self.evictable.spoil(slot);
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
        // What is said of it may match what it did not match.
        self.changed(slot, if described { Change::More } else { change });
        self.room_is_awaited(cell, slot);
    }

    /// Who waits for what is leaving a machine asks nobody else to leave. Where something took of its
    /// room meanwhile, that may no longer be enough: it is looked at again.
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

    /// The plan holds something of a machine.
    pub(crate) fn hold(&mut self, slot: Slot, demand: &Demand, ports: &[u16]) {
        let change = self.machines.plan(slot, demand, ports);
        self.evictable.spoil(slot);
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

    /// Whether the machines have to be put in order anew: there are many more than there were, or
    /// many are gone, or one is larger than any was.
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

    /// A task of a job has left its machine, or is planned on it no more: scores that counted it are
    /// too high. Of some it is not known where they were.
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
                self.queue.classes.now(id, Where::Unknown);
                self.queue.unblock(id);
            }
        }
    }

    /// Which machines are suspect at a moment.
    pub(crate) fn know_suspects(&mut self, cell: &Cell, now: Time) {
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

    /// A pass begins: what time has changed, and for whom there is room again.
    pub(crate) fn begin_pass(&mut self, cell: &Cell, now: Time) {
        self.know_suspects(cell, now);
        let improved = std::mem::take(&mut self.improved);
        if !improved.is_empty() && !self.queue.classes.limited.is_empty() {
            self.evictable.catch_up(cell, &self.machines);
            for id in self.queue.classes.limited.clone() {
                self.look_again(cell, id, &improved);
            }
        }
        self.changes.forget(self.machines.len().max(4_096));
    }

    /// Whether machines with more room have enough for a class that fitted nowhere.
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
            self.queue.classes.now(id, if many { Where::Unknown } else { Where::Few(slots) });
            self.queue.unblock(id);
        }
    }

    /// The best machine for a task of a class; none where it fits nowhere without an eviction.
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

    /// A slot drawn at random where machines are looked at in a random order, and else the first.
    pub(crate) fn draw(&mut self, slots: usize) -> Slot {
        let relaxed = self.settings.relaxed && slots > self.settings.enough;
        Slot::try_from(if relaxed { self.random.index(slots) } else { 0 }).unwrap_or(0)
    }

    /// What a class needs that is kept elsewhere.
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

    /// Scores of machines that changed are counted again.
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

    /// Whether a task of a class fits on a machine: `cell::feasibility` says so.
    pub(crate) fn fits(&self, cell: &Cell, class: &Class, slot: Slot) -> bool {
        let Some(machine) = cell.machine(self.machines.id(slot)) else { return false };
        let offer = self.machines.offer(slot, machine, self.colocated(class, slot));
        fits(&class.ask(), &offer).is_ok()
    }

    /// What of a class's job is on a machine and at its switch.
    pub(crate) fn colocated(&self, class: &Class, slot: Slot) -> Colocated {
        let spread = self.spread(class);
        spread.map(|spread| spread.colocated(&self.machines, slot)).unwrap_or_default()
    }

    /// A machine's score for a task of a class, every term counted. It does not look at the machine
    /// itself where nothing special is known of it.
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

    /// The terms that a scan does not count.
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

    /// What is known of where the tasks of a class's job are.
    pub(crate) fn spread(&self, class: &Class) -> Option<&Spread> {
        class.job().and_then(|job| self.spreads.get(&job))
    }

    /// A task of a class is planned on a machine.
    pub(crate) fn is_planned(&mut self, class: Option<CollectionId>, slot: Slot) {
        if let Some(spread) = class.and_then(|job| self.spreads.get_mut(&job)) {
            spread.add(&self.machines, slot);
        }
    }

    /// Jobs of which nothing is pending need not be known.
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
