//! Messages that show a view of a cell.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::v1;
use api::v1::state_reason::Reason;
use cell::{
    Cell, Death, EvictionCause, Health, Job, JobState, KillReason, LastBackup, LeftOut, Machine,
    MachineState, MoveReason, PendingCause, Phase, Placement, Rescheduling, StopReason, Task,
    TaskState, Volume,
};
use model::{
    CollectionId, FinalUsage, InstanceId, JobName, PackageId, Resources, Saving, TaskId, TaskIndex,
    TaskSelection, Time, UserName, attribute,
};
use placement::why::Group;

use crate::reads::gang::waiting_gang;
use crate::reads::starting;
use crate::reads::waits::kill_reason;
use crate::reads::{problems, reasons, updates, waits};

/// How many of the user's own jobs, and of others', are searched for a nearest name.
const NEAREST_AMONG: usize = 500;

/// How many machines without a task of a job with one on every machine are shown.
const WITHOUT_TASK_SHOWN: usize = 100;

/// A job at a time, with or without its tasks, and without its description: [`Reads::job`] adds
/// that, as the caller may see it.
///
/// [`Reads::job`]: super::Reads::job
pub(crate) fn job_status(cell: &Cell, job: &Job, with_tasks: bool, now: Time) -> v1::JobStatus {
    let mut counts = v1::JobCounts { tasks: job.spec.tasks, ..v1::JobCounts::default() };
    let mut left = job.spec.tasks as usize;
    for (tasks, times) in job.task_runs() {
        let whole = left.checked_div(tasks.len()).unwrap_or(0).min(times);
        let times_of = |times: usize| u32::try_from(times).unwrap_or(u32::MAX);
        let mut add =
            |task: &Task, times| count(&mut counts, &task.state, loops(job, task, now), times);
        tasks.iter().for_each(|task| add(task, times_of(whole)));
        left -= whole * tasks.len();
        if whole < times {
            tasks.iter().take(left).for_each(|task| add(task, 1));
            break;
        }
    }
    let state = match &job.state {
        JobState::Queued => v1::JobState::Queued,
        JobState::Pending => v1::JobState::Pending,
        // It ran before: a started job stays started, but its tasks can go back to pending.
        JobState::Running if counts.scheduled == 0 => v1::JobState::Pending,
        JobState::Running => v1::JobState::Running,
        JobState::Dead { death, .. } => death.into(),
    };
    let killed = match &job.state {
        JobState::Dead { death: Death::Killed(why), .. } => Some(why),
        _ => None,
    };
    let mut tasks: Vec<v1::TaskStatus> = match with_tasks {
        true => {
            (0..job.size()).map(|index| task_status(cell, job, TaskIndex(index), now)).collect()
        }
        false => Vec::new(),
    };
    let inside = || cell.children(job.id).filter_map(|id| cell.job(id));
    let inside: Vec<&Arc<Job>> = match job.spec.kind.is_alloc_set() {
        true => inside().filter(|other| other.alloc_set == Some(job.id)).collect(),
        false => Vec::new(),
    };
    show_inside(&inside, &mut tasks);
    v1::JobStatus {
        collection: job.id.0,
        user: job.owner.to_string(),
        spec: None,
        submitted: job.submitted.0,
        state: state.into(),
        counts: Some(counts),
        tasks,
        waits_for: waits::waits_for(cell, job),
        waits: waits::awaited(cell, job),
        reason: killed.map(|why| kill_reason(cell, why)).unwrap_or_default(),
        state_reason: killed.map(|why| state_reason(Reason::Killed(why.into()))),
        alloc_set: job.alloc_set.map(|set| job_name(cell, set)).unwrap_or_default(),
        jobs: inside.iter().map(|job| format!("{}/{}", job.owner, job.spec.name)).collect(),
        version: job.version.0,
        last_version: job.last_version.0,
        versions: Vec::new(),
        update: job
            .update
            .as_ref()
            .map(|update| updates::status(cell, job, update, now, with_tasks)),
        without_task: without_task(cell, job),
        machines_without_task: number_without_task(job),
    }
}

