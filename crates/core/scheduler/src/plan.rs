//! The scheduler's copy of the cell, and the plan on top of it.

use std::collections::{BTreeMap, BTreeSet};

use cell::lifecycle::Stage;
use cell::{Applied, Assignment, Cell, EventKind, Op, Outcome, Subject, TaskState};
use model::{Generation, InstanceId, LogIndex, MachineId, TaskId, Time};

use crate::Settings;
use crate::engine::Engine;
use crate::planned::Planned;

/// The proposals of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The index of the copy on which it was made.
    pub made_at: LogIndex,
    /// The assignments; each is accepted or rejected on its own.
    pub assignments: Vec<Assignment>,
    /// When a task that waits for its retry can be placed, if nothing else happens before.
    pub next: Option<Time>,
    /// Number of tasks that may be placed now but fit nowhere.
    pub unplaced: usize,
}

/// A scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    cell: Cell,
    engine: Engine,
}

impl Scheduler {
    /// A scheduler with its first copy of the cell and default settings.
    #[must_use]
    pub fn new(cell: Cell) -> Self {
        Self::with(cell, Settings::default())
    }

    /// A scheduler with its first copy of the cell and the given settings.
    #[must_use]
    pub fn with(cell: Cell, settings: Settings) -> Self {
        let engine = Engine::new(&cell, settings);
        Self { cell, engine }
    }

    /// Its copy of the cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.engine.settings
    }

    /// Applies a committed operation to the copy, and returns its effects.
    pub fn follow(&mut self, at: Time, op: &Op) -> Applied {
        let applied = self.cell.apply(at, op);
        let mut touched = Touched::by(&self.cell, op, &applied);
        if let Op::Assign(assignments) = op {
            // Accepted or rejected, from here on the cell's own record is authoritative.
            let refused = |position: usize| match &applied.outcome {
                Outcome::Assigned(judged) => judged.get(position).is_none_or(Result::is_err),
                _ => true,
            };
            for (position, assignment) in assignments.iter().enumerate() {
                let planned = self.forget(assignment.instance);
                // If it was placed as planned, the machine's state is already known.
                let as_planned = planned.as_ref().is_some_and(|planned| {
                    planned.machine == assignment.machine && planned.victims.is_empty()
                });
                if !as_planned || refused(position) {
                    touched.machines.insert(assignment.machine, false);
                    let of_plan = planned.as_ref().map(|planned| (planned.machine, false));
                    touched.machines.extend(of_plan);
                } else if let Some(planned) = &planned {
                    self.engine.evictable.mark_stale(planned.slot);
                }
                match (planned, refused(position)) {
                    // It was placed as planned, and is no longer in the queue.
                    (Some(_), false) => {}
                    (Some(planned), true) => {
                        touched.left.insert((assignment.instance.task(), Some(planned.machine)));
                        touched.tasks.insert(assignment.instance.task());
                    }
                    // From another scheduler.
                    (None, false) => {
                        touched.left.insert((assignment.instance.task(), None));
                        touched.tasks.insert(assignment.instance.task());
                    }
                    (None, true) => {}
                }
            }
        }
        for event in &applied.events {
            match event.subject {
                Subject::Task(instance) => {
                    self.engine.queue.inside.happened(&self.cell, instance.collection);
                }
                Subject::Machine(_) => {
                    self.engine.queue.inside.happened_to_a_machine(&self.cell);
                }
                Subject::Job(_) | Subject::Cell => {}
            }
        }
        self.apply_changes(&touched);
        applied
    }

    /// A proposal was not decided, or its outcome is unknown: its tasks are considered again. For a
    /// decided one the operation itself brings the outcome ([`Scheduler::follow`]): an assignment
    /// was rejected by a cell newer than the copy, and the same plan made from the same copy would
    /// be rejected again.
    pub fn not_judged(&mut self, assignments: impl IntoIterator<Item = InstanceId>) {
        let mut touched = Touched::default();
        for instance in assignments {
            if let Some(planned) = self.forget(instance) {
                touched.machines.insert(planned.machine, false);
                touched.left.insert((instance.task(), Some(planned.machine)));
                touched.tasks.insert(instance.task());
            }
        }
        self.apply_changes(&touched);
    }

    /// Removes an instance from the plan; its machine has to be recounted.
    fn forget(&mut self, instance: InstanceId) -> Option<Planned> {
        let planned = self.engine.planned.remove(&instance)?;
        for victim in &planned.victims {
            self.engine.evictable.planned.remove(victim);
            self.engine.queue.inside.happened(&self.cell, victim.collection);
        }
        let Planned { slot, demand, ports, address, .. } = &planned;
        self.engine.machines.unplan(*slot, demand, ports, *address);
        if let Some((alloc, limit)) = planned.alloc {
            self.engine.queue.inside.unplan(alloc, limit, &planned.alloc_ports);
            self.engine.queue.inside.happened(&self.cell, alloc.collection);
        }
        Some(planned)
    }

    /// Applies what changed to the data structures beside the copy.
    fn apply_changes(&mut self, touched: &Touched) {
        let described = touched.machines.iter().filter(|(_, described)| **described);
        let described: Vec<MachineId> = described.map(|(id, _)| *id).collect();
        if !described.is_empty() && self.engine.is_outgrown(&self.cell, &described) {
            self.rebuild();
            return;
        }
        if !touched.left.is_empty() {
            self.engine.queue.inside.ports_came_back(&self.cell);
        }
        let mut ended: Vec<InstanceId> = Vec::new();
        for task in &touched.tasks {
            let of = task.generation(Generation(0))..=task.generation(Generation(u32::MAX));
            let stale = |(instance, _): (&InstanceId, &Planned)| {
                (!self.is_pending(*instance)).then_some(*instance)
            };
            ended.extend(self.engine.planned.range(of).filter_map(stale));
        }
        let mut machines = touched.machines.clone();
        let mut left = touched.left.clone();
        for instance in ended {
            if let Some(planned) = self.forget(instance) {
                machines.entry(planned.machine).or_insert(false);
                left.insert((instance.task(), Some(planned.machine)));
            }
        }
        for (id, described) in &machines {
            self.engine.machine_changed(&self.cell, *id, *described);
        }
        for task in &touched.tasks {
            self.requeue(*task);
        }
        for (task, machine) in left {
            self.engine.job_left(task.collection, machine);
        }
    }

    /// Rebuilds all data structures beside the copy.
    fn rebuild(&mut self) {
        let settings = self.engine.settings.clone();
        let planned = std::mem::take(&mut self.engine.planned);
        self.engine = Engine::new(&self.cell, settings);
        for (instance, planned) in planned {
            if self.is_pending(instance)
                && let Some(slot) = self.engine.machines.slot(planned.machine)
            {
                self.engine.evictable.planned.extend(planned.victims.iter().copied());
                self.engine.hold(slot, &planned.demand, &planned.ports, planned.address);
                if let Some((alloc, limit)) = planned.alloc {
                    self.engine.queue.inside.plan(alloc, limit, &planned.alloc_ports);
                }
                self.engine.queue.leave(instance.task());
                self.engine.planned.insert(instance, Planned { slot, ..planned });
            }
        }
    }

    fn is_pending(&self, instance: InstanceId) -> bool {
        self.cell.task(instance.task()).is_some_and(|task| {
            task.generation == instance.generation
                && matches!(task.state, TaskState::Pending { .. })
        })
    }

    /// Puts a task in its place in the queue, or removes it.
    fn requeue(&mut self, id: TaskId) {
        self.engine.queue.leave(id);
        self.engine.release_room(id);
        let Some(job) = self.cell.job(id.collection) else { return };
        let Some(instance) = job.instance(id.index) else { return };
        if self.is_pending(instance) && !self.engine.planned.contains_key(&instance) {
            let (machines, settings) = (&self.engine.machines, &self.engine.settings);
            let now = self.cell.time();
            self.engine.queue.enter(job, id.index, now, machines, settings);
            self.engine.keep_room(job, id.index, now);
        }
    }

    /// Scans the queue once and proposes what fits.
    pub fn pass(&mut self, now: Time) -> Plan {
        for instance in self.engine.queue.due(now) {
            if let Some(job) = self.cell.job(instance.collection)
                && self.is_pending(instance)
                && !self.engine.planned.contains_key(&instance)
            {
                self.engine.release_room(instance.task());
                let (machines, settings) = (&self.engine.machines, &self.engine.settings);
                self.engine.queue.enter(job, instance.index, now, machines, settings);
            }
        }
        let mut plan = Plan { made_at: self.cell.index(), ..Plan::default() };
        let most = self.engine.settings.assignments_max;
        plan.assignments = self.engine.pass(&self.cell, now, most);
        plan.unplaced = self.engine.queue.blocked_tasks();
        plan.next = match plan.assignments.len() >= most {
            true => Some(now),
            false => self.engine.queue.next(),
        };
        plan
    }
}

