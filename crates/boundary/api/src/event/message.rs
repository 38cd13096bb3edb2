//! Events as messages.

use std::sync::Arc;

use event::{Actor, Event, EventKind, Subject};
use model::{
    Capability, CollectionId, Level, LockMode, LockSessionId, LogIndex, MachineId, MachineVolume,
    ReplicaId, SecretName, Time, UserName, Version, VolumeClaim, VolumeName,
};

use super::{Names, Record};
use crate::error::{At, Fault, Malformed};
use crate::update::skip_reason;
use crate::{locks, read, replica, services, start_latency, v1};
use v1::event_record::actor::Who;
use v1::event_record::subject::What;
use v1::event_record::{self as message, Kind};

const NOTHING: v1::Nothing = v1::Nothing {};

impl From<&Record> for v1::EventRecord {
    fn from(record: &Record) -> Self {
        let text = |name: Option<String>| name.unwrap_or_default();
        let Names { user, job, machine, reporter, related } = &record.names;
        let related = related.as_ref();
        Self {
            index: record.index.0,
            sub_index: record.sub,
            time: record.at.0,
            actor: Some((&record.by).into()),
            subject: Some(record.event.subject.into()),
            user: text(user.as_ref().map(ToString::to_string)),
            job: text(job.as_ref().map(ToString::to_string)),
            machine: text(machine.as_ref().map(ToString::to_string)),
            kind: Some((&record.event.kind).into()),
            reporter: text(reporter.as_ref().map(ToString::to_string)),
            usage: crate::cell::usage(&record.event.usage),
            related_user: text(related.map(|(user, _)| user.to_string())),
            related_job: text(related.map(|(_, job)| job.to_string())),
        }
    }
}

impl TryFrom<v1::EventRecord> for Record {
    type Error = Malformed;

    fn try_from(record: v1::EventRecord) -> Result<Self, Malformed> {
        let subject = read::message(record.subject, "subject")?;
        let kind = record.kind.ok_or(Fault::UnknownKind)?.try_into()?;
        let usage = read::optional(record.usage, "usage")?.unwrap_or_default();
        Ok(Self {
            index: LogIndex(record.index),
            sub: record.sub_index,
            at: Time(record.time),
            by: read::message(record.actor, "actor")?,
            event: Event { subject, kind, usage },
            names: Names {
                user: read::optional_name(&record.user, "user")?,
                job: read::optional_name(&record.job, "job")?,
                machine: read::optional_name(&record.machine, "machine")?,
                reporter: read::optional_name(&record.reporter, "reporter")?,
                related: read::optional_name(&record.related_user, "relatedUser")?
                    .zip(read::optional_name(&record.related_job, "relatedJob")?),
            },
        })
    }
}

impl From<&Actor> for message::Actor {
    fn from(actor: &Actor) -> Self {
        let who = match actor {
            Actor::User(user) => Who::User(user.to_string()),
            Actor::Scheduler(name) => Who::Scheduler(name.to_string()),
            Actor::Machine(id) => Who::Machine(id.0),
            Actor::Master => Who::Master(NOTHING),
        };
        Self { who: Some(who) }
    }
}

impl TryFrom<message::Actor> for Actor {
    type Error = Malformed;

    fn try_from(actor: message::Actor) -> Result<Self, Malformed> {
        Ok(match actor.who.ok_or(Fault::UnknownKind)? {
            Who::User(user) => Self::User(read::name(&user, "user")?),
            Who::Scheduler(name) => Self::Scheduler(read::name(&name, "scheduler")?),
            Who::Machine(id) => Self::Machine(MachineId(id)),
            Who::Master(NOTHING) => Self::Master,
        })
    }
}

impl From<Subject> for message::Subject {
    fn from(subject: Subject) -> Self {
        let what = match subject {
            Subject::Cell => What::Cell(NOTHING),
            Subject::Job(id) => What::Job(id.0),
            Subject::Task(id) => What::Task(id.into()),
            Subject::Machine(id) => What::Machine(id.0),
        };
        Self { what: Some(what) }
    }
}

impl TryFrom<message::Subject> for Subject {
    type Error = Malformed;

