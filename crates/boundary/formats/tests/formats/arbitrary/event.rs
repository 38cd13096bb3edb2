//! Events.

use std::sync::Arc;

use api::event::{Names, Record};
use cell::{
    Actor, Event, EventKind, EvictionCause, ExecEnd, KillReason, LockChange, MoveReason,
    PendingCause, StopReason, Subject,
};
use model::{
    Capability, CollectionId, Generation, Level, LockSessionId, LogIndex, MachineId, PackingPolicy,
    Reclamation, SchedulerName, Sequencer, Span, StartLatency, TaskId, TaskIndex, Time,
};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::{
    band, certificate, collection, described_package, end, factor, grant, instance, latency,
    machine, member_change, name, package, path, replica, resources, serial, service, shortage,
    usage,
};

fn eviction_cause() -> impl Strategy<Value = EvictionCause> {
    prop_oneof![
        instance().prop_map(|by| EvictionCause::Preempted { by }),
        Just(EvictionCause::OutOfResources),
        Just(EvictionCause::MachineFailure),
        Just(EvictionCause::MachineShutdown),
        Just(EvictionCause::Other),
        (any::<u64>(), instance()).prop_map(|(to, task)| {
            EvictionCause::Moved { to: MachineId(to), why: MoveReason::Fits { task } }
        }),
        any::<u64>().prop_map(|to| {
            EvictionCause::Moved { to: MachineId(to), why: MoveReason::Empties }
        }),
        any::<u32>().prop_map(|task| EvictionCause::GangRestarts { task: TaskIndex(task) }),
    ]
}

fn pending_cause() -> impl Strategy<Value = PendingCause> {
    prop_oneof![
        Just(PendingCause::Submitted),
        Just(PendingCause::Failed),
        Just(PendingCause::Lost),
        Just(PendingCause::Finished),
        any::<u32>().prop_map(|tries| PendingCause::StartLost { tries }),
        eviction_cause().prop_map(PendingCause::Evicted),
    ]
}

fn kill_reason() -> impl Strategy<Value = KillReason> {
    prop_oneof![
        name().prop_map(KillReason::User),
        name().prop_map(KillReason::Now),
        name().prop_map(KillReason::MachineLeft),
        any::<u32>().prop_map(|task| KillReason::GangFailed { task: TaskIndex(task) }),
        collection().prop_map(KillReason::ParentEnded),
        collection().prop_map(KillReason::PredecessorEnded),
        collection().prop_map(KillReason::PredecessorFinished),
        instance().prop_map(|id| KillReason::CounterpartEnded(id.task())),
        instance().prop_map(|id| KillReason::CounterpartFinished(id.task())),
        collection().prop_map(KillReason::AllocSetEnded),
    ]
}

fn stop_reason() -> impl Strategy<Value = StopReason> {
    prop_oneof![
        kill_reason().prop_map(StopReason::Kill),
        eviction_cause().prop_map(StopReason::Evict),
    ]
}

fn subject() -> impl Strategy<Value = Subject> {
    prop_oneof![
        Just(Subject::Cell),
        collection().prop_map(Subject::Job),
        instance().prop_map(Subject::Task),
        machine().prop_map(Subject::Machine),
    ]
}

fn actor() -> impl Strategy<Value = Actor> {
    prop_oneof![
        name().prop_map(Actor::User),
        Just(Actor::Scheduler(SchedulerName::main())),
        machine().prop_map(Actor::Machine),
        Just(Actor::Master),
    ]
}

