//! Orders: which instances a machine should run, from the cell's state.

use std::sync::Arc;

use borglet::{Desired, DesiredAlloc, Order, Stop, VolumeDirectory};
use cell::{
    Cell, EvictionCause, Job, KillReason, Machine, MoveReason, Placement, StopReason, VolumeAsk,
};
use model::{
    Bytes, CollectionId, InstanceId, MachineId, Span, Stamp, VolumeMount, VolumeSharing, attribute,
};
use spec::TaskSpec;

/// The order for a machine: every instance placed on it that is not to be stopped, allocs and tasks
/// separately; and why the others are.
pub(crate) fn for_machine(cell: &Cell, machine: MachineId, stamp: Stamp) -> Order {
    let logs = Some(*cell.log_settings());
    let mut order = Order { stamp, logs, ..Order::default() };
    let Some(machine) = cell.machine(machine) else { return order };
    let said = machine.operator_attributes.get(attribute::OBEY);
    order.overrules = said.and_then(|stamp| stamp.parse().ok());
    let settled = machine.report.saving.iter().filter(|saving| saving.outcome.is_some());
    order.settled = settled.map(|saving| saving.instance).collect();
    order.saver_ends = Arc::clone(&machine.saver_ends);
    let volumes = machine.volumes.values().map(|volume| VolumeDirectory {
        volume: volume.described.name.clone(),
        path: volume.described.path.clone(),
    });
    order.volumes = volumes.collect();
    let instances = machine.instances();
    for instance in instances {
        let Some((job, placement)) = placed(cell, *instance) else { continue };
        if let Some(why) = placement.stop.as_deref() {
            order.stops.extend(stop(cell, *instance, job, why));
            continue;
        }
        if job.spec.kind.is_alloc_set() {
            order.allocs.extend(alloc(cell, *instance, job, placement));
        } else {
            order.tasks.extend(task(cell, *instance, job, placement));
        }
    }
    order
}

/// The memory reserved for each task of a machine that has less than its limit (paper, section 5.5).
pub(crate) fn reservations(cell: &Cell, machine: &Machine) -> Vec<(InstanceId, Bytes)> {
    let reserved = |instance: &InstanceId| {
        let job = cell.job(instance.collection)?;
        let reserved = job.reservation(instance.index).ram;
        (reserved < job.limit(instance.index).ram).then_some((*instance, reserved))
    };
    machine.instances().iter().filter_map(reserved).collect()
}

/// An instance that is on its machine.
fn placed(cell: &Cell, instance: InstanceId) -> Option<(&Job, &Placement)> {
    let placement = cell.placement(instance)?;
    Some((cell.job(instance.collection)?, placement))
}

/// Why a task is to be stopped; an alloc runs no program that could be told.
fn stop(cell: &Cell, instance: InstanceId, job: &Job, why: &StopReason) -> Option<Stop> {
    let reason = why.notice_reason();
    let (cause, notice_max) = match why {
        StopReason::Kill(KillReason::User(user) | KillReason::Now(user)) => {
            (format!("killed by {user}"), None)
        }
        StopReason::Kill(KillReason::ParentEnded(parent)) => {
            (format!("its parent {} ended", job_name(cell, *parent)), None)
        }
        StopReason::Kill(KillReason::AllocSetEnded(set)) => {
            (format!("the alloc set {} in which it runs ended", job_name(cell, *set)), None)
        }
        StopReason::Kill(KillReason::PredecessorEnded(other)) => {
            let other = job_name(cell, *other);
            (format!("{other}, which it runs after, did not finish"), None)
        }
        StopReason::Kill(
            why @ (KillReason::PredecessorFinished(_)
            | KillReason::CounterpartEnded(_)
            | KillReason::CounterpartFinished(_)),
        ) => (why.to_string(), None),
        StopReason::Evict(EvictionCause::Preempted { by }) => {
            let name = job_name(cell, by.collection);
            (format!("preempted by {name}/{}", by.index), preemption_notice(cell, *by))
        }
        StopReason::Evict(EvictionCause::MachineShutdown) => (drained(cell, instance), None),
        StopReason::Kill(KillReason::Removed) => ("its job needs it no more".to_owned(), None),
        StopReason::Kill(why @ (KillReason::MachineLeft(_) | KillReason::GangFailed { .. })) => {
            (why.to_string(), None)
        }
        StopReason::Evict(EvictionCause::Updated) => (updated(job), None),
        StopReason::Evict(EvictionCause::Moved { why: MoveReason::Fits { task }, .. }) => {
            let name = job_name(cell, task.collection);
            (format!("moved so that {name}/{} fits", task.index), None)
        }
        StopReason::Evict(other) => (format!("evicted: {other}"), None),
    };
    let is_task = !job.spec.kind.is_alloc_set();
    let notice_max = bounded(cell, instance, job, notice_max);
    is_task.then_some(Stop { instance, reason, cause, notice_max })
}

