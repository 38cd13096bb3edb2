//! Users' changes, as the log and requests contain them: `log.proto`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{At, Fault, Malformed, read, services};
use cell::{
    AcceptVolume, AddMachine, AddReplica, AddUser, CloseLockSession, DeletePackage, DeleteSecret,
    DeleteService, DrainMachine, EndSaver, ForgetJob, GrantQuota, IssueReplicaToken, IssueToken,
    Kill, MeterQuota, Mutation, Oversell, RecordBackup, RecordExec, ReleaseVolume, RemoveMachine,
    RemoveReplica, RemoveVolume, RenewLockSession, ResumeRescheduling, RevokeMachine, RevokeQuota,
    RevokeUser, SetAttributes, SetCapability, SetLogs, SetNoticeMax, SetPackage, SetPacking,
    SetPlatform, SetQueuePolicy, SetQueueWeight, SetReclamation, SetSecret, SetService, SetVolume,
    UndrainMachine, UseCapability,
};
use model::{CollectionId, GrantId, LockSessionId, LogIndex, ReplicaId, Time};

use crate::{credential, locks, v1};
use v1::op;
use v1::op::request::Mutation as MutationMessage;

impl From<&Mutation> for MutationMessage {
    fn from(mutation: &Mutation) -> Self {
        match mutation {
            Mutation::Submit(spec) => Self::Submit(spec.as_ref().into()),
            Mutation::Kill(Kill { owner, job, tasks, now }) => Self::Kill(op::Kill {
                owner: owner.to_string(),
                job: job.to_string(),
                tasks: Some(tasks.into()),
                now: *now,
            }),
            Mutation::ForgetJob(ForgetJob { owner, job }) => {
                Self::ForgetJob(op::ForgetJob { owner: owner.to_string(), job: job.to_string() })
            }
            Mutation::AddMachine(AddMachine { name, address }) => {
                Self::AddMachine(op::AddMachine {
                    name: name.to_string(),
                    address: address.clone(),
                })
            }
            Mutation::UpdateJob(update) => Self::UpdateJob(update.into()),
            Mutation::ResizeJob(resize) => Self::ResizeJob(resize.into()),
            Mutation::RestartJob(restart) => Self::RestartJob(restart.into()),
            Mutation::SetLimits(set) => Self::SetLimits(set.into()),
            Mutation::MoveTask(moved) => Self::MoveTask(moved.into()),
            Mutation::ControlUpdate(control) => Self::ControlUpdate(control.into()),
            Mutation::DrainMachine(DrainMachine { machine, reason, deadline, force }) => {
                Self::DrainMachine(op::DrainMachine {
                    machine: machine.to_string(),
                    reason: reason.clone(),
                    deadline: deadline.map(|deadline| deadline.0),
                    force: *force,
                })
            }
            Mutation::UndrainMachine(UndrainMachine { machine }) => {
                Self::UndrainMachine(op::UndrainMachine { machine: machine.to_string() })
            }
            Mutation::RemoveMachine(RemoveMachine { machine, force }) => {
                let (machine, force) = (machine.to_string(), *force);
                Self::RemoveMachine(op::RemoveMachine { machine, force })
            }
            Mutation::SetAttributes(SetAttributes { machine, changes }) => {
                let set = |(name, value): (&String, &Option<String>)| {
                    value.as_ref().map(|value| (name.clone(), value.clone()))
                };
                let unset = changes.iter().filter(|(_, value)| value.is_none());
                Self::SetAttributes(op::SetAttributes {
                    machine: machine.to_string(),
                    set: changes.iter().filter_map(set).collect(),
                    unset: unset.map(|(name, _)| name.clone()).collect(),
                })
            }
            Mutation::SetVolume(SetVolume { machine, volume }) => Self::SetVolume(op::SetVolume {
                machine: machine.to_string(),
                volume: Some((&**volume).into()),
            }),
            Mutation::RemoveVolume(RemoveVolume { machine, volume, force }) => {
                let (machine, volume) = (machine.to_string(), volume.to_string());
                Self::RemoveVolume(op::RemoveVolume { machine, volume, force: *force })
            }
            Mutation::AcceptVolume(AcceptVolume { machine, volume }) => {
                let (machine, volume) = (machine.to_string(), volume.to_string());
                Self::AcceptVolume(op::AcceptVolume { machine, volume })
            }
            Mutation::ReleaseVolume(ReleaseVolume { machine, volume }) => {
                let (machine, volume) = (machine.to_string(), volume.to_string());
                Self::ReleaseVolume(op::ReleaseVolume { machine, volume })
            }
            Mutation::SetPlatform(SetPlatform { platform, factor }) => {
                Self::SetPlatform(op::SetPlatform {
                    platform: platform.clone(),
                    factor_milli: factor.milli(),
                })
            }
            Mutation::SetLogs(SetLogs(settings)) => Self::SetLogs(settings.into()),
            Mutation::SetNoticeMax(SetNoticeMax(most)) => Self::SetNoticeMax(api::duration(*most)),
            Mutation::SetPacking(SetPacking(policy)) => Self::SetPacking(policy.to_string()),
            Mutation::SetQueuePolicy(SetQueuePolicy(settings)) => {
                Self::SetQueuePolicy(settings.into())
            }
            Mutation::SetQueueWeight(SetQueueWeight { user, weights }) => {
                Self::SetQueueWeight(api::queue_settings::user_weights(user, weights))
            }
            Mutation::SetReclamation(SetReclamation(setting)) => {
                Self::SetReclamation(setting.to_string())
            }
            Mutation::AddUser(AddUser { user, serial, validity }) => Self::AddUser(op::AddUser {
                user: user.to_string(),
                serial: serial.to_string(),
                validity: Some(api::duration(*validity)),
            }),
            Mutation::RevokeUser(RevokeUser { user }) => {
                Self::RevokeUser(op::RevokeUser { user: user.to_string() })
            }
            Mutation::ResumeRescheduling(ResumeRescheduling) => {
                Self::ResumeRescheduling(v1::Nothing {})
            }
            Mutation::GrantQuota(GrantQuota { user, band, amount, from, until }) => {
                Self::GrantQuota(v1::GrantQuota {
                    user: user.to_string(),
                    band: band.to_string(),
                    amount: Some(amount.into()),
                    from: from.map(|from| from.0),
                    until: until.map(|until| until.0),
                })
            }
            Mutation::RevokeQuota(RevokeQuota { grant }) => Self::RevokeQuota(grant.0),
            Mutation::Oversell(Oversell { band, percent }) => {
                Self::Oversell(v1::Oversell { band: band.to_string(), percent: *percent })
            }
            Mutation::MeterQuota(MeterQuota { on }) => Self::MeterQuota(*on),
            Mutation::UseCapability(UseCapability { capability, collection }) => {
                let (capability, collection) = (capability.to_string(), collection.0);
                Self::UseCapability(op::UseCapability { capability, collection })
            }
            Mutation::EndSaver(EndSaver { machine, instance }) => Self::EndSaver(op::EndSaver {
                machine: machine.to_string(),
                instance: Some((*instance).into()),
            }),
            Mutation::RecordBackup(RecordBackup { index }) => Self::RecordBackup(index.0),
            Mutation::RecordExec(RecordExec { instance, command, end }) => {
                Self::RecordExec(op::RecordExec {
                    instance: Some((*instance).into()),
                    command: command.clone(),
                    end: end.map(Into::into),
                })
            }
            Mutation::SetCapability(SetCapability { user, capability, granted }) => {
                Self::SetCapability(v1::SetCapability {
                    user: user.to_string(),
                    capability: capability.to_string(),
                    granted: *granted,
                })
            }
            Mutation::IssueToken(IssueToken { machine, serial, validity, most }) => {
                Self::IssueToken(v1::IssueToken {
                    machine: machine.to_string(),
                    serial: serial.to_string(),
                    validity: Some(api::duration(*validity)),
                    most: *most,
                })
            }
            Mutation::IssueReplicaToken(IssueReplicaToken { replica, serial, validity }) => {
                Self::IssueReplicaToken(v1::IssueReplicaToken {
                    replica: replica.0,
                    serial: serial.to_string(),
                    validity: Some(api::duration(*validity)),
                })
            }
            Mutation::RevokeMachine(RevokeMachine { machine }) => {
                Self::RevokeMachine(machine.to_string())
            }
            Mutation::AddReplica(AddReplica { address }) => {
                Self::AddReplica(op::AddReplica { address: address.clone() })
            }
            Mutation::RemoveReplica(RemoveReplica { replica }) => Self::RemoveReplica(replica.0),
            Mutation::OpenLockSession(open) => {
                Self::OpenLockSession(locks::open_session_message(open))
            }
            Mutation::RenewLockSession(RenewLockSession { session }) => {
                Self::RenewLockSession(session.0)
            }
            Mutation::CloseLockSession(CloseLockSession { session }) => {
                Self::CloseLockSession(session.0)
            }
            Mutation::WriteFile(write) => Self::WriteFile(locks::write_message(write)),
            Mutation::DeleteFile(delete) => Self::DeleteFile(locks::delete_message(delete)),
            Mutation::AcquireLock(acquire) => Self::AcquireLock(locks::acquire_message(acquire)),
            Mutation::ReleaseLock(release) => Self::ReleaseLock(locks::release_message(release)),
            Mutation::SetService(SetService(service)) => Self::SetService(service.as_ref().into()),
            Mutation::SetPackage(SetPackage(package)) => Self::SetPackage(package.as_ref().into()),
            Mutation::DeletePackage(DeletePackage(id)) => Self::DeletePackage(id.to_string()),
            Mutation::SetSecret(SetSecret { name, sealed }) => {
                let (name, sealed) = (name.to_string(), Some(sealed.into()));
                Self::SetSecret(op::SetSecret { name, sealed })
            }
            Mutation::DeleteSecret(DeleteSecret(name)) => Self::DeleteSecret(name.to_string()),
            Mutation::ResealSecret(reseal) => Self::ResealSecret(crate::secrets::resealed(reseal)),
            Mutation::DeleteService(DeleteService { owner, name }) => {
                Self::DeleteService(services::name(owner, name))
            }
        }
    }
}

