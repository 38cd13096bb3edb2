//! One of each kind of event.

use std::sync::Arc;

use api::event::{Names, Record};
use cell::{
    Actor, Event, EventKind, EvictionCause, ExecEnd, KillReason, LockChange, MoveReason,
    PendingCause, SkipReason, StopReason, Subject,
};
use model::{
    Band, Bytes, Capability, CollectionId, FinalUsage, Level, LogIndex, MachineId, MilliCores,
    PackingPolicy, Reclamation, Span, StartLatency, TaskIndex, Time, Version,
};
use spec::{CpuRam, FieldChange};

use super::{
    broke_rule, certificate, ends, enrolment, factor, instance, name, replicas, resources,
    shortages, usages,
};

/// Each kind of event at least once, each from another operation.
pub(crate) fn all_events() -> Vec<Record> {
    let records = (1_u64..).zip(happenings()).map(|(index, (by, event))| {
        let names = match event.subject {
            Subject::Cell => Names::default(),
            Subject::Machine(_) => Names { machine: Some(name("m3")), ..Names::default() },
            Subject::Job(_) => {
                Names { user: Some(name("ana")), job: Some(name("web")), ..Names::default() }
            }
            Subject::Task(_) => Names {
                user: Some(name("ana")),
                job: Some(name("web")),
                machine: Some(name("m3")),
                reporter: Some(name("m3")),
                related: None,
            },
        };
        let (index, at) = (LogIndex(index), Time(1_700_000_000_000_000 + index));
        Record { index, sub: u32::from(index.0 % 2 == 0) * 300, at, by, event, names }
    });
    records.collect()
}

fn happenings() -> Vec<(Actor, Event)> {
    let task = Subject::Task(instance(0));
    let (ana, machine) = (Actor::User(name("ana")), Actor::Machine(MachineId(3)));
    let mut all = Vec::new();
    let mut add = |by: &Actor, subject, kinds: Vec<EventKind>| {
        let event = |kind| Event { subject, kind, usage: FinalUsage::UNMEASURED };
        all.extend(kinds.into_iter().map(|kind| (by.clone(), event(kind))));
    };
    add(&ana, Subject::Job(CollectionId(1)), of_jobs());
    add(&Actor::Scheduler(name("batch")), task, of_tasks());
    add(&machine, task, ends().into_iter().map(|end| EventKind::Lost { end }).collect());
    add(&Actor::Master, Subject::Machine(MachineId(3)), of_machines());
    add(&ana, Subject::Cell, of_the_cell());
    add(&Actor::Master, Subject::Machine(MachineId(3)), vec![EventKind::MachineUnreachable]);
    add(&Actor::Master, Subject::Cell, of_rescheduling());
    let alloc = Some(instance(2));
    let of_allocs = vec![
        EventKind::Schedule { machine: MachineId(3), alloc },
        EventKind::Kill { why: KillReason::AllocSetEnded(CollectionId(5)) },
    ];
    add(&Actor::Scheduler(name("batch")), task, of_allocs);
    add(&ana, Subject::Cell, of_quota());
    let capability = Capability::DrainMachines;
    let used = vec![EventKind::CapabilityUsed { capability }];
    add(&ana, Subject::Machine(MachineId(3)), used);
    let command = || "ls -l".to_owned();
    let ended = |status| {
        let end = ExecEnd { took: Span::from_secs(7), status };
        EventKind::ExecEnded { command: command(), end }
    };
    let commands = vec![EventKind::ExecStarted { command: command() }, ended(Some(2)), ended(None)];
    add(&ana, task, commands);
    add(&ana, Subject::Cell, of_users());
    add(&Actor::Master, Subject::Cell, replicas::events());
    add(&ana, Subject::Cell, enrolment::events_of_the_cell());
    add(&machine, Subject::Machine(MachineId(3)), enrolment::events_of_a_machine());
    add(&machine, task, vec![EventKind::Fail { end: Some(broke_rule()) }]);
    add(&ana, Subject::Job(CollectionId(1)), of_updates());
    add(&Actor::Master, task, of_updated_tasks());
    let drained = vec![EventKind::Drained, EventKind::DrainExpired { left: 3 }];
    add(&Actor::Master, Subject::Machine(MachineId(3)), drained);
    let finished = |usage| Event { subject: task, kind: EventKind::Finish, usage };
    all.extend(usages().map(|usage| (machine.clone(), finished(usage))));
    let on = MachineId(3);
    let reason = "too late".to_owned();
    let of_savers = [
        EventKind::Saved { machine: on, attempts: 3 },
        EventKind::SaverGivenUp { machine: on, reason },
    ];
    let event = |kind| Event { subject: task, kind, usage: FinalUsage::UNMEASURED };
    all.extend(of_savers.map(|kind| (machine.clone(), event(kind))));
    all
}