fn step_of_a_life_cycle() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        pending_cause().prop_map(|cause| EventKind::Submit { cause }),
        Just(EventKind::Queue),
        Just(EventKind::Enable),
        (machine(), of(instance()))
            .prop_map(|(machine, alloc)| EventKind::Schedule { machine, alloc }),
        eviction_cause().prop_map(|cause| EventKind::Evict { cause }),
        of(end()).prop_map(|end| EventKind::Fail { end }),
        Just(EventKind::Finish),
        kill_reason().prop_map(|why| EventKind::Kill { why }),
        end().prop_map(|end| EventKind::Lost { end }),
        Just(EventKind::UpdatePending),
        Just(EventKind::UpdateRunning),
        machine().prop_map(|machine| {
            let drawn = u32::try_from(machine.0 & 0xFFFF).unwrap_or_default();
            let of = TaskId { collection: CollectionId(1), index: TaskIndex(drawn) };
            EventKind::Start { machine, latency: latency(of.generation(Generation(0))) }
        }),
        (any::<bool>(), of(".{1,9}")).prop_map(|(healthy, check)| {
            let check = check.map(Into::into);
            EventKind::Health { healthy, check, latency: StartLatency::UNKNOWN }
        }),
        of(".{1,9}").prop_map(|check| EventKind::Unready { check: check.map(Into::into) }),
        stop_reason().prop_map(|why| EventKind::Stop { why }),
        Just(EventKind::Suspect),
        (machine(), any::<u32>())
            .prop_map(|(machine, attempts)| EventKind::Saved { machine, attempts }),
        (machine(), any::<String>())
            .prop_map(|(machine, reason)| EventKind::SaverGivenUp { machine, reason }),
    ]
}

fn of_quota() -> impl Strategy<Value = EventKind> {
    let capability = || select(&Capability::ALL[..]);
    prop_oneof![
        grant().prop_map(|grant| EventKind::QuotaGranted(Arc::new(grant))),
        grant().prop_map(|grant| EventKind::QuotaRevoked(Arc::new(grant))),
        (band(), any::<u32>()).prop_map(|(band, percent)| EventKind::Oversell { band, percent }),
        any::<bool>().prop_map(|on| EventKind::Metering { on }),
        (name(), capability())
            .prop_map(|(user, capability)| EventKind::CapabilityGranted { user, capability }),
        (name(), capability())
            .prop_map(|(user, capability)| EventKind::CapabilityRevoked { user, capability }),
        capability().prop_map(|capability| EventKind::CapabilityUsed { capability }),
        any::<String>().prop_map(|command| EventKind::ExecStarted { command }),
        (any::<String>(), any::<u64>(), any::<Option<u8>>()).prop_map(|(command, took, status)| {
            let end = ExecEnd { took: Span(took), status };
            EventKind::ExecEnded { command, end }
        }),
    ]
}

