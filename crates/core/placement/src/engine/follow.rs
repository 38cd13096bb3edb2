//! Following the cell: what an operation changes for placement, and what becomes of the plan.

use std::collections::{BTreeMap, BTreeSet};

use cell::lifecycle::Stage;
use cell::{Applied, Assignment, Cell, EventKind, Op, Outcome, Subject};
use model::{CollectionId, Generation, InstanceId, MachineId, TaskId};

use super::{Engine, is_pending};
use crate::class::Where;
use crate::planned::Planned;

/// What a queue of pending tasks has to take in after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The view was built anew, and all classes are gone: the queue has to enter every pending task
    /// that is not planned ([`Engine::unplanned`]) anew. The other fields say nothing then.
    pub rebuilt: bool,
    /// The tasks that may be pending now and were not, or the other way round, or may ask for
    /// something else.
    pub tasks: BTreeSet<TaskId>,
    /// The jobs and alloc sets of tasks to which something happened, or of which the plan takes less
    /// than before: a task that fitted in none of those allocs may fit. With repetitions.
    pub collections: Vec<CollectionId>,
    /// Whether something happened to a machine, so that a task may fit in any alloc.
    pub machines: bool,
    /// Whether a machine may have free ports that it had not.
    pub ports: bool,
}

impl Engine {
    /// Takes in an operation: the cell is as it is after `op` was applied to it with this result. What
    /// was planned is known from the operation that decides it: from there on the cell's own record
    /// counts.
    pub fn follow(&mut self, cell: &Cell, op: &Op, applied: &Applied) -> Changed {
        let mut touched = Touched::by(cell, op, applied);
        if let Op::Assign { assignments, .. } = op {
            self.judged(assignments, &applied.outcome, &mut touched);
        }
        self.take_in(cell, touched)
    }

    /// A proposal was not decided, or its outcome is unknown: its tasks are no longer planned. For a
    /// decided one the operation itself brings the outcome ([`Engine::follow`]): an assignment
    /// was rejected by a cell newer than the copy, and the same plan made from the same copy would
    /// be rejected again.
    pub fn not_judged(
        &mut self,
        cell: &Cell,
        instances: impl IntoIterator<Item = InstanceId>,
    ) -> Changed {
        let mut touched = Touched::default();
        for instance in instances {
            if let Some(planned) = self.forget(instance, &mut touched) {
                touched.machines.insert(planned.machine, false);
                touched.left.insert((instance.task(), Some(planned.machine)));
                touched.tasks.insert(instance.task());
            }
        }
        self.take_in(cell, touched)
    }

    /// Takes back what was planned since nothing else happened: all is as before these tasks were placed. Nothing
    /// gains room by it.
    pub fn undo(&mut self, cell: &Cell, instances: impl IntoIterator<Item = InstanceId>) {
        let (improved, freed) = (self.improved.clone(), self.freed.clone());
        let instances: Vec<InstanceId> = instances.into_iter().collect();
        let jobs: BTreeSet<CollectionId> = instances.iter().map(|one| one.collection).collect();
        let mut touched = Touched::default();
        for instance in instances {
            if let Some(planned) = self.forget(instance, &mut touched) {
                touched.machines.insert(planned.machine, false);
                touched.left.insert((instance.task(), Some(planned.machine)));
            }
        }
        self.take_in(cell, touched);
        (self.improved, self.freed) = (improved, freed);
        // What was found with them on the machines is not so without them.
        for job in jobs {
            for class in self.classes.of_job(job) {
                self.classes.set_places(class, Where::Unknown);
            }
        }
    }

    /// Whether anything gained room since the last pass began.
    #[must_use]
    pub fn has_gained(&self) -> bool {
        !self.improved.is_empty() || !self.freed.is_empty()
    }