fn of_jobs() -> Vec<EventKind> {
    vec![
        EventKind::Submit { cause: PendingCause::Submitted },
        EventKind::Queue,
        EventKind::Enable,
        EventKind::UpdatePending,
        EventKind::UpdateRunning,
        EventKind::Fail { end: None },
        EventKind::Finish,
        EventKind::Kill { why: KillReason::User(name("ana")) },
        EventKind::Kill { why: KillReason::ParentEnded(CollectionId(6)) },
        EventKind::Kill { why: KillReason::PredecessorEnded(CollectionId(0)) },
        EventKind::Kill { why: KillReason::PredecessorFinished(CollectionId(3)) },
        EventKind::Kill { why: KillReason::CounterpartEnded(instance(3).task()) },
        EventKind::Kill { why: KillReason::CounterpartFinished(instance(0).task()) },
    ]
}

fn of_updates() -> Vec<EventKind> {
    let change = |field: &str, old: &str, new: &str| FieldChange {
        field: field.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
    };
    let changes = [change("ram", "64 MiB", "96 MiB"), change("cmd[3]", "", "--quiet")];
    let version = Version(3);
    vec![
        EventKind::UpdateOpened { from: Version(1), to: version, changes: changes.into() },
        EventKind::UpdateOpened { from: Version(1), to: Version(2), changes: Arc::default() },
        EventKind::LimitsSet {
            version,
            from: CpuRam { cpu: MilliCores(1_000), ram: Bytes(1 << 30) },
            to: CpuRam { cpu: MilliCores(0), ram: Bytes(96 << 20) },
            reason: "ram 1 GiB → 96 MiB: percentile".into(),
        },
        EventKind::UpdatePaused { version },
        EventKind::UpdateResumed { version },
        EventKind::UpdateUndoing { version },
        EventKind::UpdateUndone { version },
        EventKind::UpdateSucceeded { version, skipped: 0 },
        EventKind::UpdateSucceeded { version, skipped: 2 },
        EventKind::UpdateClosed { version },
    ]
}

fn of_updated_tasks() -> Vec<EventKind> {
    let version = Version(3);
    vec![
        EventKind::UpdateSkipped { version, why: SkipReason::Disruptions },
        EventKind::UpdateSkipped { version, why: SkipReason::Budget },
        EventKind::UpdateFailed { version, end: None },
        EventKind::UpdateFailed { version, end: ends().pop() },
        EventKind::Submit { cause: PendingCause::Evicted(EvictionCause::Updated) },
        EventKind::Evict { cause: EvictionCause::Updated },
        EventKind::Stop { why: StopReason::Evict(EvictionCause::Updated) },
        EventKind::Kill { why: KillReason::Removed },
        EventKind::Kill { why: KillReason::MachineLeft(name("m1")) },
        EventKind::Kill { why: KillReason::GangFailed { task: TaskIndex(3) } },
    ]
}

fn of_tasks() -> Vec<EventKind> {
    let machine = MachineId(3);
    let preempted = EvictionCause::Preempted { by: instance(4) };
    let moved = EvictionCause::Moved { to: machine, why: MoveReason::Fits { task: instance(5) } };
    vec![
        EventKind::Submit { cause: PendingCause::Failed },
        EventKind::Submit { cause: PendingCause::Lost },
        EventKind::Submit { cause: PendingCause::StartLost { tries: 4 } },
        EventKind::Submit { cause: PendingCause::Finished },
        EventKind::Submit { cause: PendingCause::Evicted(preempted) },
        EventKind::Schedule { machine, alloc: None },
        EventKind::Evict { cause: preempted },
        EventKind::Evict { cause: EvictionCause::OutOfResources },
        EventKind::Evict { cause: EvictionCause::MachineFailure },
        EventKind::Evict { cause: EvictionCause::MachineShutdown },
        EventKind::Evict { cause: EvictionCause::Other },
        EventKind::Evict { cause: EvictionCause::Moved { to: machine, why: MoveReason::Empties } },
        EventKind::Stop { why: StopReason::Evict(moved) },
        EventKind::Evict { cause: EvictionCause::GangRestarts { task: TaskIndex(3) } },
        EventKind::Fail { end: ends().pop() },
        EventKind::Start { machine, latency: StartLatency::UNKNOWN },
        EventKind::Start { machine, latency: super::latencies() },
        EventKind::Health { healthy: true, check: None, latency: super::latencies() },
        EventKind::Health {
            healthy: false,
            check: Some("HTTP 503".into()),
            latency: StartLatency::UNKNOWN,
        },
        EventKind::Unready { check: Some("HTTP 503".into()) },
        EventKind::Stop { why: StopReason::Kill(KillReason::User(name("ana"))) },
        EventKind::Stop { why: StopReason::Evict(preempted) },
        EventKind::Suspect,
    ]
}

