//! Encodes events straight from the cell's own types: the same bytes as the messages' (a property
//! test compares them), without building messages and copying every text.

use event::{
    Actor, EventKind, EvictionCause, KillReason, MoveReason, PendingCause, StopReason, Subject,
};
use model::{
    Certificate, CollectionId, End, FinalUsage, Grant, InstanceId, LockMode, MachineId,
    MachineVolume, Package, PackageReaders, Resources, Service, Shortage, Span, StartLatency,
    StartPart, TaskId, VolumeClaim, VolumeName,
};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::RecordRef;
use crate::duration::{Duration, duration};
use crate::{dimension, read, v1};

impl RecordRef<'_> {
    /// Appends the event's bytes.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        let wire = &mut Wire(buffer);
        wire.number(1, self.index.0);
        wire.number(2, self.sub.into());
        wire.number(3, self.at.0);
        wire.message(4, |wire| actor(wire, self.by));
        wire.message(5, |wire| subject(wire, self.event.subject));
        wire.text(6, self.names.user.as_ref().map_or("", |name| name.as_str()));
        wire.text(7, self.names.job.as_ref().map_or("", |name| name.as_str()));
        wire.text(8, self.names.machine.as_ref().map_or("", |name| name.as_str()));
        kind(wire, &self.event.kind);
        wire.text(35, self.names.reporter.as_ref().map_or("", |name| name.as_str()));
        usage(wire, &self.event.usage);
        let related = self.names.related.as_ref();
        wire.text(41, related.map_or("", |(user, _)| user.as_str()));
        wire.text(42, related.map_or("", |(_, job)| job.as_str()));
    }
}

/// A message that is being written.
struct Wire<'a>(&'a mut Vec<u8>);

impl Wire<'_> {
    /// A number in a oneof or an optional one: written even if it is 0.
    fn given_number(&mut self, tag: u32, value: u64) {
        encode_key(tag, WireType::Varint, self.0);
        encode_varint(value, self.0);
    }

    /// A number, omitted if it is 0.
    fn number(&mut self, tag: u32, value: u64) {
        if value != 0 {
            self.given_number(tag, value);
        }
    }

    /// A text in a oneof or an optional one: written even if it is empty.
    fn given_text(&mut self, tag: u32, text: &str) {
        encode_key(tag, WireType::LengthDelimited, self.0);
        encode_varint(text.len() as u64, self.0);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A text, omitted if it is empty.
    fn text(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.given_text(tag, text);
        }
    }

    /// A message within this one.
    fn message(&mut self, tag: u32, write: impl FnOnce(&mut Wire<'_>)) {
        encode_key(tag, WireType::LengthDelimited, self.0);
        // Most are so short that their length is one byte; the others are moved.
        let place = self.0.len();
        self.0.push(0);
        let start = self.0.len();
        write(&mut Wire(self.0));
        let length = self.0.len() - start;
        let more = encoded_len_varint(length as u64) - 1;
        if more > 0 {
            let end = self.0.len();
            self.0.resize(end + more, 0);
            self.0.copy_within(start..end, start + more);
        }
        let mut bytes = &mut self.0[place..=place + more];
        encode_varint(length as u64, &mut bytes);
    }

    fn nothing(&mut self, tag: u32) {
        self.message(tag, |_| {});
    }
}

/// Where the time of a start went, omitted if nothing is known.
fn start_latency(wire: &mut Wire<'_>, tag: u32, latency: StartLatency) {
    if latency.is_unknown() {
        return;
    }
    wire.message(tag, |wire| {
        for (tag, part) in (1..).zip(StartPart::ALL) {
            if let Some(took) = latency.part(part) {
                wire.message(tag, |wire| span(wire, took));
            }
        }
    });
}

fn span(wire: &mut Wire<'_>, span: Span) {
    let Duration { seconds, nanos } = duration(span);
    wire.number(1, seconds.unsigned_abs());
    wire.number(2, nanos.unsigned_abs().into());
}

fn usage(wire: &mut Wire<'_>, usage: &FinalUsage) {
    if *usage == FinalUsage::UNMEASURED {
        return;
    }
    wire.message(40, |wire| {
        if let Some(time) = usage.cpu_time {
            wire.message(1, |wire| span(wire, time));
        }
        if let Some(peak) = usage.memory_peak {
            wire.given_number(2, read::signed(peak.0).unsigned_abs());
        }
        if let Some(notice) = usage.notice {
            wire.given_number(3, crate::notice::delivery_number(notice).unsigned_abs().into());
        }
    });
}

