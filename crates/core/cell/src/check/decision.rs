//! The check after one operation: it verifies what the operation touched, and the decisions in it,
//! each against the state in which it was made.
//!
//! It costs as much as the touched tasks and the tasks on the touched machines, and so can follow
//! every operation of a large cell; [`Cell::check`] finds damage elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Event, EventKind, EvictionCause, StopReason, Subject};
use model::{Band, Dimension, Generation, InstanceId, MachineId};
use spec::Network;

use super::{Load, Violation, Violations};
use crate::feasibility::{Colocated, NO_STATIC_PORTS, Offer, OfferedAlloc, Request, Sums, fits};
use crate::lifecycle::{Stage, Transition};
use crate::{Applied, Cell, Job, TaskState};

/// Checks a cell after each operation.
#[derive(Clone, Debug)]
pub struct DecisionChecker {
    before: Cell,
}

impl DecisionChecker {
    /// Starts at this state of the cell.
    #[must_use]
    pub fn from(cell: &Cell) -> Self {
        Self { before: cell.clone() }
    }

    /// Checks the cell after its next operation, which returned `applied`. Returns the violations;
    /// none for anything that [`Cell::apply`] did.
    pub fn after(&mut self, cell: &Cell, applied: &Applied) -> Vec<Violation> {
        let before = std::mem::replace(&mut self.before, cell.clone());
        let mut step = Step { before: &before, cell, found: Violations { violations: Vec::new() } };
        step.life_cycles(&applied.events);
        step.decisions(&applied.events);
        step.admissions(&applied.events);
        step.budgets(&applied.events);
        step.moves(&applied.events);
        step.gangs(&applied.events);
        step.grants(&applied.events);
        step.members();
        step.replicas_join();
        step.enrolments(&applied.events);
        step.locks(&applied.events);
        let touched: BTreeSet<_> = applied.reordered.iter().copied().collect();
        touched.into_iter().for_each(|machine| step.machine(machine));
        step.found.violations
    }
}

pub(super) struct Step<'a> {
    pub(super) before: &'a Cell,
    pub(super) cell: &'a Cell,
    pub(super) found: Violations,
}

/// The tasks that stay on a machine: those being evicted for others or killed do not count.
fn staying(cell: &Cell, machine: MachineId) -> impl Iterator<Item = (InstanceId, &Arc<Job>)> {
    let instances = cell.machine(machine).map(|machine| machine.instances()).unwrap_or_default();
    instances.iter().filter_map(move |instance| {
        let placement = cell.placement(*instance)?;
        placement.stop.is_none().then_some((*instance, cell.job(instance.collection)?))
    })
}

/// The stage of a job or task.
fn stage(cell: &Cell, subject: Subject) -> Stage {
    match subject {
        Subject::Job(id) => cell.job(id).map_or(Stage::New, |job| job.state.stage()),
        Subject::Task(id) => cell.task(id.task()).map_or(Stage::New, |task| task.state.stage()),
        Subject::Cell | Subject::Machine(_) => Stage::New,
    }
}

/// The number of incarnations that a task has begun.
fn generation(cell: &Cell, subject: Subject) -> Generation {
    match subject {
        Subject::Task(id) => cell.task(id.task()).map_or(Generation(0), |task| task.generation),
        _ => Generation(0),
    }
}