/// The machines that suit a job with one task on every machine and have no task of it, and why.
fn without_task(cell: &Cell, job: &Job) -> Vec<v1::MachineWithoutTask> {
    let all = job.machine_tasks().into_iter().flat_map(cell::MachineTasks::left_out);
    // The same for every machine.
    let lacking = OnceCell::new();
    let why = |why| match why {
        LeftOut::Quota => match lacking.get_or_init(|| cell.quota_lacking_for_machine(job)) {
            Some((band, dimension)) => format!("quota of {band} {dimension}"),
            None => "quota".to_owned(),
        },
        LeftOut::Tasks => "the maximum number of tasks".to_owned(),
    };
    let shown = |(machine, left_out)| v1::MachineWithoutTask {
        machine: machine_name(cell, machine),
        why: why(left_out),
    };
    all.take(WITHOUT_TASK_SHOWN).map(shown).collect()
}

fn number_without_task(job: &Job) -> u32 {
    let all = job.machine_tasks().map_or(0, |tasks| tasks.left_out().count());
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// Adds to each alloc the tasks of those jobs that are in it.
fn show_inside(jobs: &[&Arc<Job>], allocs: &mut [v1::TaskStatus]) {
    for job in jobs {
        for (index, task) in job.tasks() {
            if let TaskState::Running(placement) = &task.state
                && let Some(alloc) =
                    placement.alloc().and_then(|id| usize::try_from(id.index.0).ok())
                && let Some(alloc) = allocs.get_mut(alloc)
            {
                alloc.inside.push(format!("{}/{}/{index}", job.owner, job.spec.name));
            }
        }
    }
}

/// `ana/web`.
pub(crate) fn job_name(cell: &Cell, id: CollectionId) -> String {
    match cell.job(id) {
        Some(job) => format!("{}/{}", job.owner, job.spec.name),
        None => format!("job {id}"),
    }
}

pub(crate) fn task_name(cell: &Cell, id: InstanceId) -> String {
    format!("{}/{}", job_name(cell, id.collection), id.index)
}

/// A task's health as it is shown: nobody should count on a stopping task.
pub(crate) fn health(placement: &Placement) -> Health {
    match placement.phase {
        Phase::Started { health, .. } if placement.stop.is_none() => health,
        Phase::Started { .. } | Phase::Starting => Health::Unknown,
    }
}

/// Whether a task of a job without a health check fails again and again: that it runs between two ends
/// is no sign of health.
fn loops(job: &Job, task: &Task, now: Time) -> bool {
    job.spec.task.health_check.is_none() && problems::fails(task, now).is_some()
}

fn count(counts: &mut v1::JobCounts, state: &TaskState, loops: bool, times: u32) {
    let add = |count: &mut u32| *count = count.saturating_add(times);
    match state {
        TaskState::Queued { .. } => add(&mut counts.queued),
        TaskState::Pending { .. } => add(&mut counts.pending),
        TaskState::Running(placement) => {
            add(&mut counts.scheduled);
            if let Phase::Started { .. } = placement.phase {
                add(&mut counts.running);
                if health(placement) == Health::Healthy && !loops {
                    add(&mut counts.healthy);
                }
            }
        }
        TaskState::Dead { death, .. } => match death {
            Death::Finished => add(&mut counts.finished),
            Death::Failed => add(&mut counts.failed),
            Death::Killed(_) => add(&mut counts.killed),
        },
    }
}

fn state_reason(reason: Reason) -> v1::StateReason {
    v1::StateReason { reason: Some(reason) }
}

/// The version of a package that has the outputs of the last incarnation of a task, if one has them.
pub(crate) fn outputs_package(cell: &Cell, job: &Job, index: TaskIndex) -> Option<PackageId> {
    let last = job.task(index)?.last_incarnation.as_deref()?;
    let instance = TaskId { collection: job.id, index }.generation(last.generation);
    let id = job.described(index).task.outputs.version_of(&job.owner, instance)?;
    cell.package(&id).map(|package| package.id.clone())
}

/// A task at a time.
pub(crate) fn task_status(cell: &Cell, job: &Job, index: TaskIndex, now: Time) -> v1::TaskStatus {
    let mut status = v1::TaskStatus { index: index.0, ..v1::TaskStatus::default() };
    let Some(task) = job.task(index) else { return status };
    status.generation = task.generation.0;
    status.failures = task.failures;
    // The last failure of a task that is dead was followed by no restart.
    let last = matches!(task.state, TaskState::Dead { death: Death::Failed, .. });
    status.restarts = task.restarts().saturating_sub(u32::from(last));
    status.version = task.version.0;
    status.labels = job.described(index).labels_of(index);
    if let Some(incarnation) = &task.last_incarnation {
        status.last_end = Some((&incarnation.end).into());
        status.last_end_text = incarnation.end.to_string();
        let package = outputs_package(cell, job, index);
        status.outputs_package = package.map(|id| id.to_string()).unwrap_or_default();
        status.last_version = incarnation.version.0;
        let usage = &incarnation.usage;
        status.last_usage = (*usage != FinalUsage::UNMEASURED).then(|| usage.into());
        status.machine = machine_name(cell, incarnation.machine);
    }
    // A task that is to be on a certain machine shows it, wherever its row was before.
    if let Some(machine) = job.machine_of(index) {
        status.machine = machine_name(cell, machine);
    }
    match &task.state {
        TaskState::Queued { since } => {
            status.set_state(v1::TaskState::Queued);
            status.reason = waits::held_back(cell, job, index);
            status.since = since.0;
        }
        TaskState::Pending { since, not_before, cause } => {
            status.set_state(v1::TaskState::Pending);
            status.reason = pending_cause(cell, *cause);
            status.state_reason = Some(state_reason(Reason::Pending(cause.into())));
            status.since = since.0;
            status.not_before = if not_before > since { not_before.0 } else { 0 };
        }
        TaskState::Running(placement) => {
            let (state, since) = match placement.phase {
                _ if placement.stop.is_some() => (v1::TaskState::Stopping, placement.since),
                Phase::Starting => (v1::TaskState::Starting, placement.since),
                Phase::Started { at, .. } => (v1::TaskState::Running, at),
            };
            status.set_state(state);
            status.since = since.0;
            status.start_latency = api::start_latency::message(placement.latency);
            let stop = placement.stop.as_deref();
            let silent = cell
                .machine(placement.machine)
                .is_some_and(|machine| matches!(machine.state, MachineState::Unreachable { .. }));
            let (reason, text) = match stop {
                Some(why) => (Some(Reason::Stopping(why.into())), stop_reason(cell, why)),
                None if placement.phase == Phase::Starting
                    && placement.lost_starts > 0
                    && !silent =>
                {
                    let cause = PendingCause::StartLost { tries: placement.lost_starts };
                    let awaited = starting::AwaitedNames::of(cell, job).of_task(index);
                    let text = match awaited {
                        Some(awaited) => format!("{cause}; {awaited}"),
                        None => cause.to_string(),
                    };
                    (Some(Reason::Pending((&cause).into())), text)
                }
                None if silent => {
                    let text = "its machine is unreachable".to_owned();
                    (Some(Reason::MachineUnreachable(v1::Nothing {})), text)
                }
                None if placement.phase == Phase::Starting => {
                    (None, starting::AwaitedNames::of(cell, job).of_task(index).unwrap_or_default())
                }
                None => (None, older_secrets(cell, job, index)),
            };
            status.state_reason = reason.map(state_reason);
            status.reason = text;
            status.machine = machine_name(cell, placement.machine);
            status.alloc =
                placement.alloc().map(|alloc| task_name(cell, alloc)).unwrap_or_default();
            if job.spec.kind.is_alloc_set() {
                let taken = job.instance(index).and_then(|alloc| {
                    cell.machine(placement.machine).and_then(|machine| machine.used(alloc))
                });
                status.limit = Some((&job.limit(index)).into());
                status.taken = Some((&taken.unwrap_or_default()).into());
            }
            let of_machine = || {
                let machine = cell.machine(placement.machine)?;
                machine.address.rsplit_once(':').map(|(host, _)| host.to_owned())
            };
            let address = placement.address.map(|address| address.to_string());
            status.network_address = address.clone().unwrap_or_default();
            status.host = address.or_else(of_machine).unwrap_or_default();
            let names = job.ports(index);
            let ports = names.iter().cloned().zip(placement.ports.iter().copied());
            status.ports = ports
                .map(|(name, port)| v1::NamedPort { name: name.to_string(), port: port.into() })
                .collect::<Vec<_>>();
            status.must_end = waits::must_end(job, index, placement);
            if let Phase::Started { .. } = placement.phase {
                status.health = match health(placement) {
                    Health::Healthy if loops(job, task, now) => v1::Health::Unknown,
                    Health::Unknown => v1::Health::Unknown,
                    Health::Healthy => v1::Health::Healthy,
                    Health::Unhealthy => v1::Health::Unhealthy,
                    Health::Unready => v1::Health::Unready,
                }
                .into();
                status.check = placement.check.as_deref().unwrap_or_default().to_owned();
            }
        }
        TaskState::Dead { at, death: how } => {
            status.set_state(how.into());
            status.since = at.0;
            if let Death::Killed(why) = how {
                status.state_reason = Some(state_reason(Reason::Killed(why.into())));
                status.reason = kill_reason(cell, why);
            }
        }
    }
    status
}

/// `it has secret db version 1, the newest is 2`; empty if it has the newest of all.
fn older_secrets(cell: &Cell, job: &Job, index: TaskIndex) -> String {
    let older = cell.older_secrets(job, index).into_iter();
    let older = older.map(|(name, has, newest)| {
        format!("it has secret {name} version {has}, the newest is {newest}")
    });
    older.collect::<Vec<_>>().join("; ")
}

/// Why a task is being stopped, with the names of jobs and tasks instead of their ids.
fn stop_reason(cell: &Cell, why: &StopReason) -> String {
    match why {
        StopReason::Kill(KillReason::User(user)) => format!("killed by {user}"),
        StopReason::Kill(KillReason::Now(user)) => format!("killed by {user} without notice"),
        StopReason::Kill(why) => format!("killed: {}", kill_reason(cell, why)),
        StopReason::Evict(cause) => format!("evicted: {}", eviction_cause(cell, *cause)),
    }
}

pub(super) fn pending_cause(cell: &Cell, cause: PendingCause) -> String {
    match cause {
        PendingCause::Evicted(cause) => format!("evicted: {}", eviction_cause(cell, cause)),
        other => other.to_string(),
    }
}

fn eviction_cause(cell: &Cell, cause: EvictionCause) -> String {
    match cause {
        EvictionCause::Preempted { by } => format!("preempted by {}", task_name(cell, by)),
        EvictionCause::Moved { why: MoveReason::Fits { task }, .. } => {
            format!("moved so that {} fits", task_name(cell, task))
        }
        other => other.to_string(),
    }
}

pub(crate) fn machine_name(cell: &Cell, id: model::MachineId) -> String {
    cell.machine(id).map(|machine| machine.name.to_string()).unwrap_or_default()
}

/// Why tasks of a job are pending.
pub(crate) fn why_pending(
    cell: &Cell,
    job: &Job,
    chosen: &TaskSelection,
    now: Time,
) -> v1::WhyResponse {
    let found = placement::why(cell, job, chosen, now);
    v1::WhyResponse {
        index: cell.index().0,
        time: now.0,
        user: job.owner.to_string(),
        job: job.spec.name.to_string(),
        priority: job.spec.priority.number().into(),
        tasks: job.spec.tasks,
        pending: job.pending(),
        groups: reasons::groups(cell, job, &found.groups, now),
        more: found.more,
        queued: job.counts().queued,
        waits_for: waits::waits_for(cell, job),
        waits: waits::awaited(cell, job),
        alloc_set: job.alloc_set.map(|set| job_name(cell, set)).unwrap_or_default(),
        scored_task: 0,
        scores: Vec::new(),
        rejecting: rejecting(cell, job, chosen),
        starting: starting::waiting(cell, job, chosen),
        without_task: without_task(cell, job),
        machines_without_task: number_without_task(job),
        gang: waiting_gang(cell, job, now),
        queue_place: None,
        users_ahead: Vec::new(),
        users_ahead_count: 0,
        ..reasons::of_job(cell, job, chosen, &found, now)
    }
}

/// The machines that reject the cell's orders and on which chosen tasks wait for their start.
fn rejecting(cell: &Cell, job: &Job, chosen: &TaskSelection) -> Vec<String> {
    let waits = chosen.of(job.size()).filter_map(|index| {
        let placed = job.instance(index).and_then(|instance| cell.placement(instance))?;
        matches!(placed.phase, Phase::Starting).then_some(placed.machine)
    });
    let machines: BTreeSet<_> = waits.collect();
    let machines = machines.into_iter().filter_map(|id| cell.machine(id));
    let rejects = |machine: &&Arc<Machine>| machine.attribute(attribute::REJECTS_ORDERS).is_some();
    machines.filter(rejects).map(|machine| machine.name.to_string()).collect()
}

/// The machines with the best scores for a task, term by term, with the weights of a scheduler with
/// the default settings.
pub(crate) fn scores(
    cell: &Cell,
    job: &Job,
    index: TaskIndex,
    now: Time,
    held: &placement::HeldByMachine,
    most: usize,
) -> Vec<v1::MachineScore> {
    let settings = placement::Settings::default();
    let weights = settings.weights.clone();
    let scored = placement::scores(cell, job, index, now, settings, held, most);
    let term = |(term, value): (placement::Term, u32)| v1::machine_score::Term {
        name: term.name().to_owned(),
        value,
        weight: weights.of(term),
    };
    let score = |scored: &placement::Scored| v1::MachineScore {
        machine: machine_name(cell, scored.machine),
        score: scored.score,
        terms: placement::Term::ALL.into_iter().zip(scored.terms.0).map(term).collect(),
        packages_there: scored.packages.map_or(0, |packages| packages.has.0),
        packages_needed: scored.packages.map_or(0, |packages| packages.of.0),
    };
    scored.iter().map(score).collect()
}

pub(super) fn group(cell: &Cell, job: &Job, group: &Group<'_>, now: Time) -> v1::PendingGroup {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let range =
        |(first, last): &(TaskIndex, TaskIndex)| v1::IndexRange { first: first.0, last: last.0 };
    let unschedulable_reason = |reason: &placement::why::Reason| v1::UnschedulableReason {
        machines: count(reason.machines),
        reason: reason.text.clone(),
        nearest_machine: reason.nearest.as_ref().map(ToString::to_string).unwrap_or_default(),
        nearest: reason.nearest_text.clone(),
    };
    v1::PendingGroup {
        tasks: group.tasks.iter().map(range).collect(),
        since: group.since.0,
        limit: Some((&group.ask.demand.limit).into()),
        ports: count(group.ask.ports),
        not_before: group.not_before.map_or(0, |at| at.0),
        last_end: group.last_end.as_ref().map(Into::into),
        last_end_text: group.last_end.as_ref().map(ToString::to_string).unwrap_or_default(),
        machines: count(group.machines),
        fits: count(group.fits),
        own_machine: group.own_machine.as_ref().map(ToString::to_string).unwrap_or_default(),
        unschedulable_reasons: group.reasons.iter().map(unschedulable_reason).collect(),
        cause: pending_cause(cell, group.cause),
        pending_cause: Some((&group.cause).into()),
        avoids: avoided(cell, job, group, now),
        smallest_change: group
            .smallest_change
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        failed_checks: reasons::failed_checks(&group.failed),
        ..v1::PendingGroup::default()
    }
}

/// The machines on which the first task of a group crashed recently.
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
        MachineState::Up if drain.is_some() && machine.instances().is_empty() => {
            v1::MachineState::Drained
        }
        MachineState::Up if drain.is_some() => v1::MachineState::Draining,
        MachineState::Up if machine.report.not_ready.is_some() => v1::MachineState::NotReady,
        MachineState::Joining => v1::MachineState::Joining,
        MachineState::Up => v1::MachineState::Up,
        MachineState::Unreachable { .. } => v1::MachineState::Unreachable,
        MachineState::Down { .. } => v1::MachineState::Down,
    };
    let silent_since = match machine.state {
        MachineState::Joining | MachineState::Up => 0,
        MachineState::Unreachable { since } | MachineState::Down { since } => since.0,
    };
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    v1::MachineStatus {
        id: machine.id.0,
        name: machine.name.to_string(),
        address: machine.address.to_string(),
        state: state.into(),
        report: Some(machine.report.as_ref().into()),
        set_aside: machine.is_set_aside(),
        taken: Some((&machine.taken()).into()),
        tasks: count(machine.instances().len()),
        ports_taken: count(machine.ports_taken().len()),
        addresses_taken: count(machine.addresses_taken().len()),
        attributes: map(machine.attributes()),
        operator_attributes: map(&machine.operator_attributes),
        capacity: Some((&machine.capacity()).into()),
        gcu_milli: machine.gcu().milli(),
        draining_since: drain.map_or(0, |drain| drain.since.0),
        drain_reason: drain.map(|drain| drain.reason.clone()).unwrap_or_default(),
        drained_by: drain.map(|drain| drain.by.to_string()).unwrap_or_default(),
        drain_deadline: drain.and_then(|drain| drain.deadline).map_or(0, |at| at.0),
        drain_forced: drain.is_some_and(|drain| drain.force),
        drain_expired: drain.and_then(|drain| drain.expired).map_or(0, |at| at.0),
        drain_waits_for: Vec::new(),
        suspect: machine.is_suspect(now),
        placed: Vec::new(),
        volumes: machine.volumes.values().map(|one| volume(machine, one)).collect(),
        silent_since,
        polled_by: 0,
        not_reached: String::new(),
        not_reached_by: Vec::new(),
        ..credentials(machine)
    }
}

