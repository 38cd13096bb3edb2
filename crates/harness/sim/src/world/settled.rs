//! Whether a world has settled after its last fault.

use batch::QueueAdmission;
use cell::feasibility::{Offer, Request, fits};
use cell::{Cell, Job, MachineState, Phase, Placement, Rescheduling, Task, TaskState};
use model::{InstanceId, Span, TaskIndex, Time, VolumeMount};
use placement::Kept;
use replica::Codec;

use crate::machine;
use crate::world::{World, number_of};

/// How much longer than its maximum and its notice a task may run while all is well.
const OVER_RUNTIME_SLACK: Span = Span::from_secs(20);

impl<C: Codec> World<C> {
    /// The first reason why the cell has not settled, or `None`: there is a leader, every task that
    /// fits somewhere is placed, exactly what is placed runs, every end is explained,
    /// reservations follow the usage, and all copies of the cell are identical.
    pub fn unsettled(&mut self) -> Option<String> {
        let Some(cell) = self.cell().cloned() else {
            return Some("there is no master".to_owned());
        };
        if self.leading().is_none() {
            return Some("nobody leads".to_owned());
        }
        if !self.clients.are_done() {
            return Some("a client waits for an answer".to_owned());
        }
        self.invariants.check_agreement_with(&cell);
        if *cell.rescheduling() != Rescheduling::Allowed {
            return Some(format!("rescheduling is {:?}", cell.rescheduling()));
        }
        self.unsettled_machine(&cell)
            .or_else(|| unsettled_update(&cell))
            .or_else(|| unsettled_drain(&cell))
            .or_else(|| self.unsettled_task(&cell))
            .or_else(|| self.unsettled_reservation(&cell))
            .or_else(|| self.unsettled_data())
            .or_else(|| self.unsettled_inputs(&cell))
            .or_else(|| self.unsettled_copy(&cell))
            .or_else(|| self.unsettled_replicas(&cell))
    }

    fn unsettled_machine(&self, cell: &Cell) -> Option<String> {
        for machine in cell.machines() {
            if machine.state != MachineState::Up {
                return Some(format!("machine {} is {:?}", machine.name, machine.state));
            }
        }
        for (number, machine) in self.machines.iter().enumerate() {
            for instance in machine.running().chain(machine.allocs.keys().copied()) {
                let there =
                    cell.placement(instance).and_then(|placed| cell.machine(placed.machine));
                if there.is_none_or(|there| number_of(&there.address) != Some(number)) {
                    return Some(format!("{instance} runs on m{number}, where it should not run"));
                }
            }
        }
        None
    }