/// The objects that an operation touched.
#[derive(Debug, Default)]
struct Touched {
    /// Machines, and whether their descriptions changed.
    machines: BTreeMap<MachineId, bool>,
    tasks: BTreeSet<TaskId>,
    /// Tasks that changed their place, with the machine they left; `None` if they left none.
    left: BTreeSet<(TaskId, Option<MachineId>)>,
}

impl Touched {
    fn by(cell: &Cell, op: &Op, applied: &Applied) -> Self {
        let mut touched = Self::default();
        // The effects of an assignment are known from the assignment, and mostly from the plan.
        if !matches!(op, Op::Assign(_)) {
            touched.machines.extend(applied.reordered.iter().map(|id| (*id, false)));
        }
        if let Op::Reserve(reservations) = op {
            touched.tasks.extend(reservations.iter().map(|one| one.instance.task()));
            let placed = reservations.iter().filter_map(|one| cell.placement(one.instance));
            touched.machines.extend(placed.map(|placement| (placement.machine, false)));
        }
        if let Op::Observe { machine, .. } = op {
            touched.machines.entry(*machine).or_insert(false);
        }
        if let Op::DescribeMachine { machine, .. }
        | Op::MachineSilent { machine }
        | Op::MachineBack { machine } = op
        {
            touched.machines.insert(*machine, true);
        }
        for event in &applied.events {
            match event.subject {
                Subject::Machine(id) => drop(touched.machines.insert(id, true)),
                Subject::Task(instance) if matches!(event.kind, EventKind::Schedule { .. }) => {
                    // The effects of an assignment are known from the assignment. A task that an
                    // update has restarted goes on where it was.
                    if !matches!(op, Op::Assign(_)) {
                        touched.tasks.insert(instance.task());
                        touched.left.insert((instance.task(), None));
                    }
                }
                Subject::Task(instance) => {
                    touched.tasks.insert(instance.task());
                    let to = event.kind.transition().and_then(|step| Stage::Running.after(step));
                    let incarnation =
                        cell.task(instance.task()).and_then(|task| task.last_incarnation.as_ref());
                    let on = incarnation
                        .filter(|incarnation| incarnation.generation == instance.generation);
                    if let Some(incarnation) = on.filter(|_| to == Some(Stage::Dead)) {
                        touched.left.insert((instance.task(), Some(incarnation.machine)));
                    }
                }
                Subject::Cell | Subject::Job(_) => {}
            }
        }
        touched
    }
}