impl Step<'_> {
    /// Every life cycle follows the diagram, and its events lead to the stored stage.
    fn life_cycles(&mut self, events: &[Event]) {
        // All incarnations of a task together: the end of one is where the next is submitted.
        let mut stages: BTreeMap<Subject, (Stage, Generation)> = BTreeMap::new();
        let whole = |subject| match subject {
            Subject::Task(id) => Subject::Task(id.task().generation(Generation(0))),
            other => other,
        };
        for event in events {
            let Some(transition) = event.kind.transition() else { continue };
            let subject = whole(event.subject);
            let began = || (stage(self.before, subject), generation(self.before, subject));
            let (stage, generation) = stages.entry(subject).or_insert_with(began);
            match stage.step(transition) {
                Ok(next) => *stage = next,
                Err(refused) => {
                    let subject = event.subject;
                    self.found.violations.push(Violation::NotAStep { subject, refused });
                }
            }
            if transition == Transition::Submit {
                generation.0 = generation.0.saturating_add(1);
            }
        }
        for (subject, (is, counted)) in stages {
            let kept = stage(self.cell, subject);
            if kept != is {
                self.found.add(Violation::EventsDisagree { subject, is, kept });
            }
            let after = generation(self.cell, subject);
            if let Subject::Task(id) = subject
                && after != counted
            {
                let task = id.task();
                self.found.add(Violation::Generation { task, before: counted, after });
            }
        }
    }

    /// Whatever was placed fits there, given the state before and everything placed and evicted in
    /// the same operation; every victim may be evicted.
    fn decisions(&mut self, events: &[Event]) {
        let mut placed: BTreeMap<MachineId, (InstanceId, Sums)> = BTreeMap::new();
        for event in events {
            let Subject::Task(instance) = event.subject else { continue };
            match &event.kind {
                EventKind::Schedule { machine, alloc } => {
                    self.well_placed(instance, *machine, *alloc);
                    // A task in an alloc takes nothing from the machine.
                    if let Some(alloc) = *alloc {
                        self.within_alloc(*machine, alloc);
                    } else if let Some(job) = self.cell.job(instance.collection) {
                        let (_, asked) =
                            placed.entry(*machine).or_insert((instance, Sums::default()));
                        asked.add(&job.demand(instance.index));
                    }
                }
                EventKind::Stop { why: StopReason::Evict(EvictionCause::Preempted { by }) } => {
                    self.rightly_evicted(instance, *by);
                }
                EventKind::Evict { .. } | EventKind::Lost { .. } => {
                    let task = self.cell.task(instance.task());
                    let again = task.is_some_and(|task| match task.state {
                        TaskState::Pending { .. } | TaskState::Dead { .. } => true,
                        // It goes on where it was, in its next incarnation.
                        TaskState::Running(_) => task.generation > instance.generation,
                        // It waits for its turn again.
                        TaskState::Queued { .. } => task.generation > instance.generation,
                    });
                    if !again {
                        self.found.add(Violation::NoReason(instance));
                    }
                }
                _ => {}
            }
        }
        for (machine, (instance, asked)) in placed {
            self.within_capacity(instance, machine, &asked);
        }
    }

    fn well_placed(&mut self, instance: InstanceId, id: MachineId, alloc: Option<InstanceId>) {
        let (Some(job), Some(machine)) =
            (self.cell.job(instance.collection), self.cell.machine(id))
        else {
            self.found.add(Violation::NoSuchMachine { instance, machine: id });
            return;
        };
        let given = self.cell.placement(instance).and_then(|placed| placed.address);
        if let Some(address) = given {
            let offered = match alloc {
                Some(alloc) => self.cell.placement(alloc).and_then(|alloc| alloc.address) == given,
                None => machine.report.task_network.is_some_and(|it| it.is_of_task(address)),
            };
            if !offered {
                self.found.add(Violation::AddressOutside { instance, machine: id, address });
            }
        }
        // Resources, ports and addresses are checked for the machine as a whole.
        let network = &Network::Host;
        let ask = Request::of(self.cell, job, instance.index);
        let static_ports = &NO_STATIC_PORTS;
        let ask = Request { ports: 0, static_ports, network, ..ask };
        let empty = Sums::default().offered_by(machine);
        let free_cores = machine.whole_core_count();
        let mut offer = Offer { colocated: Colocated::default(), free_cores, ..empty };
        if let Some(alloc) = alloc {
            let capacity = Offer::within(self.cell, machine, alloc).capacity;
            let alloc = Some(OfferedAlloc { own_network: false, ports_taken: &[] });
            offer = Offer { capacity, free: capacity, free_for_prod: capacity, alloc, ..offer };
        }
        if let Err(unschedulable_reason) = fits(&ask, &offer) {
            let why = unschedulable_reason.to_string();
            self.found.add(Violation::Misplaced { instance, machine: id, why });
        }
    }

    /// A machine on which something was placed has capacity for what stays on it by its
    /// reservations, and for production and monitoring by their limits (paper, section 5.5), in what
    /// was `asked`. In anything else a machine that shrank may have less than it holds.
    fn within_capacity(&mut self, instance: InstanceId, id: MachineId, asked: &Sums) {
        let Some(machine) = self.cell.machine(id) else { return };
        let capacity = machine.capacity();
        let mut sums = Sums::default();
        for (other, job) in staying(self.cell, id) {
            sums.add(&job.demand(other.index));
        }
        let sums = [
            ("production", sums.limits_of_prod, asked.limits_of_prod),
            ("", sums.reservations, asked.reservations),
        ];
        for (whose, taken, asked) in sums {
            let over = |of| asked.get(of) > 0 && taken.get(of) > capacity.get(of);
            if Dimension::ALL.into_iter().any(over) {
                let machine = id;
                let over = Violation::Overcommitted { instance, machine, whose, taken, capacity };
                self.found.add(over);
                return;
            }
        }
    }

    fn within_alloc(&mut self, machine: MachineId, alloc: InstanceId) {
        let Some(machine) = self.cell.machine(machine) else { return };
        let limit = Offer::within(self.cell, machine, alloc).capacity;
        let taken = machine.used(alloc).unwrap_or_default();
        if taken.first_above(&limit).is_some() {
            self.found.add(Violation::AllocOverfull { alloc, taken, limit });
        }
    }

    fn rightly_evicted(&mut self, victim: InstanceId, by: InstanceId) {
        // A task that leaves with its alloc leaves by the alloc's priority.
        let alloc = self.cell.placement(victim).and_then(crate::Placement::alloc);
        let evicted = alloc.unwrap_or(victim);
        let priority = |id: InstanceId| {
            self.cell.job(id.collection).map(|job| job.described(id.index).priority)
        };
        let may = match (priority(evicted), priority(by)) {
            (Some(theirs), Some(ours)) => {
                let apart = theirs.band() != ours.band() || theirs.band() < Band::Production;
                theirs < ours && apart
            }
            _ => false,
        };
        if !may {
            self.found.add(Violation::Victim { victim, by });
        }
    }

    /// The tallies of a touched machine match what is placed on it.
    fn machine(&mut self, id: MachineId) {
        let Some(machine) = self.cell.machine(id) else { return };
        let mut load = Load::default();
        for instance in machine.instances() {
            let Some(placement) = self.cell.placement(*instance) else { continue };
            let Some(job) = self.cell.job(instance.collection) else { continue };
            if placement.machine == id {
                load.add(job, *instance, placement);
            }
        }
        self.found.machine(machine, &load);
    }
}