fn actor(wire: &mut Wire<'_>, actor: &Actor) {
    match actor {
        Actor::User(user) => wire.given_text(1, user.as_str()),
        Actor::Scheduler(name) => wire.given_text(2, name.as_str()),
        Actor::Machine(MachineId(id)) => wire.given_number(3, *id),
        Actor::Master => wire.nothing(4),
    }
}

fn subject(wire: &mut Wire<'_>, subject: Subject) {
    match subject {
        Subject::Cell => wire.nothing(1),
        Subject::Job(CollectionId(id)) => wire.given_number(2, id),
        Subject::Task(id) => wire.message(3, |wire| instance(wire, id)),
        Subject::Machine(MachineId(id)) => wire.given_number(4, id),
    }
}

fn kind(wire: &mut Wire<'_>, kind: &EventKind) {
    match kind {
        EventKind::Submit { cause } => wire.message(9, |wire| pending_cause(wire, *cause)),
        EventKind::Queue => wire.nothing(10),
        EventKind::Enable => wire.nothing(11),
        EventKind::Schedule { machine, alloc } => wire.message(12, |wire| {
            wire.number(1, machine.0);
            if let Some(alloc) = alloc {
                wire.message(2, |wire| instance(wire, *alloc));
            }
        }),
        EventKind::Evict { cause } => wire.message(13, |wire| eviction_cause(wire, *cause)),
        EventKind::Fail { end: None } => wire.nothing(14),
        EventKind::Fail { end: Some(how) } => {
            wire.message(14, |wire| wire.message(1, |wire| end(wire, how)));
        }
        EventKind::Finish => wire.nothing(15),
        EventKind::Kill { why } => wire.message(16, |wire| kill_reason(wire, why)),
        EventKind::Lost { end: how } => wire.message(17, |wire| end(wire, how)),
        EventKind::UpdatePending => wire.nothing(18),
        EventKind::UpdateRunning => wire.nothing(19),
        EventKind::UpdateOpened { from, to, changes } => wire.message(90, |wire| {
            wire.number(1, from.0.into());
            wire.number(2, to.0.into());
            for change in changes.iter() {
                wire.message(3, |wire| {
                    wire.text(1, &change.field);
                    wire.text(2, &change.old);
                    wire.text(3, &change.new);
                });
            }
        }),
        EventKind::LimitsSet { version, from, to, reason } => wire.message(140, |wire| {
            wire.number(1, version.0.into());
            wire.message(2, |wire| cpu_ram(wire, from));
            wire.message(3, |wire| cpu_ram(wire, to));
            wire.text(4, reason);
        }),
        EventKind::UpdatePaused { version } => wire.given_number(91, version.0.into()),
        EventKind::UpdateResumed { version } => wire.given_number(92, version.0.into()),
        EventKind::UpdateSkipped { version, why } => wire.message(93, |wire| {
            wire.number(1, version.0.into());
            wire.number(2, v1::SkipReason::from(*why) as u64);
        }),
        EventKind::UpdateFailed { version, end: how } => wire.message(94, |wire| {
            wire.number(1, version.0.into());
            if let Some(how) = how {
                wire.message(2, |wire| end(wire, how));
            }
        }),
        EventKind::UpdateUndoing { version } => wire.given_number(95, version.0.into()),
        EventKind::UpdateUndone { version } => wire.given_number(96, version.0.into()),
        EventKind::UpdateSucceeded { version, skipped } => wire.message(97, |wire| {
            wire.number(1, version.0.into());
            wire.number(2, (*skipped).into());
        }),
        EventKind::UpdateClosed { version } => wire.given_number(98, version.0.into()),
        EventKind::Drained => wire.nothing(99),
        EventKind::DrainExpired { left } => wire.given_number(100, (*left).into()),
        EventKind::Start { machine, latency } => wire.message(20, |wire| {
            wire.number(1, machine.0);
            start_latency(wire, 2, *latency);
        }),
        EventKind::Health { healthy, check, latency } => wire.message(21, |wire| {
            wire.number(1, u64::from(*healthy));
            wire.text(2, check.as_deref().unwrap_or_default());
            start_latency(wire, 3, *latency);
        }),
        EventKind::Unready { check } => wire.given_text(200, check.as_deref().unwrap_or_default()),
        EventKind::Stop { why } => wire.message(22, |wire| stop_reason(wire, why)),
        EventKind::Saved { machine, attempts } => wire.message(110, |wire| {
            wire.number(1, machine.0);
            wire.number(2, (*attempts).into());
        }),
        EventKind::SaverGivenUp { machine, reason } => wire.message(111, |wire| {
            wire.number(1, machine.0);
            wire.text(2, reason);
        }),
        EventKind::Suspect => wire.nothing(23),
        EventKind::MachineAdded => wire.nothing(24),
        EventKind::MachineUpdated { capacity } => {
            wire.message(25, |wire| wire.message(1, |wire| resources(wire, capacity)));
        }
        EventKind::MachineShortage { shortage } => wire.message(131, |wire| {
            if let Some(shortage) = shortage {
                wire.message(1, |wire| machine_shortage(wire, shortage));
            }
        }),
        EventKind::MachineReadiness { reason } => wire.message(132, |wire| {
            if let Some(reason) = reason {
                wire.given_text(1, reason);
            }
        }),
        EventKind::Attribute { name, value } => wire.message(26, |wire| {
            wire.text(1, name);
            if let Some(value) = value {
                wire.given_text(2, value);
            }
        }),
        EventKind::MachineDown => wire.nothing(27),
        EventKind::MachineUnreachable => wire.nothing(36),
        EventKind::MachineBack => wire.nothing(28),
        EventKind::MachineDrained { reason } => wire.message(29, |wire| wire.text(1, reason)),
        EventKind::MachineUndrained => wire.nothing(30),
        EventKind::MachineRemoved { name } => wire.given_text(31, name.as_str()),
        EventKind::Platform { platform, factor } => wire.message(32, |wire| {
            wire.text(1, platform);
            wire.number(2, factor.milli().into());
        }),
        EventKind::Lock { path, user, session, mode, generation, change } => {
            wire.message(101, |wire| {
                wire.text(1, path.as_str());
                wire.text(2, user.as_str());
                wire.number(3, session.0);
                wire.number(4, u64::from(*mode == LockMode::Shared));
                wire.number(5, generation.0);
                let change = i32::from(v1::LockChange::from(*change));
                wire.number(6, change.unsigned_abs().into());
            });
        }
        EventKind::ServiceSet { service: set, replaced } => wire.message(120, |wire| {
            wire.message(1, |wire| service(wire, set));
            wire.number(2, u64::from(*replaced));
        }),
        EventKind::PackageSet { package: set, replaced } => wire.message(122, |wire| {
            wire.message(1, |wire| package(wire, set));
            wire.number(2, u64::from(*replaced));
        }),
        EventKind::SecretSet { owner, name, version } => {
            secret(wire, 124, owner.as_str(), name.as_str(), *version);
        }
        EventKind::SecretDeleted { owner, name } => {
            secret(wire, 125, owner.as_str(), name.as_str(), 0);
        }
        EventKind::SecretRead { name, version } => wire.message(126, |wire| {
            wire.text(1, name.as_str());
            wire.number(2, (*version).into());
        }),
        EventKind::InputsChanged { what, restarts } => wire.message(191, |wire| {
            wire.text(1, what);
            wire.number(2, u64::from(*restarts));
        }),
        EventKind::SecretResealed { owner, name } => {
            secret(wire, 127, owner.as_str(), name.as_str(), 0);
        }
        EventKind::PackageDeleted { id } => wire.given_text(123, &id.to_string()),
        EventKind::VolumeAdded { volume: set } => wire.message(180, |wire| volume(wire, set)),
        EventKind::VolumeRemoved { volume } => wire.given_text(181, volume.as_str()),
        EventKind::VolumeClaimed { volume, by } => {
            wire.message(182, |wire| claim(wire, volume, by));
        }
        EventKind::VolumeReleased { volume, by } => {
            wire.message(183, |wire| claim(wire, volume, by));
        }
        EventKind::ServiceDeleted { owner, name } => wire.message(121, |wire| {
            wire.text(1, owner.as_str());
            wire.text(2, name.as_str());
        }),
        EventKind::LogSettings(settings) => wire.message(59, |wire| {
            wire.message(1, |wire| span(wire, settings.keep));
            wire.number(2, settings.max.0);
            if let Some(machine) = settings.machine {
                wire.given_number(3, machine.0);
            }
        }),
        EventKind::NoticeMax(most) => wire.message(150, |wire| span(wire, *most)),
        EventKind::Reclamation(setting) => wire.given_text(130, setting.name()),
        EventKind::Packing(policy) => wire.given_text(260, policy.name()),
        EventKind::Bootstrapped => wire.nothing(33),
        EventKind::BackupSaved { index } => wire.given_number(201, index.0),
        EventKind::LevelRaised { to } => wire.message(34, |wire| wire.number(1, to.0.into())),
        EventKind::ReschedulingStopped { silent, of } => wire.message(37, |wire| {
            wire.number(1, (*silent).into());
            wire.number(2, (*of).into());
        }),
        EventKind::ReschedulingResumed => wire.nothing(38),
        EventKind::ReschedulingAllowed => wire.nothing(39),
        EventKind::UserAdded { user, certificate } => wire.message(60, |wire| {
            wire.text(1, user.as_str());
            wire.message(2, |wire| self::certificate(wire, certificate));
        }),
        EventKind::UserRevoked { user } => wire.given_text(61, user.as_str()),
        EventKind::QuotaGranted(granted) => wire.message(50, |wire| grant(wire, granted)),
        EventKind::QuotaRevoked(revoked) => wire.message(51, |wire| grant(wire, revoked)),
        EventKind::Oversell { band, percent } => wire.message(52, |wire| {
            wire.text(1, band.name());
            wire.number(2, (*percent).into());
        }),
        EventKind::QueueSettings(settings) => wire.message(302, |wire| {
            wire.number(1, settings.on.into());
            wire.text(2, settings.poorest.name());
            if let Some(half_life) = settings.half_life {
                wire.message(3, |wire| span(wire, half_life));
            }
            wire.message(4, |wire| span(wire, settings.assumed_runtime));
        }),
        EventKind::QueueWeights { user, weights } => wire.message(303, |wire| {
            wire.text(1, user.as_str());
            wire.message(2, |wire| {
                let tags = 1..;
                tags.zip(weights.each()).for_each(|(tag, (_, weight))| {
                    wire.number(tag, weight.into());
                });
            });
        }),
        EventKind::Metering { on } => wire.given_number(53, u64::from(*on)),
        EventKind::CapabilityGranted { user, capability } => wire.message(54, |wire| {
            wire.text(1, user.as_str());
            wire.text(2, capability.name());
        }),
        EventKind::CapabilityRevoked { user, capability } => wire.message(55, |wire| {
            wire.text(1, user.as_str());
            wire.text(2, capability.name());
        }),
        EventKind::CapabilityUsed { capability } => wire.given_text(56, capability.name()),
        EventKind::ExecStarted { command } => wire.given_text(57, command),
        EventKind::ExecEnded { command, end } => wire.message(58, |wire| {
            wire.text(1, command);
            wire.message(2, |wire| {
                wire.number(1, end.took.0);
                if let Some(status) = end.status {
                    wire.given_number(2, status.into());
                }
            });
        }),
        EventKind::TokenIssued { machine, token, most } => wire.message(80, |wire| {
            wire.text(1, machine.as_str());
            wire.message(2, |wire| certificate(wire, token));
            if let Some(most) = most {
                wire.given_number(27, (*most).into());
            }
        }),
        EventKind::MachineEnrolled { token, certificate } => wire.message(81, |wire| {
            wire.text(1, &token.to_string());
            wire.message(2, |wire| self::certificate(wire, certificate));
        }),
        EventKind::MachineRenewed { certificate } => {
            wire.message(82, |wire| self::certificate(wire, certificate));
        }
        EventKind::MachineRevoked { machine } => wire.given_text(83, machine.as_str()),
        EventKind::ReplicaTokenIssued { replica, token } => wire.message(84, |wire| {
            wire.number(1, replica.0);
            wire.message(2, |wire| certificate(wire, token));
        }),
        EventKind::ReplicaJoined { replica, token } => wire.message(85, |wire| {
            wire.number(1, replica.0);
            wire.text(2, &token.to_string());
        }),
        EventKind::ReplicaAdded { replica, address } => wire.message(70, |wire| {
            wire.number(1, replica.0);
            wire.text(2, address);
        }),
        EventKind::ReplicaRemoved { replica } => wire.given_number(71, replica.0),
        EventKind::ReplicaMember { replica, to } => wire.message(72, |wire| {
            wire.number(1, replica.0);
            wire.number(2, v1::MemberChange::from(*to) as u64);
        }),
        EventKind::ReplicaDescribed { replica, address, level } => wire.message(73, |wire| {
            wire.number(1, replica.0);
            wire.text(2, address);
            wire.number(3, level.0.into());
        }),
    }
}