    /// Assignments were accepted or rejected.
    fn judged(&mut self, assignments: &[Assignment], outcome: &Outcome, touched: &mut Touched) {
        let refused = |position: usize| match outcome {
            Outcome::Assigned(judged) => judged.get(position).is_none_or(Result::is_err),
            _ => true,
        };
        for (position, assignment) in assignments.iter().enumerate() {
            let planned = self.forget(assignment.instance, touched);
            // If it was placed as planned, the machine's state is already known.
            let as_planned = planned.as_ref().is_some_and(|planned| {
                planned.machine == assignment.machine && planned.victims.is_empty()
            });
            if !as_planned || refused(position) {
                touched.machines.insert(assignment.machine, false);
                let of_plan = planned.as_ref().map(|planned| (planned.machine, false));
                touched.machines.extend(of_plan);
            } else if let Some(planned) = &planned {
                self.evictable.mark_stale(planned.slot);
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

    /// Removes an instance from the plan; its machine has to be recounted.
    fn forget(&mut self, instance: InstanceId, touched: &mut Touched) -> Option<Planned> {
        let planned = self.planned.remove(&instance)?;
        for victim in &planned.victims {
            self.evictable.planned.remove(victim);
            touched.collection(victim.collection);
        }
        let Planned { slot, demand, ports, address, .. } = &planned;
        self.machines.unplan(*slot, demand, ports, *address);
        self.machines.unplan_static_ports(*slot, &planned.static_ports);
        if let Some((alloc, limit)) = planned.alloc {
            self.in_allocs.unplan(alloc, limit, &planned.alloc_ports);
            touched.collection(alloc.collection);
        }
        Some(planned)
    }

    /// Applies what changed.
    fn take_in(&mut self, cell: &Cell, mut touched: Touched) -> Changed {
        let described = touched.machines.iter().filter(|(_, described)| **described);
        let described: Vec<MachineId> = described.map(|(id, _)| *id).collect();
        let repacked = self.packing != self.settings.policy_for(cell);
        if repacked || !described.is_empty() && self.is_outgrown(cell, &described) {
            self.rebuild(cell);
            return Changed { rebuilt: true, ..Changed::default() };
        }
        let mut ended: Vec<InstanceId> = Vec::new();
        for task in &touched.tasks {
            let of = task.generation(Generation(0))..=task.generation(Generation(u32::MAX));
            let stale = |(instance, _): (&InstanceId, &Planned)| {
                (!is_pending(cell, *instance)).then_some(*instance)
            };
            ended.extend(self.planned.range(of).filter_map(stale));
        }
        for instance in ended {
            if let Some(planned) = self.forget(instance, &mut touched) {
                touched.machines.entry(planned.machine).or_insert(false);
                touched.left.insert((instance.task(), Some(planned.machine)));
            }
        }
        for (id, described) in &touched.machines {
            self.machine_changed(cell, *id, *described);
        }
        for task in &touched.tasks {
            self.release_room(*task);
            if self.unplanned(cell, *task).is_some()
                && let Some(job) = cell.job(task.collection)
            {
                self.keep_room(job, task.index, cell.time());
            }
        }
        for (task, machine) in &touched.left {
            self.job_left(task.collection, *machine);
        }
        let Touched { tasks, left, collections, any_machine, .. } = touched;
        let (rebuilt, machines, ports) = (false, any_machine, !left.is_empty());
        Changed { rebuilt, tasks, collections, machines, ports }
    }

    /// Builds everything anew but the plan.
    fn rebuild(&mut self, cell: &Cell) {
        let (planned, held) = (std::mem::take(&mut self.planned), std::mem::take(&mut self.held));
        *self = Self { held, ..Self::new(cell, self.settings.clone()) };
        for (instance, planned) in planned {
            if is_pending(cell, instance)
                && let Some(slot) = self.machines.slot(planned.machine)
            {
                self.evictable.planned.extend(planned.victims.iter().copied());
                self.hold(slot, &planned.demand, &planned.ports, planned.address);
                self.machines.plan_static_ports(slot, &planned.static_ports);
                if let Some((alloc, limit)) = planned.alloc {
                    self.in_allocs.plan(alloc, limit, &planned.alloc_ports);
                }
                self.planned.insert(instance, Planned { slot, ..planned });
            }
        }
    }
}

/// The objects that an operation touched.
#[derive(Debug, Default)]
struct Touched {
    /// Machines, and whether their descriptions changed.
    machines: BTreeMap<MachineId, bool>,
    /// Whether there is an event of any machine.
    any_machine: bool,
    tasks: BTreeSet<TaskId>,
    /// Tasks that changed their place, with the machine they left; `None` if they left none.
    left: BTreeSet<(TaskId, Option<MachineId>)>,
    /// See [`Changed::collections`].
    collections: Vec<CollectionId>,
}

impl Touched {
    fn by(cell: &Cell, op: &Op, applied: &Applied) -> Self {
        let mut touched = Self::default();
        // The effects of an assignment are known from the assignment, and mostly from the plan.
        if !matches!(op, Op::Assign { .. }) {
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
                Subject::Machine(id) => {
                    touched.any_machine = true;
                    touched.machines.insert(id, true);
                }
                Subject::Task(instance) if matches!(event.kind, EventKind::Schedule { .. }) => {
                    touched.collection(instance.collection);
                    // The effects of an assignment are known from the assignment. A task that an
                    // update has restarted goes on where it was.
                    if !matches!(op, Op::Assign { .. }) {
                        touched.tasks.insert(instance.task());
                        touched.left.insert((instance.task(), None));
                    }
                }
                Subject::Task(instance) => {
                    touched.collection(instance.collection);
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

    /// Something happened to a task of a job or an alloc set. Neighbours are mostly of the same.
    fn collection(&mut self, id: CollectionId) {
        if self.collections.last() != Some(&id) {
            self.collections.push(id);
        }
    }
}