fn of_machines() -> Vec<EventKind> {
    let attribute = |value: Option<&str>| EventKind::Attribute {
        name: "kernel".to_owned(),
        value: value.map(str::to_owned),
    };
    vec![
        EventKind::MachineAdded,
        EventKind::MachineUpdated { capacity: resources(64_000, 256 << 30, 1 << 40, 0) },
        EventKind::MachineShortage { shortage: Some(shortages()[0]) },
        EventKind::MachineShortage { shortage: Some(shortages()[1]) },
        EventKind::MachineShortage { shortage: None },
        EventKind::MachineReadiness { reason: Some("no program can be executed".to_owned()) },
        EventKind::MachineReadiness { reason: None },
        attribute(Some("6.1")),
        attribute(Some("")),
        attribute(None),
        EventKind::Suspect,
        EventKind::MachineDown,
        EventKind::MachineBack,
        EventKind::MachineDrained { reason: "a new kernel ".repeat(20) },
        EventKind::MachineUndrained,
        EventKind::MachineRemoved { name: name("m3") },
    ]
}

fn of_the_cell() -> Vec<EventKind> {
    vec![
        EventKind::Platform { platform: "x86-64".to_owned(), factor: factor(1_250) },
        EventKind::LogSettings(super::log_settings()),
        EventKind::Reclamation(Reclamation::Baseline),
        EventKind::Packing(PackingPolicy::WorstFit),
        EventKind::NoticeMax(Span::from_secs(60)),
        EventKind::QueueSettings(super::queue_settings()),
        EventKind::QueueWeights { user: name("ana"), weights: super::weights() },
        EventKind::Bootstrapped,
        EventKind::LevelRaised { to: Level(2) },
        EventKind::BackupSaved { index: LogIndex(7) },
    ]
    .into_iter()
    .chain(super::locks::events())
    .chain(super::services::events())
    .chain(super::packages::events())
    .chain(super::secrets::events())
    .chain(super::volumes::events())
    .collect()
}

fn of_rescheduling() -> Vec<EventKind> {
    vec![
        EventKind::ReschedulingStopped { silent: 4, of: 9 },
        EventKind::ReschedulingResumed,
        EventKind::ReschedulingAllowed,
    ]
}

fn of_quota() -> Vec<EventKind> {
    let (user, capability) = (name("ben"), Capability::AdministerJobs);
    let (ending, lasting) = super::grants();
    vec![
        EventKind::QuotaGranted(Arc::new(ending)),
        EventKind::QuotaRevoked(Arc::new(lasting)),
        EventKind::Oversell { band: Band::Mid, percent: 150 },
        EventKind::Metering { on: true },
        EventKind::Metering { on: false },
        EventKind::CapabilityGranted { user, capability },
        EventKind::CapabilityRevoked { user: name("ben"), capability },
    ]
}

fn of_users() -> Vec<EventKind> {
    vec![
        EventKind::UserAdded { user: name("ben"), certificate: certificate() },
        EventKind::UserRevoked { user: name("ben") },
    ]
}