fn certificate(wire: &mut Wire<'_>, certificate: &Certificate) {
    let Certificate { serial, issued, expires } = certificate;
    wire.text(1, &serial.to_string());
    wire.number(2, issued.0);
    wire.number(3, expires.0);
}

fn grant(wire: &mut Wire<'_>, grant: &Grant) {
    wire.number(1, grant.id.0);
    wire.text(2, grant.user.as_str());
    wire.text(3, grant.band.name());
    wire.message(4, |wire| resources(wire, &grant.amount));
    wire.number(5, grant.from.0);
    if let Some(until) = grant.until {
        wire.given_number(6, until.0);
    }
    wire.text(7, grant.by.as_str());
}

fn instance(wire: &mut Wire<'_>, id: InstanceId) {
    wire.number(1, id.collection.0);
    wire.number(2, id.index.0.into());
    wire.number(3, id.generation.0.into());
}

fn pending_cause(wire: &mut Wire<'_>, cause: PendingCause) {
    match cause {
        PendingCause::Submitted => wire.nothing(1),
        PendingCause::Failed => wire.nothing(2),
        PendingCause::Lost => wire.nothing(3),
        PendingCause::Evicted(cause) => wire.message(4, |wire| eviction_cause(wire, cause)),
        PendingCause::Finished => wire.nothing(5),
        PendingCause::StartLost { tries } => wire.given_number(6, tries.into()),
    }
}

