//! Where a task goes: what is known of machines and classes, and how the best machine is found.

use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{Beside, fits};
use cell::{Cell, Held, Machine};
use model::{CollectionId, MachineId, Time};
use spec::Constraint;

use crate::Settings;
use crate::class::{Class, ClassId, Where};
use crate::machines::{BLOCK, Change, Machines, Slot};
use crate::pool::{Pool, UNMATCHED};
use crate::preempt::Evictable;
use crate::queue::Queue;
use crate::random::Random;
use crate::score::{INFEASIBLE, Left, Term, Terms, mixing, over_a_maximum, packing, unmatched};
use crate::spread::Spread;

/// Marks are kept for so many sets of constraints.
const MARKS_MAX: usize = 1_000;
/// The scores that are kept take at most so many bytes.
const POOL_BYTES_MAX: usize = 192 << 20;

/// What is known of machines and classes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) machines: Machines,
    pub(crate) queue: Queue,
    pub(crate) evictable: Evictable,
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
    pool_bytes: usize,
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
            u64::from(by) * u64::from(machines.inverse[dimension][at]) >> 20 < u64::from(HUNDREDTH)
        };
        if near(0) && near(1) {
            return true;
        }
        self.listed[at] = now;
        false
    }
}

impl Engine {
    pub(crate) fn new(cell: &Cell, settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let shuffled = settings.relaxed && cell.machine_count() > settings.enough;
        let machines = Machines::of(cell, &mut random, shuffled);
        let queue = Queue::of(cell, &machines, &settings);
        let suspects = cell.machines().filter(|machine| !machine.crashes.is_empty());
        let suspects = suspects.filter_map(|machine| machines.slot(machine.id));
        Self {
            ordered: machines.count(),
            suspects: suspects.map(|slot| (slot, false)).collect(),
            evictable: Evictable::default(),
            settings,
            machines,
            queue,
            random,
            marks: BTreeMap::new(),
            spreads: BTreeMap::new(),
            changes: Changes::default(),
            improved: BTreeSet::new(),
            pool_bytes: 0,
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
    }

    /// The plan holds something of a machine.
    pub(crate) fn planned(&mut self, slot: Slot, held: &Held, ports: &[u16]) {
        let change = self.machines.plan(slot, held, ports);
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
    /// one is larger than any was.
    pub(crate) fn is_outgrown(&self, cell: &Cell, described: &[MachineId]) -> bool {
        let mut machines = described.iter().filter_map(|id| cell.machine(*id));
        let shuffles = self.settings.relaxed && self.machines.count() > self.settings.enough;
        machines.any(|machine| !self.machines.measures(machine))
            || (shuffles && self.machines.count() > 2 * self.ordered)
    }

    fn forget_places(&mut self) {
        self.pool_bytes = 0;
        self.queue.classes.forget_places(&self.machines);
        for class in self.queue.classes.blocked.clone() {
            self.queue.unblock(class);
        }
    }

    /// Tasks of a job have left their machines, or are planned no more: what was known of where they
    /// are is wrong, and scores that counted them are too high.
    pub(crate) fn job_left(&mut self, job: CollectionId) {
        self.spreads.remove(&job);
        for id in self.queue.classes_of(job) {
            let Some(class) = self.queue.classes.get_mut(id) else { continue };
            let per_switch = class.ask().max_per_switch.is_some_and(|maximum| maximum.hard);
            let kept = matches!(class.places, Where::Nowhere | Where::Few(_));
            if class.job() == Some(job) && (per_switch || !kept) {
                class.places = Where::Unknown;
                self.queue.unblock(id);
            }
        }
    }

    /// A pass begins: what time has changed, and for whom there is room again.
    pub(crate) fn begin_pass(&mut self, cell: &Cell, now: Time) {
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
        let improved = std::mem::take(&mut self.improved);
        if !improved.is_empty() {
            for id in self.queue.classes.blocked.clone() {
                self.look_again(cell, now, id, &improved);
            }
        }
        self.changes.forget(self.machines.len().max(4_096));
    }

    /// Whether machines with more room have enough for a class that fitted nowhere.
    fn look_again(&mut self, cell: &Cell, now: Time, id: ClassId, improved: &BTreeSet<Slot>) {
        let Some(class) = self.queue.classes.get(id) else { return };
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        let spread = class.job().and_then(|job| self.spreads.get(&job));
        let mut slots = Vec::new();
        for slot in improved {
            let plain = class.scan.of(&self.machines, marks, *slot) != INFEASIBLE
                && self.real(cell, class, spread, *slot, now) != INFEASIBLE;
            if plain || self.could_preempt(cell, class, spread, *slot) {
                slots.push(*slot);
            }
        }
        if !slots.is_empty()
            && let Some(class) = self.queue.classes.get_mut(id)
        {
            class.places = Where::Few(slots);
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
                let start = if std::env::var_os("RS").is_some() && self.settings.relaxed {
                    self.random.below(blocks)
                } else {
                    0
                };
                let mut pool = Box::new(Pool::at(start, self.changes.end()));
                let found = self.best_of_pool(cell, id, &mut pool, now);
                class = Where::Pool(pool);
                found
            }
            Where::Pool(pool) => {
                self.pool_bytes = self.pool_bytes.saturating_sub(pool.bytes());
                self.refresh(id, pool);
                self.best_of_pool(cell, id, pool, now)
            }
        };
        if let Where::Pool(pool) = &class {
            self.pool_bytes += pool.bytes();
        }
        if self.pool_bytes > POOL_BYTES_MAX {
            self.drop_pools();
        }
        self.last = Some(id);
        self.queue.classes.get_mut(id)?.places = class;
        found
    }

    /// What a class needs that is kept elsewhere.
    fn prepare(&mut self, cell: &Cell, id: ClassId) {
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
            self.spreads.insert(id, Spread::of(job, &self.machines));
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
        let spread = class.job().and_then(|job| self.spreads.get(&job));
        let enough = if self.settings.relaxed { self.settings.enough } else { usize::MAX };
        if pool.fits() < enough / 2 || pool.is_empty() {
            pool.widen(&self.machines, &class.scan, marks, enough);
        }
        loop {
            let real = |slot| self.real(cell, class, spread, slot, now);
            let best = pool.best(&self.machines, real);
            if best.is_some() || pool.is_whole(&self.machines) {
                return best;
            }
            pool.widen(&self.machines, &class.scan, marks, enough);
        }
    }

    fn best_of_few(&self, cell: &Cell, id: ClassId, slots: &[Slot], now: Time) -> Option<Slot> {
        let class = self.queue.classes.get(id)?;
        let spread = class.job().and_then(|job| self.spreads.get(&job));
        let scored = slots.iter().map(|slot| (self.real(cell, class, spread, *slot, now), *slot));
        scored.min().filter(|(score, _)| *score != INFEASIBLE).map(|(_, slot)| slot)
    }

    fn drop_pools(&mut self) {
        for class in self.queue.classes.iter_mut() {
            if let Where::Pool(_) = class.places {
                class.places = Where::Unknown;
            }
        }
        self.pool_bytes = 0;
    }

    /// A machine's score for a task of a class, every term counted.
    fn real(
        &self,
        cell: &Cell,
        class: &Class,
        spread: Option<&Spread>,
        slot: Slot,
        now: Time,
    ) -> u32 {
        let Some(machine) = cell.machine(self.machines.id(slot)) else { return INFEASIBLE };
        let beside = spread.map(|spread| spread.beside(&self.machines, slot)).unwrap_or_default();
        let offer = self.machines.offer(slot, machine, beside);
        if fits(&class.ask(), &offer).is_err() {
            return INFEASIBLE;
        }
        self.terms(class, machine, spread, beside, slot, now).total(&self.settings.weights)
    }

    /// The terms of a machine's score for a task of a class, wherever it fits.
    pub(crate) fn terms(
        &self,
        class: &Class,
        machine: &Machine,
        spread: Option<&Spread>,
        beside: Beside,
        slot: Slot,
        now: Time,
    ) -> Terms {
        let suspect = self.suspects.contains_key(&slot) && machine.is_suspect(now);
        let ask = class.ask();
        let [on_machine, in_rack, on_power] =
            spread.map(|spread| spread.shares(&self.machines, slot)).unwrap_or_default();
        let value = |term| match term {
            Term::Crashed => u32::from(class.avoids(machine.id, now)),
            Term::Suspect => u32::from(suspect),
            Term::Soft => unmatched(ask.constraints, machine.attributes()),
            Term::OverMaximum => over_a_maximum(ask.max_per_machine, ask.max_per_switch, beside),
            Term::SpreadMachine => on_machine,
            Term::SpreadRack => in_rack,
            Term::SpreadPower => on_power,
            Term::Packing => packing(self.settings.policy, self.left(class, slot)),
            Term::Mixing => mixing(class.held.prod, self.machines.share_of_prod[slot as usize]),
        };
        Terms(Term::ALL.map(value))
    }

    fn left(&self, class: &Class, slot: Slot) -> Left {
        class.scan.left(&self.machines, slot)
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