fn volume(machine: &Machine, volume: &Volume) -> v1::VolumeStatus {
    let mut fills = machine.report.volumes.iter();
    let fill = fills.find(|fill| fill.volume == volume.described.name);
    v1::VolumeStatus {
        volume: Some((&*volume.described).into()),
        data_of: volume.data_of.as_ref().map(ToString::to_string).unwrap_or_default(),
        claims: volume.claims.iter().map(Into::into).collect(),
        fill: fill.map(Into::into),
        content: volume.content.to_string(),
    }
}

/// What the cell recorded of a machine's certificates, and nothing else of it.
fn credentials(machine: &Machine) -> v1::MachineStatus {
    let Some(said) = &machine.credentials else { return v1::MachineStatus::default() };
    let revoked = said.revoked.as_ref();
    let newest = said.certificates.iter().map(|known| known.expires.0).max();
    v1::MachineStatus {
        certificate_expires: newest.unwrap_or_default(),
        revoked: revoked.map_or(0, |act| act.at.0),
        revoked_by: revoked.map(|act| act.by.to_string()).unwrap_or_default(),
        shut_out: revoked.is_some() && said.certificates.is_empty(),
        ..v1::MachineStatus::default()
    }
}

/// The data that a machine keeps for savers.
pub(crate) fn saving(cell: &Cell, machine: &Machine) -> Vec<v1::SavingStatus> {
    let kept = machine.report.saving.iter().filter(|saving| saving.outcome.is_none());
    let status = |saving: &Saving| v1::SavingStatus {
        name: task_name(cell, saving.instance),
        generation: saving.instance.generation.0,
        bytes: i64::try_from(saving.bytes.0).unwrap_or(i64::MAX),
        attempts: saving.attempts,
        until: saving.until.0,
        instance: Some(saving.instance.into()),
    };
    kept.map(status).collect()
}

