//! What is shown of a cell: messages made from a view.

use std::collections::BTreeMap;

use cell::{
    Cell, Death, Health, Job, JobState, Machine, MachineState, Phase, StopReason, TaskState,
};
use model::{Resources, TaskIndex, TaskSelection, Time, UserName};
use proto::v1;
use scheduler::why::{Group, Reason};

/// A job, with its tasks or without.
pub(crate) fn job_status(cell: &Cell, job: &Job, with_tasks: bool) -> v1::JobStatus {
    let mut counts = v1::JobCounts { tasks: job.spec.tasks, ..v1::JobCounts::default() };
    for (_, task) in job.tasks() {
        count(&mut counts, &task.state);
    }
    let state = match &job.state {
        JobState::Queued => "queued",
        JobState::Pending => "pending",
        JobState::Running => "running",
        JobState::Dead { death, .. } => self::death(death),
    };
    let tasks = match with_tasks {
        true => job.tasks().map(|(index, _)| task_status(cell, job, index)).collect(),
        false => Vec::new(),
    };
    v1::JobStatus {
        collection: job.id.0,
        user: job.owner.to_string(),
        spec: Some(job.spec.as_ref().into()),
        submitted: job.submitted.0,
        state: state.to_owned(),
        counts: Some(counts),
        tasks,
    }
}

fn count(counts: &mut v1::JobCounts, state: &TaskState) {
    match state {
        TaskState::Queued { .. } => counts.queued += 1,
        TaskState::Pending { .. } => counts.pending += 1,
        TaskState::Running(placement) => {
            counts.scheduled += 1;
            if let Phase::Started { health, .. } = placement.phase {
                counts.running += 1;
                counts.healthy += u32::from(health == Health::Healthy);
            }
        }
        TaskState::Dead { death, .. } => match death {
            Death::Finished => counts.finished += 1,
            Death::Failed => counts.failed += 1,
            Death::Killed(_) => counts.killed += 1,
        },
    }
}

fn death(death: &Death) -> &'static str {
    match death {
        Death::Finished => "finished",
        Death::Failed => "failed",
        Death::Killed(_) => "killed",
    }
}

fn task_status(cell: &Cell, job: &Job, index: TaskIndex) -> v1::TaskStatus {
    let mut status = v1::TaskStatus { index: index.0, ..v1::TaskStatus::default() };
    let Some(task) = job.task(index) else { return status };
    status.generation = task.generation.0;
    status.failures = task.failures;
    if let Some(life) = &task.last_life {
        status.last_end = Some((&life.end).into());
        status.last_end_text = life.end.to_string();
        status.machine = machine_name(cell, life.machine);
    }
    match &task.state {
        TaskState::Queued { since } => {
            status.state = "queued".to_owned();
            status.since = since.0;
        }
        TaskState::Pending { since, not_before, cause } => {
            status.state = "pending".to_owned();
            status.reason = cause.to_string();
            status.since = since.0;
            status.not_before = if not_before > since { not_before.0 } else { 0 };
        }
        TaskState::Running(placement) => {
            let (state, since) = match placement.phase {
                _ if placement.stop.is_some() => ("stopping", placement.since),
                Phase::Starting => ("starting", placement.since),
                Phase::Started { at, .. } => ("running", at),
            };
            status.state = state.to_owned();
            status.since = since.0;
            status.reason = placement.stop.as_deref().map(stop_reason).unwrap_or_default();
            status.machine = machine_name(cell, placement.machine);
            status.host = cell
                .machine(placement.machine)
                .and_then(|machine| machine.address.rsplit_once(':'))
                .map(|(host, _)| host.to_owned())
                .unwrap_or_default();
            let names = job.ports(index);
            let ports = names.iter().cloned().zip(placement.ports.iter().copied());
            status.ports = ports
                .map(|(name, port)| v1::NamedPort { name: name.to_string(), port: port.into() })
                .collect::<Vec<_>>();
            if let Phase::Started { health, .. } = placement.phase {
                status.health = match health {
                    Health::Unknown => v1::Health::Unknown,
                    Health::Healthy => v1::Health::Healthy,
                    Health::Unhealthy => v1::Health::Unhealthy,
                }
                .into();
            }
        }
        TaskState::Dead { at, death: how } => {
            status.state = death(how).to_owned();
            status.since = at.0;
            if let Death::Killed(why) = how {
                status.reason = why.to_string();
            }
        }
    }
    status
}

fn stop_reason(why: &StopReason) -> String {
    match why {
        StopReason::Kill(why) => format!("killed {why}"),
        StopReason::Evict(cause) => format!("evicted: {cause}"),
    }
}

fn machine_name(cell: &Cell, id: model::MachineId) -> String {
    cell.machine(id).map(|machine| machine.name.to_string()).unwrap_or_default()
}