fn eviction_cause(wire: &mut Wire<'_>, cause: EvictionCause) {
    match cause {
        EvictionCause::Preempted { by } => wire.message(1, |wire| instance(wire, by)),
        EvictionCause::OutOfResources => wire.nothing(2),
        EvictionCause::MachineFailure => wire.nothing(3),
        EvictionCause::MachineShutdown => wire.nothing(4),
        EvictionCause::Other => wire.nothing(5),
        EvictionCause::Updated => wire.nothing(6),
        EvictionCause::GangRestarts { task } => wire.given_number(227, task.0.into()),
        EvictionCause::Moved { to, why } => wire.message(87, |wire| task_move(wire, to, why)),
    }
}

fn task_move(wire: &mut Wire<'_>, to: MachineId, why: MoveReason) {
    wire.number(1, to.0);
    match why {
        MoveReason::Fits { task } => wire.message(2, |wire| instance(wire, task)),
        MoveReason::Empties => wire.nothing(3),
    }
}

fn stop_reason(wire: &mut Wire<'_>, reason: &StopReason) {
    match reason {
        StopReason::Kill(why) => wire.message(1, |wire| kill_reason(wire, why)),
        StopReason::Evict(cause) => wire.message(2, |wire| eviction_cause(wire, *cause)),
    }
}