/// The tasks placed on a machine, at a time.
pub(crate) fn placed(cell: &Cell, machine: &Machine, now: Time) -> Vec<v1::PlacedTask> {
    let task = |instance: &InstanceId| {
        let job = cell.job(instance.collection)?;
        Some(v1::PlacedTask {
            user: job.owner.to_string(),
            job: job.spec.name.to_string(),
            priority: job.spec.priority.number().into(),
            limit: Some((&job.limit(instance.index)).into()),
            task: Some(task_status(cell, job, instance.index, now)),
        })
    };
    machine.instances().iter().filter_map(task).collect()
}

/// What is reclaimed now, on all machines.
pub(super) fn reclamation(cell: &Cell) -> v1::ReclamationStatus {
    let none = (Resources::default(), Resources::default());
    let (limit, reservation) = cell.machines().fold(none, |(limit, reservation), machine| {
        (limit.plus(machine.taken()), reservation.plus(machine.reserved()))
    });
    v1::ReclamationStatus {
        setting: cell.reclamation().to_string(),
        limit: Some((&limit).into()),
        reservation: Some((&reservation).into()),
        reclaimed: Some((&limit.minus(reservation)).into()),
    }
}

/// Whether unreachable machines are marked down.
pub(crate) fn rescheduling(cell: &Cell) -> v1::ReschedulingStatus {
    let state = |state: v1::ReschedulingState| v1::ReschedulingStatus {
        state: state.into(),
        ..v1::ReschedulingStatus::default()
    };
    match cell.rescheduling() {
        Rescheduling::Allowed => state(v1::ReschedulingState::Allowed),
        Rescheduling::Stopped { since, silent, of } => {
            let (since, silent, of) = (since.0, *silent, *of);
            v1::ReschedulingStatus { since, silent, of, ..state(v1::ReschedulingState::Stopped) }
        }
        Rescheduling::Resumed { since, by } => {
            let (since, by) = (since.0, by.to_string());
            v1::ReschedulingStatus { since, by, ..state(v1::ReschedulingState::Resumed) }
        }
    }
}

