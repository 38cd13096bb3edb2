//! The engine: the view of machines and classes, what is planned on them, and the search for the best machine.

mod follow;
mod in_alloc;
mod place;
mod preempt;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use cell::feasibility::{Colocated, fits};
use cell::{Cell, Demand, Job, Machine, TaskState};
use model::{
    CollectionId, Generation, HeldPackage, InstanceId, MachineId, PackingPolicy, Random, TaskId,
    TaskIndex, Time,
};
use spec::Constraint;

use crate::Settings;
use crate::change_log::ChangeLog;
use crate::class::{Class, ClassId, Classes, Where};
use crate::evictable::Evictable;
use crate::held::{ClassHeld, HeldPackages};
use crate::kept::{Kept, KeptRoom};
use crate::machines::{BLOCK, Change, Machines, Slot};
use crate::planned::{Planned, PlannedInAllocs};
use crate::pool::{Pool, UNMATCHED};
use crate::score::{INFEASIBLE, Term, Terms, mixing, over_a_maximum, packing, unmatched};
use crate::spread::Spread;

pub use follow::Changed;
pub use in_alloc::AllocSearch;

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

/// The view of a cell's machines and of the classes of the tasks that are to be placed, with what is
/// planned on top of it. It does not keep the cell: the caller keeps the copy, gives it to every call, and
/// reports every operation applied to it ([`Engine::follow`]).
///
/// It knows no queue: which task is placed next is its user's decision. A queue names the class of each
/// task that it places ([`Engine::join`]), and learns which classes may fit again
/// ([`Engine::begin_pass`]).
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    /// The packing policy of the settings, or else of the cell.
    packing: PackingPolicy,
    pub(crate) machines: Machines,
    pub(crate) classes: Classes,
    evictable: Evictable,
    /// What tasks that wait for their retry keep of their machines.
    kept: KeptRoom,
    /// What is proposed and not yet confirmed or rejected.
    planned: BTreeMap<InstanceId, Planned>,
    /// What of that is taken of allocs.
    in_allocs: PlannedInAllocs,
    random: Random,
    /// Number of machines when the slots were last assigned.
    ordered: usize,
    marks: BTreeMap<Vec<Constraint>, Vec<u8>>,
    spreads: BTreeMap<CollectionId, Spread>,
    changes: ChangeLog,
    /// The machines that gained room since the last pass.
    improved: BTreeSet<Slot>,
    /// The machines that remember crashes, and whether each is suspect.
    suspects: BTreeMap<Slot, bool>,
    /// The class whose scores were used last.
    last: Option<ClassId>,
    /// The classes for which there may be room again since the last pass.
    freed: BTreeSet<ClassId>,
    /// Which machines have which packages.
    held: HeldPackages,
}

impl Engine {
    /// The view of a cell, with nothing planned, that keeps the room of tasks that wait for their retry
    /// ([`Kept`]).
    #[must_use]
    pub fn new(cell: &Cell, settings: Settings) -> Self {
        let mut engine = Self::bare(cell, settings);
        for kept in Kept::in_cell(cell, cell.time()).into_values().flatten() {
            if let Some(slot) = engine.machines.slot(kept.machine) {
                engine.kept.add(slot, kept);
            }
        }
        engine
    }