fn kill_reason(wire: &mut Wire<'_>, reason: &KillReason) {
    match reason {
        KillReason::User(user) => wire.given_text(1, user.as_str()),
        KillReason::ParentEnded(CollectionId(id)) => wire.given_number(2, *id),
        KillReason::PredecessorEnded(CollectionId(id)) => wire.given_number(3, *id),
        KillReason::PredecessorFinished(CollectionId(id)) => wire.given_number(160, *id),
        KillReason::CounterpartEnded(task) => wire.message(161, |wire| task_id(wire, *task)),
        KillReason::CounterpartFinished(task) => wire.message(162, |wire| task_id(wire, *task)),
        KillReason::AllocSetEnded(CollectionId(id)) => wire.given_number(4, *id),
        KillReason::Removed => wire.nothing(5),
        KillReason::MachineLeft(machine) => wire.given_text(19, machine.as_str()),
        KillReason::Now(user) => wire.given_text(6, user.as_str()),
        KillReason::GangFailed { task } => wire.given_number(227, task.0.into()),
    }
}

fn task_id(wire: &mut Wire<'_>, task: TaskId) {
    wire.number(1, task.collection.0);
    wire.number(2, task.index.0.into());
}

fn end(wire: &mut Wire<'_>, end: &End) {
    match end {
        End::Exited { code } => wire.given_number(1, (*code).into()),
        End::Signalled { signal } => wire.given_number(2, (*signal).into()),
        End::OutOfMemory { limit, peak } => wire.message(3, |wire| {
            wire.quantity(1, limit.0);
            wire.quantity(2, peak.0);
        }),
        End::NotStarted { reason } => wire.given_text(4, reason),
        End::Unhealthy { reason } => wire.given_text(5, reason),
        End::Stopped => wire.nothing(6),
        End::Lost { reason } => wire.given_text(7, reason),
        End::BrokeRule { reason } => wire.given_text(8, reason),
        End::OutOfResources { reason } => wire.given_text(9, reason),
        End::OverRuntime { most } => wire.message(150, |wire| span(wire, *most)),
    }
}