    fn unsettled_task(&self, cell: &Cell) -> Option<String> {
        for job in cell.jobs() {
            for (index, task) in job.tasks() {
                let found = match &task.state {
                    TaskState::Running(placed) => {
                        self.unsettled_placement(cell, job, index, task, placed)
                    }
                    TaskState::Pending { not_before, .. } if *not_before <= self.now => {
                        unplaced(cell, job, index, self.now)
                    }
                    TaskState::Queued { .. } if job.is_behind_others() => {
                        waits_in_vain(cell, job, index)
                    }
                    TaskState::Queued { .. } => None,
                    TaskState::Pending { .. } | TaskState::Dead { .. } => None,
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        unserved(cell, self.now)
    }

    fn unsettled_placement(
        &self,
        cell: &Cell,
        job: &Job,
        index: TaskIndex,
        task: &Task,
        placement: &Placement,
    ) -> Option<String> {
        let id = InstanceId { collection: job.id, index, generation: task.generation };
        let machine = cell.machine(placement.machine)?;
        if let Some(stop) = &placement.stop {
            return Some(format!("{id} is still being stopped: {stop:?}"));
        }
        let there = number_of(&machine.address).and_then(|number| self.machines.get(number));
        let mut limit = job.limit(index);
        limit.cpu = machine.gcu().physical(limit.cpu);
        if job.spec.kind.is_alloc_set() {
            let is = there.and_then(|there| there.allocs.get(&id));
            let right = is.is_some_and(|is| is.limit == limit && is.made);
            let started = matches!(placement.phase, Phase::Started { .. });
            return (!right || !started)
                .then(|| format!("{id} is an alloc on {}, where it is {is:?}", machine.name));
        }
        let process = there.and_then(|there| there.processes.get(&id));
        let runs =
            process.is_some_and(|there| matches!(there.phase, machine::ProcessPhase::Running(_)));
        let started = matches!(placement.phase, Phase::Started { .. });
        if !started && self.waits_for_name(cell, job, index) {
            return None;
        }
        if !runs || !started {
            let (name, phase) = (&machine.name, placement.phase);
            return Some(format!("{id} is placed on {name} ({phase:?}) but does not run there"));
        }
        if let Some(found) = process.and_then(|process| over_runtime(id, process, self.now)) {
            return Some(found);
        }
        let desired = &process?.launch.desired;
        let claims = |mount: &&VolumeMount| {
            let claims = machine.volumes.get(&mount.name).map(|volume| &volume.claims);
            claims.is_some_and(|claims| {
                let own = (&job.owner, &job.spec.name, index);
                claims.iter().any(|claim| (&claim.user, &claim.job, claim.index) == own)
            })
        };
        if let Some(mount) = desired.volumes.iter().find(|mount| !claims(mount)) {
            let (volume, name) = (&mount.name, &machine.name);
            return Some(format!(
                "{id} runs with volume {volume} of {name}, which it does not claim"
            ));
        }
        let ports = desired.ports.iter().map(|(_, port)| port);
        let spec = job.described(index).task(index);
        let same = desired.spec.limit == limit
            && desired.alloc == placement.alloc()
            && desired.spec.cmd == spec.cmd
            && ports.eq(placement.ports.iter())
            && desired.user == job.owner;
        (!same).then(|| format!("{id} runs with other parameters than the cell has: {desired:?}"))
    }

    /// Data of an ended instance that is neither saved nor given up, although its time is over, or
    /// that its machine does not keep any more.
    fn unsettled_data(&self) -> Option<String> {
        if let Some((id, left)) = self.invariants.savers.due() {
            return Some(format!("the data of {id} is neither saved nor given up: {left:?}"));
        }
        let keeps = |id: InstanceId, number: usize| {
            let saving = self.machines.get(number).map(|machine| &machine.said.machine.saving);
            saving.is_some_and(|saving| saving.iter().any(|saving| saving.instance == id))
        };
        let mut left = self.invariants.savers.left();
        let (id, left) = left.find(|(id, left)| !keeps(*id, left.machine))?;
        Some(format!("m{} does not keep the data of {id}: {left:?}", left.machine))
    }

    fn unsettled_copy(&mut self, cell: &Cell) -> Option<String> {
        let Some(copy) = self.scheduler.copy() else {
            return Some("the scheduler has no copy of the cell".to_owned());
        };
        if copy.index() != cell.index() {
            return Some(format!(
                "the scheduler is at {}, the cell at {}",
                copy.index(),
                cell.index()
            ));
        }
        if copy.image() != cell.image() {
            let index = cell.index();
            self.invariants
                .violated(format!("at {index} the scheduler's copy differs from the cell"));
        }
        None
    }
}

/// An update that could go on: it has nothing left to do, or a task that it may change.
fn unsettled_update(cell: &Cell) -> Option<String> {
    for job in cell.jobs_with_open_updates() {
        let Some(update) = job.open_update().filter(|update| update.is_moving()) else {
            continue;
        };
        let mut left = (0..job.spec.tasks).map(TaskIndex).filter(|index| job.is_to_change(*index));
        let Some(first) = left.next() else {
            if !update.changing.is_empty() {
                continue;
            }
            let (id, to, state) = (job.id, update.to, &update.state);
            return Some(format!(
                "the update of job {id} to version {to} has nothing left to do, and is {state:?}"
            ));
        };
        let allowed = |index: &TaskIndex| {
            job.instance(*index).is_some_and(|instance| cell.may_update(instance).is_ok())
        };
        if update.changing.is_empty()
            && let Some(index) = [first].into_iter().chain(left).find(allowed)
        {
            let (id, to) = (job.id, update.to);
            return Some(format!("task {index} of job {id} may change to version {to}"));
        }
    }
    None
}

/// A task that may leave a machine that is being drained.
fn unsettled_drain(cell: &Cell) -> Option<String> {
    for machine in cell.drained_machines() {
        let expired = machine.drain.as_ref().is_some_and(|drain| drain.expired.is_some());
        let leaving = if expired { Vec::new() } else { cell.to_leave(machine.id) };
        let may = |id: &&InstanceId| cell.may_leave_now(**id) && cell.may_disrupt(**id).is_ok();
        if let Some(instance) = leaving.iter().find(may) {
            return Some(format!("{instance} may leave {}, which is drained", machine.name));
        }
    }
    None
}

/// A task that is pending although it fits somewhere, beside what is kept for tasks that wait for
/// their retry.
fn unplaced(cell: &Cell, job: &Job, index: TaskIndex, now: Time) -> Option<String> {
    if job.is_gang() {
        return unplaced_gang(cell, job, now);
    }
    let ask = Request::of(cell, job, index);
    if let Some(set) = job.alloc_set.and_then(|set| cell.job(set)) {
        return unplaced_in(cell, job, index, set);
    }
    let (kept, priority) = (Kept::in_cell(cell, now), job.described(index).priority);
    let machine = cell.machines().find(|machine| {
        let kept = kept.get(&machine.id).into_iter().flatten();
        let kept = kept.filter(|kept| kept.is_from(priority));
        let offer = kept.fold(Offer::of(machine), |offer, kept| kept.taken_from(offer));
        fits(&ask, &offer).is_ok()
    })?;
    let (id, name) = (job.id, &machine.name);
    Some(format!("task {index} of job {id} is pending but fits on {name}"))
}

/// A gang that is pending although all of its tasks fit. They are alike, so the order in which they are placed does not
/// matter.
fn unplaced_gang(cell: &Cell, job: &Job, now: Time) -> Option<String> {
    let waits = |task: &Task| matches!(&task.state, TaskState::Pending { not_before, .. } if *not_before > now);
    if !job.is_whole_gang_pending() || job.tasks().any(|(_, task)| waits(task)) {
        return None;
    }
    let found = placement::why::gang(cell, job, now)?;
    let id = job.id;
    (found.fit == found.tasks).then(|| format!("the gang of job {id} is pending but fits"))
}

/// A task that is pending although it fits in an alloc. It may wait for its own alloc, if that was
/// evicted and has no machine yet.
fn unplaced_in(cell: &Cell, job: &Job, index: TaskIndex, set: &Job) -> Option<String> {
    let home = job
        .task(index)?
        .last_incarnation
        .as_ref()
        .and_then(|incarnation| set.task(incarnation.alloc?));
    if home.is_some_and(|alloc| matches!(alloc.state, TaskState::Pending { .. })) {
        return None;
    }
    let ask = Request::of(cell, job, index);
    let fitting = set.tasks().find_map(|(at, alloc)| {
        let TaskState::Running(placed) = &alloc.state else { return None };
        let (machine, alloc) = (cell.machine(placed.machine)?, set.instance(at)?);
        fits(&ask, &Offer::within(cell, machine, alloc)).is_ok().then_some(alloc)
    })?;
    Some(format!("task {index} of job {} is pending but fits in alloc {fitting}", job.id))
}

/// A task that still runs although it was to be killed long ago, for it has run longer than its job allows.
fn over_runtime(id: InstanceId, process: &machine::InstanceProcess, now: Time) -> Option<String> {
    let machine::ProcessPhase::Running(since) = process.phase else { return None };
    let desired = &process.launch.desired;
    let most = desired.max_runtime?;
    let ran = now.since(since);
    let late = since + most + desired.spec.notice + OVER_RUNTIME_SLACK;
    (late < now).then(|| format!("{id} has run for {ran}, and maxRuntime is {most}"))
}

/// A task that is queued although no job that its job waits for is alive, and nothing holds it back.
/// A job of the batch queue that has its turn and fits is enabled.
fn unserved(cell: &Cell, now: Time) -> Option<String> {
    let pass = QueueAdmission::of(cell).pass(cell, now);
    let first = pass.enabled.first()?;
    Some(format!("{} tasks of job {} wait in the queue, and there is room", first.tasks, first.job))
}

fn waits_in_vain(cell: &Cell, job: &Job, index: TaskIndex) -> Option<String> {
    let alive =
        |other: &model::CollectionId| cell.job(*other).is_some_and(|other| other.is_alive());
    let vain = !job.waits_for.iter().any(alive) && !cell.is_held_back(job, index);
    let id = job.id;
    vain.then(|| {
        format!("task {index} of job {id} is queued, but nothing that it waits for is alive")
    })
}