    /// The same without kept room: for what-ifs, as if no other task were pending.
    #[must_use]
    pub fn bare(cell: &Cell, settings: Settings) -> Self {
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
            in_allocs: PlannedInAllocs::default(),
            packing: settings.policy_for(cell),
            settings,
            machines,
            classes: Classes::default(),
            random,
            marks: BTreeMap::new(),
            spreads: BTreeMap::new(),
            changes: ChangeLog::default(),
            improved: BTreeSet::new(),
            last: None,
            freed: BTreeSet::new(),
            held: HeldPackages::default(),
        }
    }

    /// Takes in the packages that a machine reports: the complete list, in place of the one before. Machines of which
    /// nothing is reported count as without packages.
    pub fn set_held(&mut self, machine: MachineId, held: &Arc<[HeldPackage]>) {
        self.held.set(machine, held);
    }

    /// Keeps the room of a task on its last machine if it waits for its retry.
    fn keep_room(&mut self, job: &Job, index: TaskIndex, now: Time) {
        if let Some(kept) = Kept::of(job, index, now)
            && let Some(slot) = self.machines.slot(kept.machine)
        {
            self.kept.add(slot, kept);
        }
    }

    /// A task's retry is due: what was kept for it of its last machine is there for all. A queue calls
    /// this when it begins to place the task.
    pub fn release_room(&mut self, task: TaskId) {
        if let Some(slot) = self.kept.remove(task) {
            self.changed(slot, Change::More);
        }
    }

    /// The class of a task, which may be new. Each call adds a use of the class, and
    /// [`Engine::leave`] ends one: with the last use its caches may be dropped, and a class of only
    /// one job's tasks is.
    ///
    /// For tasks that run in allocs there are no classes ([`Engine::search_allocs`]).
    pub fn join(&mut self, cell: &Cell, job: &Job, index: TaskIndex) -> ClassId {
        self.classes.join(cell, job, index, &self.machines, &self.settings)
    }

    /// Ends a use of a class. After the last one, the id may become that of another class.
    pub fn leave(&mut self, class: ClassId) {
        self.classes.leave(class);
    }

    /// Whether a task belongs to a class; cheaper than [`Engine::join`].
    #[must_use]
    pub fn is_of_class(&self, class: ClassId, cell: &Cell, job: &Job, index: TaskIndex) -> bool {
        self.classes.get(class).is_some_and(|class| class.has(cell, job, index, &self.settings))
    }

    /// Whether a search found that tasks of a class fit nowhere, and nothing happened since that could
    /// have made room for them.
    #[must_use]
    pub fn fits_nowhere(&self, class: ClassId) -> bool {
        self.classes.get(class).is_some_and(|class| matches!(class.places, Where::Nowhere))
    }

    /// Whether an incarnation of a task is in the plan.
    #[must_use]
    pub fn is_planned(&self, instance: InstanceId) -> bool {
        self.planned.contains_key(&instance)
    }

    /// The pending incarnation of a task; `None` if it is not pending, or planned already.
    #[must_use]
    pub fn unplanned(&self, cell: &Cell, task: TaskId) -> Option<InstanceId> {
        let instance = task.generation(cell.task(task)?.generation);
        (is_pending(cell, instance) && !self.is_planned(instance)).then_some(instance)
    }

    /// A machine's description changed, or what is placed on it.
    fn machine_changed(&mut self, cell: &Cell, id: MachineId, described: bool) {
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
    fn room_is_awaited(&mut self, cell: &Cell, slot: Slot) {
        if self.classes.limited.is_empty() || self.improved.contains(&slot) {
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
    fn hold(&mut self, slot: Slot, demand: &Demand, ports: &[u16], address: Option<Ipv4Addr>) {
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
    fn is_outgrown(&self, cell: &Cell, described: &[MachineId]) -> bool {
        let mut machines = described.iter().filter_map(|id| cell.machine(*id));
        let shuffles = self.settings.relaxed && self.machines.count() > self.settings.enough;
        machines.any(|machine| !self.machines.measures(machine))
            || (shuffles && self.machines.count() > 2 * self.ordered)
            || self.machines.gone() > self.machines.count() + GONE_MAX
    }

    fn forget_places(&mut self) {
        self.freed.extend(&self.classes.limited);
        self.classes.forget_places(&self.machines);
        self.held.touch();
    }

    /// A task of a job left its machine, or is no longer planned on it: cached scores that counted
    /// it are too high. `None` if its machine is unknown.
    fn job_left(&mut self, job: CollectionId, machine: Option<MachineId>) {
        match machine.and_then(|machine| self.machines.slot(machine)) {
            Some(slot) => {
                if let Some(spread) = self.spreads.get_mut(&job) {
                    spread.remove(&self.machines, slot);
                }
            }
            None => drop(self.spreads.remove(&job)),
        }
        for id in self.classes.of_job(job) {
            let Some(class) = self.classes.get(id) else { continue };
            let per_switch = class.ask().max_per_switch.is_some_and(|maximum| maximum.hard);
            let kept = matches!(class.places, Where::Nowhere | Where::Few(_));
            if per_switch || !kept {
                self.classes.set_places(id, Where::Unknown);
                self.freed.insert(id);
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

    /// Starts a pass: applies what time has changed. Returns the classes for which there may be room
    /// again since the pass before; of other classes that fitted nowhere no task fits now.
    pub fn begin_pass(&mut self, cell: &Cell, now: Time) -> BTreeSet<ClassId> {
        self.refresh_suspects(cell, now);
        let improved = std::mem::take(&mut self.improved);
        if !improved.is_empty() && !self.classes.limited.is_empty() {
            self.evictable.catch_up(cell, &self.machines);
            for id in self.classes.limited.clone() {
                self.look_again(cell, id, &improved);
            }
        }
        self.changes.forget(self.machines.len().max(4_096));
        std::mem::take(&mut self.freed)
    }

    /// Whether machines that gained room have enough for a class that fitted nowhere.
    fn look_again(&mut self, cell: &Cell, id: ClassId, improved: &BTreeSet<Slot>) {
        let Some(class) = self.classes.get(id) else { return };
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        let mut slots = match &class.places {
            Where::Few(slots) => slots.clone(),
            _ => Vec::new(),
        };
        let only = class.key.machine.map(|machine| self.machines.slot(machine));
        for slot in improved {
            if only.is_some_and(|only| only != Some(*slot)) || slots.contains(slot) {
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
            self.classes.set_places(id, if many { Where::Unknown } else { Where::Few(slots) });
            self.freed.insert(id);
        }
    }

    /// The best machine for a task of a class; `None` if it fits nowhere without evictions.
    fn best(&mut self, cell: &Cell, id: ClassId, now: Time) -> Option<Slot> {
        self.prepare(cell, id);
        let unknown = |class: &&Class| matches!(class.places, Where::Unknown);
        let only = self.classes.get(id).filter(unknown).and_then(|class| class.key.machine);
        if let Some(machine) = only {
            let slot = self.machines.slot(machine);
            let places = slot.map_or(Where::Nowhere, |slot| Where::Few(vec![slot]));
            self.classes.set_places(id, places);
        }
        let mut class = std::mem::replace(&mut self.classes.get_mut(id)?.places, Where::Unknown);
        let found = match &mut class {
            Where::Nowhere => None,
            Where::Few(slots) => self.best_of_few(cell, id, slots, now),
            Where::Unknown => {
                let blocks = (self.machines.len() / BLOCK).max(1);
                let start = if self.settings.relaxed { self.random.index(blocks) } else { 0 };
                let mut pool = self.classes.window(POOL_BYTES_MAX);
                let bytes = pool.bytes();
                pool.begin(start, self.changes.end());
                let found = self.best_of_pool(cell, id, &mut pool, now);
                self.classes.window_bytes += pool.bytes() - bytes;
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
                self.classes.window_bytes += pool.bytes() - bytes;
                found
            }
        };
        self.last = Some(id);
        self.classes.get_mut(id)?.places = class;
        found
    }

    /// A random slot if machines are examined in a random order, else the first.
    fn draw(&mut self, slots: usize) -> Slot {
        let relaxed = self.settings.relaxed && slots > self.settings.enough;
        Slot::try_from(if relaxed { self.random.index(slots) } else { 0 }).unwrap_or(0)
    }

    /// Finds what machines have of a class's packages, if that may have changed.
    fn prepare_held(&mut self, cell: &Cell, id: ClassId) {
        let Some(class) = self.classes.get_mut(id) else { return };
        let version = self.held.version();
        if class.key.packages.is_empty() || class.held_seen == Some(version) {
            return;
        }
        class.held = self.held.of(cell, &class.key.packages, &self.machines);
        class.held_seen = Some(version);
        // A kept score counts what was there before: it may be too high now.
        if matches!(class.places, Where::Pool(_)) {
            self.classes.set_places(id, Where::Unknown);
        }
    }

    /// Computes the cached data that a class needs.
    pub(crate) fn prepare(&mut self, cell: &Cell, id: ClassId) {
        self.prepare_held(cell, id);
        let Some(class) = self.classes.get(id) else { return };
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
        let Some(class) = self.classes.get(id) else { return };
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
        let class = self.classes.get(id)?;
        let marks = self.marks.get(&class.key.constraints).map(Vec::as_slice);
        let spread = self.spread(class);
        let enough = if self.settings.relaxed { self.settings.enough } else { usize::MAX };
        let mut widens = pool.fits() < enough / 2 || pool.is_empty();
        loop {
            if widens {
                let weights = &self.settings.weights;
                let held = class.held.as_ref();
                let more = (spread.is_some() || held.is_some()).then_some(|slot| {
                    let domains =
                        spread.map_or(0, |spread| spread.of_domains(&self.machines, slot, weights));
                    let lacks = held.map_or(0, |held| held.missing(slot));
                    domains.saturating_add(lacks.saturating_mul(weights.packages))
                });
                pool.widen(&self.machines, &class.scan, marks, more.as_ref(), enough);
            }
            let real = |slot| self.score(cell, class, marks, slot, now);
            let fits = |slot| self.fits(cell, class, slot);
            let best = pool.best(&self.machines, real, fits);
            if pool.is_whole(&self.machines) {
                return best;
            }
            if best.is_some() {
                return self.best_holder(cell, class, marks, best, now);
            }
            widens = true;
        }
    }

    /// The better of a machine and those with the most of a class's packages: the window may have none of these.
    fn best_holder(
        &self,
        cell: &Cell,
        class: &Class,
        marks: Option<&[u8]>,
        found: Option<Slot>,
        now: Time,
    ) -> Option<Slot> {
        let score = |slot| self.score(cell, class, marks, slot, now);
        let mut best = found.map(|slot| (score(slot), slot));
        for slot in class.held.iter().flat_map(ClassHeld::nearest).copied() {
            let score = score(slot);
            let is_better = best.is_none_or(|(lowest, _)| score < lowest);
            if score != INFEASIBLE && is_better && self.fits(cell, class, slot) {
                best = Some((score, slot));
            }
        }
        best.map(|(_, slot)| slot)
    }

    fn best_of_few(&self, cell: &Cell, id: ClassId, slots: &[Slot], now: Time) -> Option<Slot> {
        let class = self.classes.get(id)?;
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
    fn colocated(&self, class: &Class, slot: Slot) -> Colocated {
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
        let special = class.job().is_some()
            || class.held.is_some()
            || !class.avoids.is_empty()
            || !self.suspects.is_empty();
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
    fn special(&self, cell: &Cell, class: &Class, slot: Slot, now: Time) -> [(Term, u32); 7] {
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
            (Term::Packages, class.held.as_ref().map_or(0, |held| held.missing(slot))),
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
            Term::Packing => packing(self.packing, class.scan.left(&self.machines, slot)),
            Term::Mixing => mixing(class.demand.prod, share_of_prod),
            special => value(special),
        }))
    }

    /// The distribution of the tasks of a class's job.
    fn spread(&self, class: &Class) -> Option<&Spread> {
        class.job().and_then(|job| self.spreads.get(&job))
    }

    /// Counts a planned task in the distribution of its job.
    fn spread_to(&mut self, job: Option<CollectionId>, slot: Slot) {
        if let Some(spread) = job.and_then(|job| self.spreads.get_mut(&job)) {
            spread.add(&self.machines, slot);
        }
    }

    /// Ends a pass: drops the distributions of jobs of which no class is used.
    pub fn end_pass(&mut self) {
        let classes = &self.classes;
        if self.spreads.len() > 2 * classes.job_count() + 1_000 {
            self.spreads.retain(|job, _| classes.has(*job));
        }
    }
}

/// Whether this incarnation of a task is pending.
fn is_pending(cell: &Cell, instance: InstanceId) -> bool {
    cell.task(instance.task()).is_some_and(|task| {
        task.generation == instance.generation && matches!(task.state, TaskState::Pending { .. })
    })
}

fn mark(constraints: &[Constraint], machine: &Machine) -> u8 {
    let attributes = machine.attributes();
    let hard = constraints.iter().filter(|constraint| constraint.hard);
    if !hard.clone().all(|constraint| constraint.matches(attributes)) {
        return UNMATCHED;
    }
    u8::try_from(unmatched(constraints, attributes)).unwrap_or(UNMATCHED - 1)
}