    fn try_from(subject: message::Subject) -> Result<Self, Malformed> {
        Ok(match subject.what.ok_or(Fault::UnknownKind)? {
            What::Cell(NOTHING) => Self::Cell,
            What::Job(id) => Self::Job(CollectionId(id)),
            What::Task(id) => Self::Task(id.into()),
            What::Machine(id) => Self::Machine(MachineId(id)),
        })
    }
}

impl From<&EventKind> for Kind {
    fn from(kind: &EventKind) -> Self {
        match kind {
            EventKind::Submit { cause } => Self::Submit(cause.into()),
            EventKind::Queue => Self::Queue(NOTHING),
            EventKind::Enable => Self::Enable(NOTHING),
            EventKind::Schedule { machine, alloc } => {
                let alloc = alloc.map(Into::into);
                Self::Schedule(message::Schedule { machine: machine.0, alloc })
            }
            EventKind::Evict { cause } => Self::Evict(cause.into()),
            EventKind::Fail { end } => {
                Self::Fail(message::Fail { end: end.as_ref().map(Into::into) })
            }
            EventKind::Finish => Self::Finish(NOTHING),
            EventKind::Kill { why } => Self::Kill(why.into()),
            EventKind::Lost { end } => Self::Lost(end.into()),
            EventKind::UpdatePending => Self::UpdatePending(NOTHING),
            EventKind::UpdateRunning => Self::UpdateRunning(NOTHING),
            EventKind::UpdateOpened { from, to, changes } => {
                let changes = changes.iter().map(Into::into).collect();
                Self::UpdateOpened(message::UpdateOpened { from: from.0, to: to.0, changes })
            }
            EventKind::LimitsSet { version, from, to, reason } => {
                Self::LimitsSet(message::LimitsSet {
                    version: version.0,
                    from: Some((*from).into()),
                    to: Some((*to).into()),
                    reason: reason.to_string(),
                })
            }
            EventKind::UpdatePaused { version } => Self::UpdatePaused(version.0),
            EventKind::UpdateResumed { version } => Self::UpdateResumed(version.0),
            EventKind::UpdateSkipped { version, why } => {
                let (version, why) = (version.0, v1::SkipReason::from(*why).into());
                Self::UpdateSkipped(message::UpdateSkipped { version, why })
            }
            EventKind::UpdateFailed { version, end } => {
                let (version, end) = (version.0, end.as_ref().map(Into::into));
                Self::UpdateFailed(message::UpdateFailed { version, end })
            }
            EventKind::UpdateUndoing { version } => Self::UpdateUndoing(version.0),
            EventKind::UpdateUndone { version } => Self::UpdateUndone(version.0),
            EventKind::UpdateSucceeded { version, skipped } => {
                let (version, skipped) = (version.0, *skipped);
                Self::UpdateSucceeded(message::UpdateSucceeded { version, skipped })
            }
            EventKind::UpdateClosed { version } => Self::UpdateClosed(version.0),
            EventKind::Drained => Self::Drained(NOTHING),
            EventKind::DrainExpired { left } => Self::DrainExpired(*left),
            EventKind::Start { machine, latency } => {
                let (machine, latency) = (machine.0, start_latency::message(*latency));
                Self::Start(message::Start { machine, latency })
            }
            EventKind::Health { healthy, check, latency } => {
                let check = check.as_deref().unwrap_or_default().to_owned();
                let (healthy, latency) = (*healthy, start_latency::message(*latency));
                Self::Health(message::HealthChange { healthy, check, latency })
            }
            EventKind::Unready { check } => {
                Self::Unready(check.as_deref().unwrap_or_default().to_owned())
            }
            EventKind::Stop { why } => Self::Stop(why.into()),
            EventKind::Saved { machine, attempts } => {
                Self::Saved(message::Saved { machine: machine.0, attempts: *attempts })
            }
            EventKind::SaverGivenUp { machine, reason } => {
                let (machine, reason) = (machine.0, reason.clone());
                Self::SaverGivenUp(message::SaverGivenUp { machine, reason })
            }
            EventKind::Suspect => Self::Suspect(NOTHING),
            EventKind::MachineAdded => Self::MachineAdded(NOTHING),
            EventKind::MachineUpdated { capacity } => {
                let capacity = Some(capacity.into());
                Self::MachineUpdated(message::MachineUpdated { capacity })
            }
            EventKind::MachineShortage { shortage } => {
                let shortage = shortage.map(Into::into);
                Self::MachineShortage(message::MachineShortage { shortage })
            }
            EventKind::MachineReadiness { reason } => {
                Self::MachineReadiness(message::MachineReadiness { reason: reason.clone() })
            }
            EventKind::Attribute { name, value } => {
                let (name, value) = (name.clone(), value.clone());
                Self::Attribute(message::Attribute { name, value })
            }
            EventKind::MachineDown => Self::MachineDown(NOTHING),
            EventKind::MachineUnreachable => Self::MachineUnreachable(NOTHING),
            EventKind::MachineBack => Self::MachineBack(NOTHING),
            EventKind::MachineDrained { reason } => {
                Self::MachineDrained(message::MachineDrained { reason: reason.clone() })
            }
            EventKind::MachineUndrained => Self::MachineUndrained(NOTHING),
            EventKind::MachineRemoved { name } => Self::MachineRemoved(name.to_string()),
            EventKind::Platform { platform, factor } => {
                let (platform, factor_milli) = (platform.clone(), factor.milli());
                Self::Platform(message::Platform { platform, factor_milli })
            }
            EventKind::Lock { path, user, session, mode, generation, change } => {
                Self::Lock(v1::LockEvent {
                    path: path.to_string(),
                    user: user.to_string(),
                    session: session.0,
                    shared: *mode == LockMode::Shared,
                    generation: generation.0,
                    change: v1::LockChange::from(*change).into(),
                })
            }
            EventKind::ServiceSet { service, replaced } => Self::ServiceSet(v1::ServiceSet {
                service: Some(service.as_ref().into()),
                replaced: *replaced,
            }),
            EventKind::PackageSet { package, replaced } => Self::PackageSet(v1::PackageSet {
                package: Some(package.as_ref().into()),
                replaced: *replaced,
            }),
            EventKind::VolumeAdded { volume } => Self::VolumeAdded((&**volume).into()),
            EventKind::VolumeRemoved { volume } => Self::VolumeRemoved(volume.to_string()),
            EventKind::VolumeClaimed { volume, by } => Self::VolumeClaimed(claim_of(volume, by)),
            EventKind::VolumeReleased { volume, by } => Self::VolumeReleased(claim_of(volume, by)),
            EventKind::PackageDeleted { id } => Self::PackageDeleted(id.to_string()),
            EventKind::SecretSet { owner, name, version } => {
                Self::SecretSet(secret(owner, name, *version))
            }
            EventKind::SecretDeleted { owner, name } => Self::SecretDeleted(secret(owner, name, 0)),
            EventKind::SecretRead { name, version } => {
                Self::SecretRead(message::SecretRead { name: name.to_string(), version: *version })
            }
            EventKind::InputsChanged { what, restarts } => {
                let (what, restarts) = (what.clone(), *restarts);
                Self::InputsChanged(message::InputsChanged { what, restarts })
            }
            EventKind::SecretResealed { owner, name } => {
                Self::SecretResealed(secret(owner, name, 0))
            }
            EventKind::ServiceDeleted { owner, name } => {
                Self::ServiceDeleted(services::name(owner, name))
            }
            EventKind::LogSettings(settings) => Self::LogSettings(settings.into()),
            EventKind::NoticeMax(most) => Self::NoticeMax(crate::duration(*most)),
            EventKind::Reclamation(setting) => Self::Reclamation(setting.to_string()),
            EventKind::Packing(policy) => Self::Packing(policy.to_string()),
            EventKind::Bootstrapped => Self::Bootstrapped(NOTHING),
            EventKind::BackupSaved { index } => Self::BackupSaved(index.0),
            EventKind::LevelRaised { to } => Self::LevelRaised(message::LevelRaised { to: to.0 }),
            EventKind::ReschedulingStopped { silent, of } => {
                let (silent, of) = (*silent, *of);
                Self::ReschedulingStopped(message::ReschedulingStopped { silent, of })
            }
            EventKind::ReschedulingResumed => Self::ReschedulingResumed(NOTHING),
            EventKind::QuotaGranted(grant) => Self::QuotaGranted(grant.as_ref().into()),
            EventKind::QuotaRevoked(grant) => Self::QuotaRevoked(grant.as_ref().into()),
            EventKind::Oversell { band, percent } => {
                Self::Oversell(message::Oversell { band: band.to_string(), percent: *percent })
            }
            EventKind::Metering { on } => Self::Metering(*on),
            EventKind::QueueSettings(settings) => Self::QueueSettings(settings.into()),
            EventKind::QueueWeights { user, weights } => {
                Self::QueueWeights(crate::queue_settings::user_weights(user, weights))
            }
            EventKind::CapabilityGranted { user, capability } => {
                Self::CapabilityGranted(held(user, *capability))
            }
            EventKind::CapabilityRevoked { user, capability } => {
                Self::CapabilityRevoked(held(user, *capability))
            }
            EventKind::CapabilityUsed { capability } => {
                Self::CapabilityUsed(capability.to_string())
            }
            EventKind::ExecStarted { command } => Self::ExecStarted(command.clone()),
            EventKind::ExecEnded { command, end } => Self::ExecEnded(message::ExecEnded {
                command: command.clone(),
                end: Some((*end).into()),
            }),
            EventKind::ReschedulingAllowed => Self::ReschedulingAllowed(NOTHING),
            EventKind::UserAdded { user, certificate } => Self::UserAdded(message::UserAdded {
                user: user.to_string(),
                certificate: Some((*certificate).into()),
            }),
            EventKind::UserRevoked { user } => Self::UserRevoked(user.to_string()),
            EventKind::TokenIssued { machine, token, most } => {
                Self::TokenIssued(message::TokenIssued {
                    machine: machine.to_string(),
                    token: Some((*token).into()),
                    most: *most,
                })
            }
            EventKind::MachineEnrolled { token, certificate } => {
                Self::MachineEnrolled(message::MachineEnrolled {
                    token: token.to_string(),
                    certificate: Some((*certificate).into()),
                })
            }
            EventKind::MachineRenewed { certificate } => {
                Self::MachineRenewed((*certificate).into())
            }
            EventKind::MachineRevoked { machine } => Self::MachineRevoked(machine.to_string()),
            EventKind::ReplicaTokenIssued { replica, token } => {
                let (replica, token) = (replica.0, Some((*token).into()));
                Self::ReplicaTokenIssued(message::ReplicaTokenIssued { replica, token })
            }
            EventKind::ReplicaJoined { replica, token } => {
                let (replica, token) = (replica.0, token.to_string());
                Self::ReplicaJoined(message::ReplicaJoined { replica, token })
            }
            EventKind::ReplicaAdded { replica, address } => {
                let (replica, address) = (replica.0, address.to_string());
                Self::ReplicaAdded(message::ReplicaAdded { replica, address })
            }
            EventKind::ReplicaRemoved { replica } => Self::ReplicaRemoved(replica.0),
            EventKind::ReplicaMember { replica, to } => {
                Self::ReplicaMember(replica::change(*replica, *to))
            }
            EventKind::ReplicaDescribed { replica, address, level } => {
                let (replica, address, level) = (replica.0, address.to_string(), level.0);
                let directory = 0;
                Self::ReplicaDescribed(v1::DescribeReplica { replica, address, level, directory })
            }
        }
    }
}