impl TryFrom<MutationMessage> for Mutation {
    type Error = Malformed;

    fn try_from(mutation: MutationMessage) -> Result<Self, Malformed> {
        Ok(match mutation {
            MutationMessage::Submit(spec) => {
                Self::Submit(Arc::new(spec.try_into().field("submit")?))
            }
            MutationMessage::Kill(kill) => Self::Kill(Kill {
                owner: read::name(&kill.owner, "owner").field("kill")?,
                job: read::name(&kill.job, "job").field("kill")?,
                tasks: read::message(kill.tasks, "tasks").field("kill")?,
                now: kill.now,
            }),
            MutationMessage::ForgetJob(forget) => Self::ForgetJob(ForgetJob {
                owner: read::name(&forget.owner, "owner").field("forgetJob")?,
                job: read::name(&forget.job, "job").field("forgetJob")?,
            }),
            MutationMessage::AddMachine(add) => Self::AddMachine(AddMachine {
                name: read::name(&add.name, "name").field("addMachine")?,
                address: add.address,
            }),
            MutationMessage::DrainMachine(drain) => Self::DrainMachine(DrainMachine {
                machine: read::name(&drain.machine, "machine").field("drainMachine")?,
                reason: drain.reason,
                deadline: drain.deadline.map(Time),
                force: drain.force,
            }),
            MutationMessage::UpdateJob(update) => {
                Self::UpdateJob(update.try_into().field("updateJob")?)
            }
            MutationMessage::ResizeJob(resize) => {
                Self::ResizeJob(resize.try_into().field("resizeJob")?)
            }
            MutationMessage::RestartJob(restart) => {
                Self::RestartJob(restart.try_into().field("restartJob")?)
            }
            MutationMessage::MoveTask(moved) => Self::MoveTask(moved.try_into().field("moveTask")?),
            MutationMessage::SetLimits(set) => Self::SetLimits(set.try_into().field("setLimits")?),
            MutationMessage::ControlUpdate(control) => {
                Self::ControlUpdate(control.try_into().field("controlUpdate")?)
            }
            MutationMessage::UndrainMachine(undrain) => Self::UndrainMachine(UndrainMachine {
                machine: read::name(&undrain.machine, "machine").field("undrainMachine")?,
            }),
            MutationMessage::RemoveMachine(remove) => Self::RemoveMachine(RemoveMachine {
                machine: read::name(&remove.machine, "machine").field("removeMachine")?,
                force: remove.force,
            }),
            MutationMessage::SetAttributes(set) => Self::SetAttributes(SetAttributes {
                machine: read::name(&set.machine, "machine").field("setAttributes")?,
                changes: changes(set.set, set.unset).field("setAttributes")?,
            }),
            MutationMessage::SetVolume(set) => Self::SetVolume(SetVolume {
                machine: read::name(&set.machine, "machine").field("setVolume")?,
                volume: api::volume::shared(set.volume, "volume").field("setVolume")?,
            }),
            MutationMessage::RemoveVolume(remove) => Self::RemoveVolume(RemoveVolume {
                machine: read::name(&remove.machine, "machine").field("removeVolume")?,
                volume: read::name(&remove.volume, "volume").field("removeVolume")?,
                force: remove.force,
            }),
            MutationMessage::AcceptVolume(accept) => Self::AcceptVolume(AcceptVolume {
                machine: read::name(&accept.machine, "machine").field("acceptVolume")?,
                volume: read::name(&accept.volume, "volume").field("acceptVolume")?,
            }),
            MutationMessage::ReleaseVolume(release) => Self::ReleaseVolume(ReleaseVolume {
                machine: read::name(&release.machine, "machine").field("releaseVolume")?,
                volume: read::name(&release.volume, "volume").field("releaseVolume")?,
            }),
            MutationMessage::SetPlatform(set) => Self::SetPlatform(SetPlatform {
                platform: set.platform,
                factor: read::factor(set.factor_milli).field("factorMilli").field("setPlatform")?,
            }),
            MutationMessage::SetLogs(set) => {
                Self::SetLogs(SetLogs(set.try_into().field("setLogs")?))
            }
            MutationMessage::SetNoticeMax(most) => {
                Self::SetNoticeMax(SetNoticeMax(read::span(Some(most), "setNoticeMax")?))
            }
            MutationMessage::SetPacking(policy) => {
                Self::SetPacking(SetPacking(read::word(&policy, "setPacking")?))
            }
            MutationMessage::SetQueuePolicy(settings) => {
                let settings = settings.try_into().field("setQueuePolicy")?;
                Self::SetQueuePolicy(SetQueuePolicy(settings))
            }
            MutationMessage::SetQueueWeight(read) => {
                let read = api::queue_settings::user_weights_of(&read);
                let (user, weights) = read.field("setQueueWeight")?;
                Self::SetQueueWeight(SetQueueWeight { user, weights })
            }
            MutationMessage::SetReclamation(setting) => {
                Self::SetReclamation(SetReclamation(read::word(&setting, "setReclamation")?))
            }
            MutationMessage::AddUser(add) => Self::AddUser(AddUser {
                user: read::name(&add.user, "user").field("addUser")?,
                serial: read::serial(&add.serial, "serial").field("addUser")?,
                validity: read::span(add.validity, "validity").field("addUser")?,
            }),
            MutationMessage::RevokeUser(revoke) => Self::RevokeUser(RevokeUser {
                user: read::name(&revoke.user, "user").field("revokeUser")?,
            }),
            MutationMessage::ResumeRescheduling(v1::Nothing {}) => {
                Self::ResumeRescheduling(ResumeRescheduling)
            }
            MutationMessage::GrantQuota(grant) => Self::GrantQuota(GrantQuota {
                user: read::name(&grant.user, "user").field("grantQuota")?,
                band: read::band(&grant.band, "band").field("grantQuota")?,
                amount: read::message(grant.amount, "amount").field("grantQuota")?,
                from: grant.from.map(Time),
                until: grant.until.map(Time),
            }),
            MutationMessage::IssueToken(issue) => {
                credential::issue_of(&issue).field("issueToken")?
            }
            MutationMessage::IssueReplicaToken(issue) => {
                credential::issue_replica_of(&issue).field("issueReplicaToken")?
            }
            MutationMessage::RevokeMachine(machine) => Self::RevokeMachine(RevokeMachine {
                machine: read::name(&machine, "revokeMachine")?,
            }),
            MutationMessage::AddReplica(add) => {
                Self::AddReplica(AddReplica { address: add.address })
            }
            MutationMessage::RemoveReplica(id) => {
                Self::RemoveReplica(RemoveReplica { replica: ReplicaId(id) })
            }
            MutationMessage::OpenLockSession(open) => {
                Self::OpenLockSession(locks::open_session(open).field("openLockSession")?)
            }
            MutationMessage::RenewLockSession(id) => {
                Self::RenewLockSession(RenewLockSession { session: LockSessionId(id) })
            }
            MutationMessage::CloseLockSession(id) => {
                Self::CloseLockSession(CloseLockSession { session: LockSessionId(id) })
            }
            MutationMessage::WriteFile(write) => {
                Self::WriteFile(locks::write(write).field("writeFile")?)
            }
            MutationMessage::DeleteFile(delete) => {
                Self::DeleteFile(locks::delete(&delete).field("deleteFile")?)
            }
            MutationMessage::AcquireLock(acquire) => {
                Self::AcquireLock(locks::acquire(&acquire).field("acquireLock")?)
            }
            MutationMessage::ReleaseLock(release) => {
                Self::ReleaseLock(locks::release(&release).field("releaseLock")?)
            }
            MutationMessage::SetService(service) => {
                let service = service.try_into().field("setService")?;
                Self::SetService(SetService(Arc::new(service)))
            }
            MutationMessage::SetPackage(package) => {
                let package = package.try_into().field("setPackage")?;
                Self::SetPackage(SetPackage(Arc::new(package)))
            }
            MutationMessage::SetSecret(set) => Self::SetSecret(SetSecret {
                name: read::name(&set.name, "name").field("setSecret")?,
                sealed: read::message(set.sealed, "sealed").field("setSecret")?,
            }),
            MutationMessage::DeleteSecret(name) => {
                Self::DeleteSecret(DeleteSecret(read::name(&name, "deleteSecret")?))
            }
            MutationMessage::ResealSecret(reseal) => {
                Self::ResealSecret(crate::secrets::reseal(reseal).field("resealSecret")?)
            }
            MutationMessage::DeletePackage(id) => {
                Self::DeletePackage(DeletePackage(api::package::id(&id, "deletePackage")?))
            }
            MutationMessage::DeleteService(name) => {
                let (owner, name) = services::named(&name).field("deleteService")?;
                Self::DeleteService(DeleteService { owner, name })
            }
            MutationMessage::RevokeQuota(id) => {
                Self::RevokeQuota(RevokeQuota { grant: GrantId(id) })
            }
            MutationMessage::Oversell(oversell) => Self::Oversell(Oversell {
                band: read::band(&oversell.band, "band").field("oversell")?,
                percent: oversell.percent,
            }),
            MutationMessage::MeterQuota(on) => Self::MeterQuota(MeterQuota { on }),
            MutationMessage::UseCapability(used) => Self::UseCapability(UseCapability {
                capability: read::word(&used.capability, "capability").field("useCapability")?,
                collection: CollectionId(used.collection),
            }),
            MutationMessage::EndSaver(end) => Self::EndSaver(EndSaver {
                machine: read::name(&end.machine, "machine").field("endSaver")?,
                instance: read::required(end.instance, "instance").field("endSaver")?.into(),
            }),
            MutationMessage::RecordBackup(index) => {
                Self::RecordBackup(RecordBackup { index: LogIndex(index) })
            }
            MutationMessage::RecordExec(record) => Self::RecordExec(RecordExec {
                instance: read::required(record.instance, "instance").field("recordExec")?.into(),
                command: record.command,
                end: read::optional(record.end, "end").field("recordExec")?,
            }),
            MutationMessage::SetCapability(set) => Self::SetCapability(SetCapability {
                user: read::name(&set.user, "user").field("setCapability")?,
                capability: read::word(&set.capability, "capability").field("setCapability")?,
                granted: set.granted,
            }),
        })
    }
}

/// The attributes to set and to clear of a machine; none is in both, or repeated in the latter.
fn changes(
    set: BTreeMap<String, String>,
    unset: Vec<String>,
) -> Result<BTreeMap<String, Option<String>>, Malformed> {
    let mut changes: BTreeMap<_, _> =
        set.into_iter().map(|(name, value)| (name, Some(value))).collect();
    for (position, name) in unset.into_iter().enumerate() {
        if changes.insert(name, None).is_some() {
            return Err(Fault::Twice).element(position).field("unset");
        }
    }
    Ok(changes)
}