/// A new kind of event does not compile until it has a name here, and then needs an example.
pub(crate) fn kind(event: &Event) -> &'static str {
    match &event.kind {
        EventKind::Submit { .. } => "submit",
        EventKind::Queue => "queue",
        EventKind::Enable => "enable",
        EventKind::Schedule { .. } => "schedule",
        EventKind::Evict { .. } => "evict",
        EventKind::Fail { .. } => "fail",
        EventKind::Finish => "finish",
        EventKind::Kill { .. } => "kill",
        EventKind::Lost { .. } => "lost",
        EventKind::UpdatePending => "update pending",
        EventKind::UpdateRunning => "update running",
        EventKind::UpdateOpened { .. } => "update opened",
        EventKind::LimitsSet { .. } => "limits set",
        EventKind::UpdatePaused { .. } => "update paused",
        EventKind::UpdateResumed { .. } => "update resumed",
        EventKind::UpdateSkipped { .. } => "update skipped",
        EventKind::UpdateFailed { .. } => "update failed",
        EventKind::UpdateUndoing { .. } => "update undoing",
        EventKind::UpdateUndone { .. } => "update undone",
        EventKind::UpdateSucceeded { .. } => "update succeeded",
        EventKind::UpdateClosed { .. } => "update closed",
        EventKind::Drained => "drained",
        EventKind::DrainExpired { .. } => "drain expired",
        EventKind::Start { .. } => "start",
        EventKind::Health { .. } => "health",
        EventKind::Unready { .. } => "unready",
        EventKind::Stop { .. } => "stop",
        EventKind::Suspect => "suspect",
        EventKind::Saved { .. } => "saved",
        EventKind::SaverGivenUp { .. } => "saver given up",
        EventKind::MachineAdded => "machine added",
        EventKind::MachineUpdated { .. } => "machine updated",
        EventKind::MachineShortage { .. } => "machine shortage",
        EventKind::MachineReadiness { .. } => "machine readiness",
        EventKind::Attribute { .. } => "attribute",
        EventKind::MachineDown => "machine down",
        EventKind::MachineBack => "machine back",
        EventKind::MachineDrained { .. } => "machine drained",
        EventKind::MachineUndrained => "machine undrained",
        EventKind::MachineRemoved { .. } => "machine removed",
        EventKind::Platform { .. } => "platform",
        EventKind::LogSettings(_) => "log settings",
        EventKind::Reclamation(_) => "reclamation",
        EventKind::Packing(_) => "packing",
        EventKind::NoticeMax(_) => "notice max",
        EventKind::QueueSettings(_) => "queue settings",
        EventKind::QueueWeights { .. } => "queue weights",
        EventKind::Lock { change: LockChange::Acquired, .. } => "lock acquired",
        EventKind::Lock { change: LockChange::Released, .. } => "lock released",
        EventKind::Lock { change: LockChange::Expired, .. } => "lock expired",
        EventKind::ServiceSet { replaced: false, .. } => "service created",
        EventKind::ServiceSet { replaced: true, .. } => "service replaced",
        EventKind::ServiceDeleted { .. } => "service deleted",
        EventKind::PackageSet { replaced: false, .. } => "package added",
        EventKind::PackageSet { replaced: true, .. } => "package shared",
        EventKind::PackageDeleted { .. } => "package deleted",
        EventKind::SecretSet { .. } => "secret set",
        EventKind::SecretDeleted { .. } => "secret deleted",
        EventKind::SecretRead { .. } => "secret read",
        EventKind::InputsChanged { .. } => "inputs changed",
        EventKind::SecretResealed { .. } => "secret resealed",
        EventKind::VolumeAdded { .. } => "volume added",
        EventKind::VolumeRemoved { .. } => "volume removed",
        EventKind::VolumeClaimed { .. } => "volume claimed",
        EventKind::VolumeReleased { .. } => "volume released",
        EventKind::Bootstrapped => "bootstrapped",
        EventKind::LevelRaised { .. } => "level raised",
        EventKind::BackupSaved { .. } => "backup saved",
        EventKind::MachineUnreachable => "machine unreachable",
        EventKind::ReschedulingStopped { .. } => "rescheduling stopped",
        EventKind::ReschedulingResumed => "rescheduling resumed",
        EventKind::ReschedulingAllowed => "rescheduling allowed",
        EventKind::UserAdded { .. } => "user added",
        EventKind::UserRevoked { .. } => "user revoked",
        EventKind::QuotaGranted(_) => "quota granted",
        EventKind::QuotaRevoked(_) => "quota revoked",
        EventKind::Oversell { .. } => "oversell",
        EventKind::Metering { .. } => "metering",
        EventKind::CapabilityGranted { .. } => "capability granted",
        EventKind::CapabilityRevoked { .. } => "capability revoked",
        EventKind::CapabilityUsed { .. } => "capability used",
        EventKind::ExecStarted { .. } => "exec started",
        EventKind::ExecEnded { .. } => "exec ended",
        EventKind::TokenIssued { .. } => "token issued",
        EventKind::ReplicaTokenIssued { .. } => "replica token issued",
        EventKind::ReplicaJoined { .. } => "replica joined",
        EventKind::MachineEnrolled { .. } => "machine enrolled",
        EventKind::MachineRenewed { .. } => "machine renewed",
        EventKind::MachineRevoked { .. } => "machine revoked",
        EventKind::ReplicaAdded { .. } => "replica added",
        EventKind::ReplicaRemoved { .. } => "replica removed",
        EventKind::ReplicaMember { .. } => "replica member",
        EventKind::ReplicaDescribed { .. } => "replica described",
    }
}