fn machine_shortage(wire: &mut Wire<'_>, shortage: &Shortage) {
    wire.number(1, dimension::number(shortage.dimension).unsigned_abs().into());
    wire.number(2, shortage.persists().into());
}

fn cpu_ram(wire: &mut Wire<'_>, amount: &spec::CpuRam) {
    wire.quantity(1, amount.cpu.0);
    wire.quantity(2, amount.ram.0);
}

fn resources(wire: &mut Wire<'_>, resources: &Resources) {
    wire.quantity(1, resources.cpu.0);
    wire.quantity(2, resources.ram.0);
    wire.quantity(3, resources.disk.0);
    wire.quantity(4, resources.disk_rate.0);
}

impl Wire<'_> {
    /// A quantity, signed in the format; see [`read::signed`].
    fn quantity(&mut self, tag: u32, amount: u64) {
        // It is not negative, and so has the same encoding either way.
        self.number(tag, read::signed(amount).unsigned_abs());
    }
}

fn secret(wire: &mut Wire<'_>, field: u32, owner: &str, name: &str, version: u32) {
    wire.message(field, |wire| {
        wire.text(1, owner);
        wire.text(2, name);
        wire.number(3, version.into());
    });
}

fn volume(wire: &mut Wire<'_>, volume: &MachineVolume) {
    wire.text(1, volume.name.as_str());
    wire.text(2, volume.path.as_str());
    wire.number(3, volume.size.map_or(0, |size| size.0));
    for (key, value) in &volume.labels {
        wire.message(4, |wire| {
            wire.text(1, key);
            wire.text(2, value);
        });
    }
    wire.text(5, volume.sharing.name());
}

fn claim(wire: &mut Wire<'_>, volume: &VolumeName, by: &VolumeClaim) {
    wire.text(1, volume.as_str());
    wire.message(2, |wire| {
        wire.text(1, by.user.as_str());
        wire.text(2, by.job.as_str());
        wire.number(3, by.index.0.into());
        wire.text(4, by.at.as_str());
    });
}

fn package(wire: &mut Wire<'_>, package: &Package) {
    wire.text(1, &package.id.to_string());
    wire.text(2, &package.digest.to_string());
    wire.number(3, crate::package::kind_number(package.kind).unsigned_abs().into());
    wire.number(4, read::signed(package.stored.0).unsigned_abs());
    wire.number(5, read::signed(package.unpacked.0).unsigned_abs());
    wire.number(6, package.entries);
    match &package.readers {
        PackageReaders::Users(users) => {
            for user in users {
                wire.given_text(7, user.as_str());
            }
        }
        PackageReaders::Everyone => wire.number(8, 1),
    }
    for architecture in &package.architectures {
        wire.given_text(9, architecture.as_str());
    }
}

fn service(wire: &mut Wire<'_>, service: &Service) {
    wire.text(1, service.owner.as_str());
    wire.text(2, service.name.as_str());
    wire.text(3, service.port.as_str());
    wire.text(4, &service.labels.to_string());
    for user in &service.users {
        wire.given_text(5, user.as_str());
    }
}