fn kind() -> impl Strategy<Value = EventKind> {
    // Long enough for lengths of two and three bytes.
    let text = || prop_oneof![3 => any::<String>(), 1 => "[a-z]{120,140}|[a-z]{16380,16390}"];
    let change = select(vec![LockChange::Acquired, LockChange::Released, LockChange::Expired]);
    let machines_and_cell = prop_oneof![
        Just(EventKind::MachineAdded),
        resources().prop_map(|capacity| EventKind::MachineUpdated { capacity }),
        of(shortage()).prop_map(|shortage| EventKind::MachineShortage { shortage }),
        of(text()).prop_map(|reason| EventKind::MachineReadiness { reason }),
        (text(), of(text())).prop_map(|(name, value)| EventKind::Attribute { name, value }),
        Just(EventKind::MachineDown),
        Just(EventKind::MachineBack),
        text().prop_map(|reason| EventKind::MachineDrained { reason }),
        Just(EventKind::MachineUndrained),
        name().prop_map(|name| EventKind::MachineRemoved { name }),
        (text(), factor()).prop_map(|(platform, factor)| EventKind::Platform { platform, factor }),
        (generator::sequencer(path()), name(), any::<u64>(), change).prop_map(
            |(Sequencer { path, mode, generation }, user, session, change)| EventKind::Lock {
                path,
                user,
                session: LockSessionId(session),
                mode,
                generation,
                change,
            }
        ),
        (service(), any::<bool>())
            .prop_map(|(service, replaced)| EventKind::ServiceSet { service, replaced }),
        (name(), name()).prop_map(|(owner, name)| EventKind::ServiceDeleted { owner, name }),
        (described_package(), any::<bool>())
            .prop_map(|(package, replaced)| EventKind::PackageSet { package, replaced }),
        package().prop_map(|id| EventKind::PackageDeleted { id }),
        (name(), name(), any::<u32>()).prop_map(|(owner, name, version)| EventKind::SecretSet {
            owner,
            name,
            version
        }),
        (name(), name()).prop_map(|(owner, name)| EventKind::SecretDeleted { owner, name }),
        (name(), any::<u32>()).prop_map(|(name, version)| EventKind::SecretRead { name, version }),
        (name(), name()).prop_map(|(owner, name)| EventKind::SecretResealed { owner, name }),
        ("[ -~]{0,20}", any::<bool>())
            .prop_map(|(what, restarts)| EventKind::InputsChanged { what, restarts }),
        Just(EventKind::Bootstrapped),
        any::<u32>().prop_map(|to| EventKind::LevelRaised { to: Level(to) }),
        any::<u64>().prop_map(|index| EventKind::BackupSaved { index: LogIndex(index) }),
        Just(EventKind::MachineUnreachable),
        any::<(u32, u32)>().prop_map(|(silent, of)| EventKind::ReschedulingStopped { silent, of }),
        Just(EventKind::ReschedulingResumed),
        select(&Reclamation::ALL[..]).prop_map(EventKind::Reclamation),
        select(&PackingPolicy::ALL[..]).prop_map(EventKind::Packing),
        Just(EventKind::ReschedulingAllowed),
        (name(), certificate())
            .prop_map(|(user, certificate)| EventKind::UserAdded { user, certificate }),
        name().prop_map(|user| EventKind::UserRevoked { user }),
    ];
    let of_replicas = prop_oneof![
        (replica(), text()).prop_map(|(replica, address)| {
            EventKind::ReplicaAdded { replica, address: address.into() }
        }),
        replica().prop_map(|replica| EventKind::ReplicaRemoved { replica }),
        (replica(), member_change())
            .prop_map(|(replica, to)| EventKind::ReplicaMember { replica, to }),
        (replica(), text(), any::<u32>()).prop_map(|(replica, address, level)| {
            EventKind::ReplicaDescribed { replica, address: address.into(), level: Level(level) }
        }),
    ];
    let of_enrolment = prop_oneof![
        (replica(), certificate())
            .prop_map(|(replica, token)| EventKind::ReplicaTokenIssued { replica, token }),
        (replica(), serial())
            .prop_map(|(replica, token)| EventKind::ReplicaJoined { replica, token }),
        (name(), certificate(), of(any::<u32>()))
            .prop_map(|(machine, token, most)| EventKind::TokenIssued { machine, token, most }),
        (serial(), certificate())
            .prop_map(|(token, certificate)| { EventKind::MachineEnrolled { token, certificate } }),
        certificate().prop_map(|certificate| EventKind::MachineRenewed { certificate }),
        name().prop_map(|machine| EventKind::MachineRevoked { machine }),
    ];
    prop_oneof![
        2 => step_of_a_life_cycle(),
        2 => machines_and_cell,
        1 => of_quota(),
        1 => of_replicas,
        1 => of_enrolment
    ]
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let names = (of(name()), of(name()), of(name()), of(name()), of((name(), name())));
    let names = names.prop_map(|(user, job, machine, reporter, related)| Names {
        user,
        job,
        machine,
        reporter,
        related,
    });
    let event = (subject(), kind(), usage()).prop_map(|(subject, kind, usage)| Event {
        subject,
        kind,
        usage,
    });
    (any::<(u64, u32, u64)>(), actor(), event, names).prop_map(
        |((index, sub, at), by, event, names)| Record {
            index: LogIndex(index),
            sub,
            at: Time(at),
            by,
            event,
            names,
        },
    )
}