impl TryFrom<Kind> for EventKind {
    type Error = Malformed;

    fn try_from(kind: Kind) -> Result<Self, Malformed> {
        Ok(match kind {
            Kind::Submit(cause) => Self::Submit { cause: cause.try_into().field("submit")? },
            Kind::Queue(NOTHING) => Self::Queue,
            Kind::Enable(NOTHING) => Self::Enable,
            Kind::Schedule(schedule) => Self::Schedule {
                machine: MachineId(schedule.machine),
                alloc: schedule.alloc.map(Into::into),
            },
            Kind::Evict(cause) => Self::Evict { cause: cause.try_into().field("evict")? },
            Kind::Fail(fail) => Self::Fail { end: read::optional(fail.end, "end").field("fail")? },
            Kind::Finish(NOTHING) => Self::Finish,
            Kind::Kill(why) => Self::Kill { why: why.try_into().field("kill")? },
            Kind::Lost(end) => Self::Lost { end: end.try_into().field("lost")? },
            Kind::UpdatePending(NOTHING) => Self::UpdatePending,
            Kind::UpdateRunning(NOTHING) => Self::UpdateRunning,
            Kind::UpdateOpened(opened) => Self::UpdateOpened {
                from: Version(opened.from),
                to: Version(opened.to),
                changes: opened.changes.into_iter().map(Into::into).collect(),
            },
            Kind::LimitsSet(set) => Self::LimitsSet {
                version: Version(set.version),
                from: read::message(set.from, "from").field("limitsSet")?,
                to: read::message(set.to, "to").field("limitsSet")?,
                reason: set.reason.into(),
            },
            Kind::UpdatePaused(version) => Self::UpdatePaused { version: Version(version) },
            Kind::UpdateResumed(version) => Self::UpdateResumed { version: Version(version) },
            Kind::UpdateSkipped(skipped) => Self::UpdateSkipped {
                version: Version(skipped.version),
                why: skip_reason(skipped.why).field("updateSkipped")?,
            },
            Kind::UpdateFailed(failed) => Self::UpdateFailed {
                version: Version(failed.version),
                end: read::optional(failed.end, "end").field("updateFailed")?,
            },
            Kind::UpdateUndoing(version) => Self::UpdateUndoing { version: Version(version) },
            Kind::UpdateUndone(version) => Self::UpdateUndone { version: Version(version) },
            Kind::UpdateSucceeded(message::UpdateSucceeded { version, skipped }) => {
                Self::UpdateSucceeded { version: Version(version), skipped }
            }
            Kind::UpdateClosed(version) => Self::UpdateClosed { version: Version(version) },
            Kind::Drained(NOTHING) => Self::Drained,
            Kind::DrainExpired(left) => Self::DrainExpired { left },
            Kind::Start(start) => Self::Start {
                machine: MachineId(start.machine),
                latency: start_latency::read(start.latency.as_ref()).field("start")?,
            },
            Kind::Health(change) => {
                let (healthy, check) = (change.healthy, read::check_text(&change.check));
                let latency = start_latency::read(change.latency.as_ref()).field("health")?;
                Self::Health { healthy, check, latency }
            }
            Kind::Unready(check) => Self::Unready { check: read::check_text(&check) },
            Kind::Stop(why) => Self::Stop { why: why.try_into().field("stop")? },
            Kind::Saved(message::Saved { machine, attempts }) => {
                Self::Saved { machine: MachineId(machine), attempts }
            }
            Kind::SaverGivenUp(message::SaverGivenUp { machine, reason }) => {
                Self::SaverGivenUp { machine: MachineId(machine), reason }
            }
            Kind::Suspect(NOTHING) => Self::Suspect,
            Kind::MachineAdded(NOTHING) => Self::MachineAdded,
            Kind::MachineUpdated(updated) => Self::MachineUpdated {
                capacity: read::message(updated.capacity, "capacity").field("machineUpdated")?,
            },
            Kind::MachineShortage(message::MachineShortage { shortage }) => Self::MachineShortage {
                shortage: read::optional(shortage, "shortage").field("machineShortage")?,
            },
            Kind::MachineReadiness(message::MachineReadiness { reason }) => {
                Self::MachineReadiness { reason }
            }
            Kind::Attribute(message::Attribute { name, value }) => Self::Attribute { name, value },
            Kind::MachineDown(NOTHING) => Self::MachineDown,
            Kind::MachineUnreachable(NOTHING) => Self::MachineUnreachable,
            Kind::MachineBack(NOTHING) => Self::MachineBack,
            Kind::MachineDrained(drained) => Self::MachineDrained { reason: drained.reason },
            Kind::MachineUndrained(NOTHING) => Self::MachineUndrained,
            Kind::MachineRemoved(name) => {
                Self::MachineRemoved { name: read::name(&name, "machine_removed")? }
            }
            Kind::Platform(set) => Self::Platform {
                platform: set.platform,
                factor: read::factor(set.factor_milli).field("factorMilli").field("platform")?,
            },
            Kind::Lock(lock) => Self::Lock {
                path: locks::path(&lock.path, "path").field("lock")?,
                user: read::name(&lock.user, "user").field("lock")?,
                session: LockSessionId(lock.session),
                mode: LockMode::shared(lock.shared),
                generation: LogIndex(lock.generation),
                change: locks::change(lock.change).field("lock")?,
            },
            Kind::ServiceSet(set) => Self::ServiceSet {
                service: Arc::new(read::message(set.service, "service").field("serviceSet")?),
                replaced: set.replaced,
            },
            Kind::PackageSet(set) => Self::PackageSet {
                package: Arc::new(read::message(set.package, "package").field("packageSet")?),
                replaced: set.replaced,
            },
            Kind::SecretSet(set) => {
                let (owner, name) = secret_of(&set).field("secretSet")?;
                Self::SecretSet { owner, name, version: set.version }
            }
            Kind::SecretDeleted(deleted) => {
                let (owner, name) = secret_of(&deleted).field("secretDeleted")?;
                Self::SecretDeleted { owner, name }
            }
            Kind::SecretRead(reads) => Self::SecretRead {
                name: read::name(&reads.name, "name").field("secretRead")?,
                version: reads.version,
            },
            Kind::InputsChanged(changed) => {
                Self::InputsChanged { what: changed.what, restarts: changed.restarts }
            }
            Kind::SecretResealed(resealed) => {
                let (owner, name) = secret_of(&resealed).field("secretResealed")?;
                Self::SecretResealed { owner, name }
            }
            Kind::VolumeAdded(volume) => {
                let volume = MachineVolume::try_from(volume).field("volumeAdded")?;
                Self::VolumeAdded { volume: Arc::new(volume) }
            }
            Kind::VolumeRemoved(volume) => {
                Self::VolumeRemoved { volume: read::name(&volume, "volumeRemoved")? }
            }
            Kind::VolumeClaimed(claim) => {
                let (volume, by) = claimed(claim).field("volumeClaimed")?;
                Self::VolumeClaimed { volume, by }
            }
            Kind::VolumeReleased(claim) => {
                let (volume, by) = claimed(claim).field("volumeReleased")?;
                Self::VolumeReleased { volume, by }
            }
            Kind::PackageDeleted(id) => {
                Self::PackageDeleted { id: crate::package::id(&id, "packageDeleted")? }
            }
            Kind::ServiceDeleted(name) => {
                let (owner, name) = services::named(&name).field("serviceDeleted")?;
                Self::ServiceDeleted { owner, name }
            }
            Kind::LogSettings(set) => Self::LogSettings(set.try_into().field("logSettings")?),
            Kind::NoticeMax(most) => Self::NoticeMax(read::span(Some(most), "noticeMax")?),
            Kind::Reclamation(setting) => Self::Reclamation(read::word(&setting, "reclamation")?),
            Kind::Packing(policy) => Self::Packing(read::word(&policy, "packing")?),
            Kind::Bootstrapped(NOTHING) => Self::Bootstrapped,
            Kind::BackupSaved(index) => Self::BackupSaved { index: LogIndex(index) },
            Kind::LevelRaised(raised) => Self::LevelRaised { to: Level(raised.to) },
            Kind::ReschedulingStopped(message::ReschedulingStopped { silent, of }) => {
                Self::ReschedulingStopped { silent, of }
            }
            Kind::ReschedulingResumed(NOTHING) => Self::ReschedulingResumed,
            Kind::ReschedulingAllowed(NOTHING) => Self::ReschedulingAllowed,
            Kind::UserAdded(added) => Self::UserAdded {
                user: read::name(&added.user, "user").field("userAdded")?,
                certificate: read::message(added.certificate, "certificate").field("userAdded")?,
            },
            Kind::UserRevoked(user) => {
                Self::UserRevoked { user: read::name(&user, "userRevoked")? }
            }
            Kind::QuotaGranted(grant) => {
                Self::QuotaGranted(Arc::new(grant.try_into().field("quotaGranted")?))
            }
            Kind::QuotaRevoked(grant) => {
                Self::QuotaRevoked(Arc::new(grant.try_into().field("quotaRevoked")?))
            }
            Kind::Oversell(oversell) => Self::Oversell {
                band: read::band(&oversell.band, "band").field("oversell")?,
                percent: oversell.percent,
            },
            Kind::Metering(on) => Self::Metering { on },
            Kind::QueueSettings(settings) => {
                Self::QueueSettings(settings.try_into().field("queueSettings")?)
            }
            Kind::QueueWeights(read) => {
                let read = crate::queue_settings::user_weights_of(&read);
                let (user, weights) = read.field("queueWeights")?;
                Self::QueueWeights { user, weights }
            }
            Kind::CapabilityGranted(held) => {
                let (user, capability) = held_of(&held).field("capabilityGranted")?;
                Self::CapabilityGranted { user, capability }
            }
            Kind::CapabilityRevoked(held) => {
                let (user, capability) = held_of(&held).field("capabilityRevoked")?;
                Self::CapabilityRevoked { user, capability }
            }
            Kind::CapabilityUsed(capability) => {
                Self::CapabilityUsed { capability: read::word(&capability, "capabilityUsed")? }
            }
            Kind::ExecStarted(command) => Self::ExecStarted { command },
            Kind::ExecEnded(message::ExecEnded { command, end }) => {
                Self::ExecEnded { command, end: read::message(end, "end").field("execEnded")? }
            }
            Kind::TokenIssued(issued) => Self::TokenIssued {
                machine: read::name(&issued.machine, "machine").field("tokenIssued")?,
                token: read::message(issued.token, "token").field("tokenIssued")?,
                most: issued.most,
            },
            Kind::MachineEnrolled(enrolled) => Self::MachineEnrolled {
                token: read::serial(&enrolled.token, "token").field("machineEnrolled")?,
                certificate: read::message(enrolled.certificate, "certificate")
                    .field("machineEnrolled")?,
            },
            Kind::MachineRenewed(certificate) => Self::MachineRenewed {
                certificate: certificate.try_into().field("machineRenewed")?,
            },
            Kind::MachineRevoked(machine) => {
                Self::MachineRevoked { machine: read::name(&machine, "machineRevoked")? }
            }
            Kind::ReplicaTokenIssued(issued) => Self::ReplicaTokenIssued {
                replica: ReplicaId(issued.replica),
                token: read::message(issued.token, "token").field("replicaTokenIssued")?,
            },
            Kind::ReplicaJoined(joined) => Self::ReplicaJoined {
                replica: ReplicaId(joined.replica),
                token: read::serial(&joined.token, "token").field("replicaJoined")?,
            },
            Kind::ReplicaAdded(message::ReplicaAdded { replica, address }) => {
                Self::ReplicaAdded { replica: ReplicaId(replica), address: address.into() }
            }
            Kind::ReplicaRemoved(id) => Self::ReplicaRemoved { replica: ReplicaId(id) },
            Kind::ReplicaMember(change) => {
                let (replica, to) = replica::change_of(&change).field("replicaMember")?;
                Self::ReplicaMember { replica, to }
            }
            Kind::ReplicaDescribed(v1::DescribeReplica { replica, address, level, .. }) => {
                let (replica, level) = (ReplicaId(replica), Level(level));
                Self::ReplicaDescribed { replica, address: address.into(), level }
            }
        })
    }
}

fn held(user: &UserName, capability: Capability) -> message::HeldCapability {
    let (user, capability) = (user.to_string(), capability.to_string());
    message::HeldCapability { user, capability }
}

fn held_of(held: &message::HeldCapability) -> Result<(UserName, Capability), Malformed> {
    Ok((read::name(&held.user, "user")?, read::word(&held.capability, "capability")?))
}

fn secret(owner: &UserName, name: &SecretName, version: u32) -> message::SecretVersionNumber {
    let (user, name) = (owner.to_string(), name.to_string());
    message::SecretVersionNumber { user, name, version }
}

fn secret_of(secret: &message::SecretVersionNumber) -> Result<(UserName, SecretName), Malformed> {
    Ok((read::name(&secret.user, "user")?, read::name(&secret.name, "name")?))
}

fn claim_of(volume: &VolumeName, by: &VolumeClaim) -> v1::VolumeClaimEvent {
    v1::VolumeClaimEvent { volume: volume.to_string(), claim: Some(by.into()) }
}

fn claimed(claim: v1::VolumeClaimEvent) -> Result<(VolumeName, VolumeClaim), Malformed> {
    Ok((read::name(&claim.volume, "volume")?, read::message(claim.claim, "claim")?))
}