/// The longest notice of a task: as whoever preempts it said, within the maximum of the cell. A task whose
/// own notice is shorter needs no bound.
fn bounded(cell: &Cell, instance: InstanceId, job: &Job, said: Option<Span>) -> Option<Span> {
    if cell.stops_at_once(instance) {
        return Some(Span::ZERO);
    }
    let (own, most) =
        (job.described(instance.index).task(instance.index).notice, cell.notice_max());
    match said {
        Some(said) => Some(said.min(most)),
        None => (own > most).then_some(most),
    }
}

/// What the job of the preempting task allows its victims.
fn preemption_notice(cell: &Cell, by: InstanceId) -> Option<Span> {
    cell.job(by.collection)?.spec.preemption_notice_max
}

/// `user/name`, or the job's id if it is forgotten.
fn job_name(cell: &Cell, id: CollectionId) -> String {
    match cell.job(id) {
        Some(job) => format!("{}/{}", job.owner, job.spec.name),
        None => format!("job {id}"),
    }
}

/// `ana/web is updated to version 3`.
fn updated(job: &Job) -> String {
    let name = format!("{}/{}", job.owner, job.spec.name);
    match &job.update {
        Some(update) => format!("{name} is updated to version {}", update.target()),
        None => format!("{name} is updated"),
    }
}

/// `machine m1 is being drained: new kernel`.
fn drained(cell: &Cell, instance: InstanceId) -> String {
    let machine = cell.placement(instance).and_then(|at| cell.machine(at.machine));
    let Some(machine) = machine else { return "its machine is being drained".to_owned() };
    let reason = machine.drain.as_deref().map(|drain| drain.reason.as_str()).unwrap_or_default();
    match reason {
        "" => format!("machine {} is being drained", machine.name),
        reason => format!("machine {} is being drained: {reason}", machine.name),
    }
}

fn alloc(
    cell: &Cell,
    instance: InstanceId,
    job: &Job,
    placement: &Placement,
) -> Option<DesiredAlloc> {
    Some(DesiredAlloc {
        instance,
        cell: cell.name()?.clone(),
        user: job.owner.clone(),
        name: job.spec.name.clone(),
        priority: job.described(instance.index).priority,
        appclass: job.described(instance.index).appclass,
        limit: described(cell, instance, job, placement).limit,
        saver: job.described(instance.index).task.saver.clone(),
        address: placement.address,
    })
}

fn task(cell: &Cell, instance: InstanceId, job: &Job, placement: &Placement) -> Option<Desired> {
    let names = job.ports(instance.index);
    Some(Desired {
        instance,
        alloc: placement.alloc(),
        cell: cell.name()?.clone(),
        user: job.owner.clone(),
        job: job.spec.name.clone(),
        priority: job.described(instance.index).priority,
        appclass: job.described(instance.index).appclass,
        tasks: job.spec.tasks,
        spec: Arc::new(described(cell, instance, job, placement)),
        ports: names.iter().cloned().zip(placement.ports.iter().copied()).collect(),
        address: placement.address,
        volumes: volumes(cell, instance, job, placement),
        max_runtime: job.described(instance.index).batch.max_runtime,
        reads_again: match placement.inputs.as_deref() {
            Some(inputs) if inputs.told != inputs.done => inputs.told,
            _ => 0,
        },
    })
}

/// The volumes that a task has claimed on its machine.
fn volumes(
    cell: &Cell,
    instance: InstanceId,
    job: &Job,
    placement: &Placement,
) -> Vec<VolumeMount> {
    let (Some(ask), Some(machine)) =
        (VolumeAsk::of(job, instance.index), cell.machine(placement.machine))
    else {
        return Vec::new();
    };
    let found = ask.find(machine);
    // What is wrong with a directory is no reason to start without it: the machine rejects such a start.
    let claimed = ask.bound.as_ref().filter(|bound| bound.machine == machine.name);
    let mounted = ask.requests.iter().filter_map(|request| {
        let name = match &found {
            Ok(found) => found.iter().find(|(at, _)| *at == request.path).map(|(_, name)| name),
            Err(_) => claimed.and_then(|claimed| request.claimed(claimed)),
        }?;
        let volume = machine.volumes.get(name)?;
        Some(VolumeMount {
            name: name.clone(),
            source: volume.described.path.clone(),
            target: request.path.clone(),
            read_only: request.read_only,
            exclusive: volume.described.sharing == VolumeSharing::Exclusive,
            mark: volume.mark()?,
        })
    });
    mounted.collect()
}

/// The specification with the limit in the machine's own cores; the cell counts in normalized
/// cores.
fn described(cell: &Cell, instance: InstanceId, job: &Job, placement: &Placement) -> TaskSpec {
    let mut spec = job.described(instance.index).task(instance.index).into_owned();
    spec.logs.max = Some(cell.log_settings().of(spec.logs).1);
    if let Some(machine) = cell.machine(placement.machine) {
        spec.limit.cpu = machine.gcu().physical(spec.limit.cpu);
    }
    spec
}