pub(crate) fn last_backup(last: &LastBackup) -> v1::LastBackup {
    v1::LastBackup { index: last.index.0, at: last.at.0, by: last.by.to_string() }
}

/// The total capacity of all machines that are up.
pub(crate) fn capacity(cell: &Cell) -> Resources {
    let up = cell.machines().filter(|machine| machine.state == MachineState::Up);
    up.fold(Resources::default(), |sum, machine| sum.plus(machine.capacity()))
}

/// The nearest name to one that does not exist.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = wanted.chars().count();
    let most = 1 + length / 3;
    let distance = |name: &&str| strsim::damerau_levenshtein(wanted, name);
    let near = names.filter(|name| name.chars().count().abs_diff(length) <= most);
    near.min_by_key(distance).filter(|name| distance(name) <= most)
}

/// The nearest name to a job that does not exist, for its error message.
pub(crate) fn nearest_job(cell: &Cell, user: &UserName, name: &JobName) -> String {
    let of_user = |of: bool| {
        let jobs = cell.named_jobs().filter(move |job| (job.owner == *user) == of);
        jobs.take(NEAREST_AMONG).map(|job| format!("{}/{}", job.owner, job.spec.name))
    };
    let names: Vec<String> = of_user(true).chain(of_user(false)).collect();
    let near = nearest(&format!("{user}/{name}"), names.iter().map(String::as_str));
    near.map(|near| format!("; the nearest is {near}")).unwrap_or_default()
}