/// Why tasks of a job are pending.
pub(crate) fn why_pending(
    cell: &Cell,
    job: &Job,
    chosen: &TaskSelection,
    now: Time,
) -> v1::WhyResponse {
    v1::WhyResponse {
        index: cell.index().0,
        time: now.0,
        user: job.owner.to_string(),
        job: job.spec.name.to_string(),
        priority: job.spec.priority.number().into(),
        tasks: job.spec.tasks,
        pending: job.pending(),
        groups: scheduler::why(cell, job, chosen, now)
            .iter()
            .map(|found| group(cell, job, found, now))
            .collect(),
        queued: job.counts().queued,
        waits_for: job
            .waits_for
            .iter()
            .filter_map(|id| cell.job(*id))
            .map(|other| format!("{}/{}", other.owner, other.spec.name))
            .collect(),
    }
}

fn group(cell: &Cell, job: &Job, group: &Group<'_>, now: Time) -> v1::PendingGroup {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let range =
        |(first, last): &(TaskIndex, TaskIndex)| v1::IndexRange { first: first.0, last: last.0 };
    let misfit = |reason: &Reason| v1::Misfit {
        machines: count(reason.machines),
        reason: reason.text.clone(),
        nearest_machine: reason.nearest.as_ref().map(ToString::to_string).unwrap_or_default(),
        nearest: reason.nearest_text.clone(),
    };
    v1::PendingGroup {
        tasks: group.tasks.iter().map(range).collect(),
        since: group.since.0,
        limit: Some((&group.ask.limit).into()),
        ports: count(group.ask.ports),
        not_before: group.not_before.map_or(0, |at| at.0),
        last_end: group.last_end.as_ref().map(Into::into),
        last_end_text: group.last_end.as_ref().map(ToString::to_string).unwrap_or_default(),
        machines: count(group.machines),
        fits: count(group.fits),
        misfits: group.reasons.iter().map(misfit).collect(),
        cause: group.cause.to_string(),
        avoids: avoided(cell, job, group, now),
        smallest_change: group
            .smallest_change
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}

/// The machines on which the first task of a group crashed of late.
fn avoided(cell: &Cell, job: &Job, group: &Group<'_>, now: Time) -> Vec<String> {
    let first = group.tasks.first().and_then(|(index, _)| job.task(*index));
    let crashes = first.and_then(|task| Some((task, task.crashes.as_ref()?)));
    let Some((task, crashes)) = crashes else { return Vec::new() };
    let avoided = crashes.iter().filter(|crash| task.avoids(crash.machine, now).is_some());
    avoided.map(|crash| machine_name(cell, crash.machine)).collect()
}

/// A machine.
pub(crate) fn machine_status(machine: &Machine, now: Time) -> v1::MachineStatus {
    let drain = machine.drain.as_deref();
    let map = |map: &BTreeMap<String, String>| map.clone().into_iter().collect();
    let state = match machine.state {
        MachineState::Joining => "joining",
        MachineState::Up if drain.is_some() => "draining",
        MachineState::Up => "up",
        MachineState::Down { .. } => "down",
    };
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    v1::MachineStatus {
        id: machine.id.0,
        name: machine.name.to_string(),
        address: machine.address.to_string(),
        state: state.to_owned(),
        report: Some(machine.report.as_ref().into()),
        taken: Some((&machine.taken()).into()),
        tasks: count(machine.instances().len()),
        ports_taken: count(machine.ports_taken().len()),
        attributes: map(machine.attributes()),
        operator_attributes: map(&machine.operator_attributes),
        capacity: Some((&machine.capacity()).into()),
        gcu_milli: machine.gcu().milli(),
        draining_since: drain.map_or(0, |drain| drain.since.0),
        drain_reason: drain.map(|drain| drain.reason.clone()).unwrap_or_default(),
        drained_by: drain.map(|drain| drain.by.to_string()).unwrap_or_default(),
        suspect: machine.is_suspect(now),
    }
}

/// The capacity of every machine that is up, together.
pub(crate) fn capacity(cell: &Cell) -> Resources {
    let up = cell.machines().filter(|machine| machine.state == MachineState::Up);
    up.fold(Resources::default(), |sum, machine| sum.plus(machine.capacity()))
}

/// The nearest name to one that does not exist.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &&str| strsim::damerau_levenshtein(wanted, name);
    names.min_by_key(distance).filter(|name| distance(name) <= 1 + wanted.chars().count() / 3)
}

/// The jobs of every user by `user/job`, newest of each name.
pub(crate) fn job_names(cell: &Cell) -> BTreeMap<String, &UserName> {
    cell.named_jobs().map(|job| (format!("{}/{}", job.owner, job.spec.name), &job.owner)).collect()
}
