//! Events, for those who follow the cell. Life-cycle events have the names of the published traces
//! (trace v3, "event type"); others are named in the same style.

use std::sync::Arc;

use model::{
    Band, Capability, Certificate, CollectionId, End, FilePath, FinalUsage, GcuFactor, Grant,
    InstanceId, JobName, Level, LockMode, LockSessionId, LogIndex, MachineId, MachineName,
    MachineVolume, MemberChange, Package, PackageId, PackingPolicy, QueueSettings, Reclamation,
    ReplicaId, Resources, SchedulerName, SecretName, Serial, Service, ShareWeights, Shortage, Span,
    StartLatency, UserName, Version, VolumeClaim, VolumeName,
};

use spec::{CpuRam, FieldChange, LogSettings};

use crate::lifecycle::Transition;
use crate::{Death, EvictionCause, KillReason, PendingCause, SkipReason, StopReason};

/// The end of a command inside a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecEnd {
    /// How long it took.
    pub took: Span,
    /// Its exit status: 128 plus the signal if one ended it. `None` if it did not end by itself: its
    /// user was disconnected, or the machine did not answer.
    pub status: Option<u8>,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// It was acquired.
    Acquired,
    /// It was released, by itself or with its session.
    Released,
    /// The lease of its session passed.
    Expired,
}

/// One event. Its time, index and actor are those of the operation that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The subject.
    pub subject: Subject,
    /// What happened.
    pub kind: EventKind,
    /// At the end of an instance on its machine, what it used; empty for other events.
    pub usage: FinalUsage,
}

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The cell as a whole.
    Cell,
    /// A job.
    Job(CollectionId),
    /// An incarnation of a task.
    Task(InstanceId),
    /// A machine.
    Machine(MachineId),
}

/// Who caused an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A user, by a request.
    User(UserName),
    /// A scheduler, by an assignment.
    Scheduler(SchedulerName),
    /// A machine, by a report.
    Machine(MachineId),
    /// The master itself.
    Master,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// SUBMIT: it was submitted; for a task also the start of every later incarnation.
    Submit {
        /// Why it is pending.
        cause: PendingCause,
    },
    /// QUEUE: it waits for other jobs.
    Queue,
    /// ENABLE: it waits only for a machine.
    Enable,
    /// SCHEDULE: it was assigned a machine; for a job, the first of its tasks was.
    Schedule {
        /// The machine.
        machine: MachineId,
        /// The alloc on it, if its job runs in an alloc set.
        alloc: Option<InstanceId>,
    },
    /// EVICT: it had to leave its machine.
    Evict {
        /// The cause.
        cause: EvictionCause,
    },
    /// FAIL: its program failed; for a job, without `end`, its tasks did.
    Fail {
        /// How the program ended.
        end: Option<End>,
    },
    /// FINISH: it finished successfully.
    Finish,
    /// KILL: it was killed.
    Kill {
        /// The reason.
        why: KillReason,
    },
    /// LOST: it is gone, and how it ended is not known.
    Lost {
        /// What is known of its end.
        end: End,
    },
    /// `UPDATE_PENDING`: its requirements changed while it was pending.
    UpdatePending,
    /// `UPDATE_RUNNING`: its requirements changed while it had a machine.
    UpdateRunning,
    /// An update of the job was opened.
    UpdateOpened {
        /// The version to which an undo goes back.
        from: Version,
        /// The new version.
        to: Version,
        /// What it changes.
        changes: Arc<[FieldChange]>,
    },
    /// An autoscaler sets the limit of the job's tasks, by an update that is opened.
    LimitsSet {
        /// The version that the update leads to.
        version: Version,
        /// CPU and RAM of the limit before.
        from: CpuRam,
        /// The new ones.
        to: CpuRam,
        /// Why, in words: which recommender, and its numbers.
        reason: Arc<str>,
    },
    /// The update was paused, or pauses because it failed.
    UpdatePaused {
        /// The version that it leads to.
        version: Version,
    },
    /// The update goes on.
    UpdateResumed {
        /// The version that it leads to.
        version: Version,
    },
    /// The update skips the task.
    UpdateSkipped {
        /// The version that it leads to.
        version: Version,
        /// Why.
        why: SkipReason,
    },
    /// The task did not become healthy, and the update has failed.
    UpdateFailed {
        /// The version that it leads to.
        version: Version,
        /// How the task ended; `None` if it was not healthy in time.
        end: Option<End>,
    },
    /// The update is being undone.
    UpdateUndoing {
        /// The version that it led to.
        version: Version,
    },
    /// Every task is back on the last version that succeeded.
    UpdateUndone {
        /// The version that the update led to.
        version: Version,
    },
    /// The update has succeeded.
    UpdateSucceeded {
        /// The version that it led to.
        version: Version,
        /// How many tasks it skipped.
        skipped: u32,
    },
    /// The update can no longer be undone.
    UpdateClosed {
        /// The version that it led to.
        version: Version,
    },
    /// Its program runs on its machine.
    Start {
        /// The machine.
        machine: MachineId,
        /// Where the time went until then, as far as it is known.
        latency: StartLatency,
    },
    /// Its health changed.
    Health {
        /// The new health.
        healthy: bool,
        /// What the check said that changed it, if anything.
        check: Option<Arc<str>>,
        /// If its health check succeeded for the first time, how long that took.
        latency: StartLatency,
    },
    /// It is healthy, and its readiness check fails: clients should not come to it. It is ready again
    /// when it is healthy again.
    Unready {
        /// What the check said, if anything.
        check: Option<Arc<str>>,
    },
    /// It is being stopped, and has been given notice.
    Stop {
        /// The reason.
        why: StopReason,
    },
    /// Its data was saved after its end: its saver exited with 0.
    Saved {
        /// The machine.
        machine: MachineId,
        /// How often its saver was started.
        attempts: u32,
    },
    /// Its data was given up after its end: its saver did not succeed.
    SaverGivenUp {
        /// The machine.
        machine: MachineId,
        /// Why its saver is not tried any more.
        reason: String,
    },
    /// The task crashed, or tasks crashed on the machine, so often lately that it may be to blame.
    Suspect,
    /// A machine joined, or has a new address.
    MachineAdded,
    /// A machine's capacity became known or changed.
    MachineUpdated {
        /// The capacity available to tasks now.
        capacity: Resources,
    },
    /// A machine is short of a resource, lately was, or is no more.
    MachineShortage {
        /// The resource, and whether it goes on; `None` if it is over for a while.
        shortage: Option<Shortage>,
    },
    /// A machine can run no tasks, or can again.
    MachineReadiness {
        /// Why it cannot; `None` if it can.
        reason: Option<String>,
    },
    /// An attribute of a machine changed.
    Attribute {
        /// The attribute.
        name: String,
        /// The new value; `None` if it was removed.
        value: Option<String>,
    },
    /// A machine does not answer; its tasks stay where they are.
    MachineUnreachable,
    /// A machine is down.
    MachineDown,
    /// A machine answers again.
    MachineBack,
    /// A machine is being drained.
    MachineDrained {
        /// The reason; may be empty.
        reason: String,
    },
    /// A machine that is being drained has no task left.
    Drained,
    /// The drain of a machine ended at its deadline although tasks are left.
    DrainExpired {
        /// How many.
        left: u32,
    },
    /// A machine accepts tasks again.
    MachineUndrained,
    /// A machine was removed.
    MachineRemoved {
        /// Its name, which another machine may have now.
        name: MachineName,
    },
    /// The factor of a platform's cores changed.
    Platform {
        /// The platform.
        platform: String,
        /// The new factor.
        factor: GcuFactor,
    },
    /// The settings for the output of tasks changed.
    LogSettings(LogSettings),
    /// The longest notice of tasks was set.
    NoticeMax(Span),
    /// The setting of resource reclamation changed.
    Reclamation(Reclamation),
    /// The packing policy changed.
    Packing(PackingPolicy),
    /// A lock was acquired, or is no longer held.
    Lock {
        /// Its file.
        path: FilePath,
        /// The user of the session.
        user: UserName,
        /// The session.
        session: LockSessionId,
        /// How it was held.
        mode: LockMode,
        /// The generation at which it was acquired.
        generation: LogIndex,
        /// What happened.
        change: LockChange,
    },
    /// A service was set: it is new, or has replaced the one of its name.
    ServiceSet {
        /// The service.
        service: Arc<Service>,
        /// Whether it has replaced another one.
        replaced: bool,
    },
    /// A service was deleted.
    ServiceDeleted {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// A machine was given a volume.
    VolumeAdded {
        /// The volume.
        volume: Arc<MachineVolume>,
    },
    /// A volume was taken from a machine, with its claims.
    VolumeRemoved {
        /// Its name.
        volume: VolumeName,
    },
    /// A task claims a volume of its machine.
    VolumeClaimed {
        /// The volume.
        volume: VolumeName,
        /// By which task, and where it finds it.
        by: VolumeClaim,
    },
    /// A task's claim of a volume ended.
    VolumeReleased {
        /// The volume.
        volume: VolumeName,
        /// Which task had it.
        by: VolumeClaim,
    },
    /// A version of a package was added, or other users may use it.
    PackageSet {
        /// The version, and who may use it.
        package: Arc<Package>,
        /// Whether it existed.
        replaced: bool,
    },
    /// A version of a package was deleted.
    PackageDeleted {
        /// Which.
        id: PackageId,
    },
    /// A secret has a new version.
    SecretSet {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: SecretName,
        /// The number of the version.
        version: u32,
    },
    /// A secret was deleted.
    SecretDeleted {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: SecretName,
    },
    /// A machine reads a version of a secret, for a task that starts there.
    SecretRead {
        /// The name of the secret, which is its job's owner's.
        name: SecretName,
        /// The number of the version.
        version: u32,
    },
    /// A secret or the address of another job has changed since running tasks have read it: they are told, or
    /// restarted.
    InputsChanged {
        /// What has changed, in words: `secret db-password version 3`, `bns.ana/db.port`.
        what: String,
        /// Whether they are restarted.
        restarts: bool,
    },
    /// The versions of a secret were sealed with another key.
    SecretResealed {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: SecretName,
    },
    /// A user was given a certificate.
    UserAdded {
        /// The user.
        user: UserName,
        /// The certificate.
        certificate: Certificate,
    },
    /// Every certificate of a user is revoked.
    UserRevoked {
        /// The user.
        user: UserName,
    },
    /// The cell was bootstrapped.
    Bootstrapped,
    /// A checkpoint of the cell was saved.
    BackupSaved {
        /// The index as of which it was saved.
        index: LogIndex,
    },
    /// The cell's level was raised.
    LevelRaised {
        /// The new level.
        to: Level,
    },
    /// Too many machines are silent at once: machines are no longer marked down.
    ReschedulingStopped {
        /// Number of unreachable machines.
        silent: u32,
        /// Out of how many that were up.
        of: u32,
    },
    /// An administrator resumed marking machines down although many are silent.
    ReschedulingResumed,
    /// Fewer machines are silent again: the breaker is armed again.
    ReschedulingAllowed,
    /// Quota was granted.
    QuotaGranted(Arc<Grant>),
    /// A grant was revoked.
    QuotaRevoked(Arc<Grant>),
    /// The percentage of a band that may be granted changed.
    Oversell {
        /// The band.
        band: Band,
        /// Percent of the cell's capacity.
        percent: u32,
    },
    /// Quota enforcement was switched on or off.
    Metering {
        /// Whether it is on.
        on: bool,
    },
    /// The settings of the batch queue changed.
    QueueSettings(QueueSettings),
    /// The weights of a user in the batch queue changed.
    QueueWeights {
        /// The user.
        user: UserName,
        /// The new weights.
        weights: ShareWeights,
    },
    /// A user was granted a capability.
    CapabilityGranted {
        /// The user.
        user: UserName,
        /// The capability.
        capability: Capability,
    },
    /// A capability was taken from a user.
    CapabilityRevoked {
        /// The user.
        user: UserName,
        /// The capability.
        capability: Capability,
    },
    /// A user did something here that only a capability allows.
    CapabilityUsed {
        /// The capability.
        capability: Capability,
    },
    /// A user begins to run a command inside the task.
    ExecStarted {
        /// The command in words, shortened.
        command: String,
    },
    /// A command inside the task ended.
    ExecEnded {
        /// The command in words, shortened.
        command: String,
        /// How it ended.
        end: ExecEnd,
    },
    /// A join token was issued for a machine, or for many.
    TokenIssued {
        /// The machine; or the beginning of the names of many.
        machine: MachineName,
        /// The token's certificate.
        token: Certificate,
        /// How many machines it admits if it is for many.
        most: Option<u32>,
    },
    /// A machine joined with a token.
    MachineEnrolled {
        /// Serial number of the token's certificate.
        token: Serial,
        /// The certificate issued to the machine.
        certificate: Certificate,
    },
    /// A machine's certificate was renewed.
    MachineRenewed {
        /// The new certificate.
        certificate: Certificate,
    },
    /// Every certificate of a machine, and every token for it, is revoked.
    MachineRevoked {
        /// The machine.
        machine: MachineName,
    },
    /// A join token was issued for a replica.
    ReplicaTokenIssued {
        /// The replica.
        replica: ReplicaId,
        /// The token's certificate.
        token: Certificate,
    },
    /// A replica joined with a token: it received the cell's authority.
    ReplicaJoined {
        /// The replica.
        replica: ReplicaId,
        /// Serial number of the token's certificate.
        token: Serial,
    },
    /// A replica was added and waits to join.
    ReplicaAdded {
        /// The replica.
        replica: ReplicaId,
        /// The address it will serve at.
        address: Arc<str>,
    },
    /// A replica is to leave; one that was only waiting has left.
    ReplicaRemoved {
        /// The replica.
        replica: ReplicaId,
    },
    /// A replica's role in consensus changed.
    ReplicaMember {
        /// The replica.
        replica: ReplicaId,
        /// Its new role.
        to: MemberChange,
    },
    /// A replica reported something new about itself, or the replica that was bootstrapped was
    /// recorded.
    ReplicaDescribed {
        /// The replica.
        replica: ReplicaId,
        /// Its address; empty if unknown.
        address: Arc<str>,
        /// The level of the state machine that its build implements.
        level: Level,
    },
}

impl EventKind {
    /// The final end of a task or job, from its cause of death.
    #[must_use]
    pub fn of(death: &Death, end: Option<&End>) -> Self {
        match death {
            Death::Finished => Self::Finish,
            Death::Failed => Self::Fail { end: end.cloned() },
            Death::Killed(why) => Self::Kill { why: why.clone() },
        }
    }

    /// Its transition in the life-cycle diagram; `None` for events that the traces do not have.
    #[must_use]
    pub fn transition(&self) -> Option<Transition> {
        Some(match self {
            Self::Submit { .. } => Transition::Submit,
            Self::Queue => Transition::Queue,
            Self::Enable => Transition::Enable,
            Self::Schedule { .. } => Transition::Schedule,
            Self::Evict { .. } => Transition::Evict,
            Self::Fail { .. } => Transition::Fail,
            Self::Finish => Transition::Finish,
            Self::Kill { .. } => Transition::Kill,
            Self::Lost { .. } => Transition::Lost,
            Self::UpdatePending => Transition::UpdatePending,
            Self::UpdateRunning => Transition::UpdateRunning,
            _ => return None,
        })
    }

    /// Its name in event lists; for a life-cycle transition the trace's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "START",
            Self::Health { healthy: true, .. } => "HEALTHY",
            Self::Health { healthy: false, .. } => "UNHEALTHY",
            Self::Unready { .. } => "UNREADY",
            Self::Stop { .. } => "STOP",
            Self::Saved { .. } => "SAVED",
            Self::SaverGivenUp { .. } => "SAVER_GIVEN_UP",
            Self::Suspect => "SUSPECT",
            Self::MachineAdded => "ADD",
            Self::MachineUpdated { .. } => "UPDATE",
            Self::MachineShortage { .. } => "SHORTAGE",
            Self::MachineReadiness { reason: Some(_) } => "NOT_READY",
            Self::MachineReadiness { reason: None } => "READY",
            Self::Attribute { .. } => "ATTRIBUTE",
            Self::MachineUnreachable => "UNREACHABLE",
            Self::MachineDown => "DOWN",
            Self::MachineBack => "BACK",
            Self::MachineDrained { .. } => "DRAIN",
            Self::Drained => "DRAINED",
            Self::DrainExpired { .. } => "DRAIN_EXPIRED",
            Self::MachineUndrained => "UNDRAIN",
            Self::UpdateOpened { .. } => "UPDATE_OPEN",
            Self::LimitsSet { .. } => "AUTOSCALE",
            Self::UpdatePaused { .. } => "UPDATE_PAUSE",
            Self::UpdateResumed { .. } => "UPDATE_RESUME",
            Self::UpdateSkipped { .. } => "UPDATE_SKIP",
            Self::UpdateFailed { .. } => "UPDATE_FAIL",
            Self::UpdateUndoing { .. } => "UPDATE_UNDO",
            Self::UpdateUndone { .. } => "UPDATE_UNDONE",
            Self::UpdateSucceeded { .. } => "UPDATE_SUCCEED",
            Self::UpdateClosed { .. } => "UPDATE_CLOSE",
            Self::MachineRemoved { .. } => "REMOVE",
            Self::Platform { .. } => "PLATFORM",
            Self::LogSettings(_) => "LOG_SETTINGS",
            Self::NoticeMax(_) => "NOTICE_MAX",
            Self::Reclamation(_) => "RECLAMATION",
            Self::Packing(_) => "PACKING",
            Self::Lock { change: LockChange::Acquired, .. } => "LOCK",
            Self::Lock { change: LockChange::Released, .. } => "UNLOCK",
            Self::Lock { change: LockChange::Expired, .. } => "LOCK_EXPIRED",
            Self::ServiceSet { .. } => "SET_SERVICE",
            Self::ServiceDeleted { .. } => "DELETE_SERVICE",
            Self::VolumeAdded { .. } => "ADD_VOLUME",
            Self::VolumeRemoved { .. } => "REMOVE_VOLUME",
            Self::VolumeClaimed { .. } => "CLAIM_VOLUME",
            Self::VolumeReleased { .. } => "RELEASE_VOLUME",
            Self::PackageSet { .. } => "SET_PACKAGE",
            Self::PackageDeleted { .. } => "DELETE_PACKAGE",
            Self::SecretSet { .. } => "SET_SECRET",
            Self::SecretDeleted { .. } => "DELETE_SECRET",
            Self::SecretRead { .. } => "READ_SECRET",
            Self::InputsChanged { .. } => "CHANGE_INPUTS",
            Self::SecretResealed { .. } => "RESEAL_SECRET",
            Self::UserAdded { .. } => "ADD_USER",
            Self::UserRevoked { .. } => "REVOKE_USER",
            Self::Bootstrapped => "FOUND",
            Self::BackupSaved { .. } => "BACKUP",
            Self::LevelRaised { .. } => "LEVEL",
            Self::ReschedulingStopped { .. } => "STOP_RESCHEDULING",
            Self::ReschedulingResumed => "RESUME_RESCHEDULING",
            Self::ReschedulingAllowed => "ALLOW_RESCHEDULING",
            Self::QuotaGranted(_) => "GRANT_QUOTA",
            Self::QuotaRevoked(_) => "REVOKE_QUOTA",
            Self::Oversell { .. } => "OVERSELL",
            Self::Metering { .. } => "METER_QUOTA",
            Self::QueueSettings(_) => "SET_QUEUE",
            Self::QueueWeights { .. } => "SET_WEIGHTS",
            Self::CapabilityGranted { .. } => "GRANT_CAPABILITY",
            Self::CapabilityRevoked { .. } => "REVOKE_CAPABILITY",
            Self::CapabilityUsed { .. } => "USE_CAPABILITY",
            Self::ExecStarted { .. } => "EXEC",
            Self::ExecEnded { .. } => "EXEC_END",
            Self::TokenIssued { .. } => "ISSUE_TOKEN",
            Self::MachineEnrolled { .. } => "ENROL",
            Self::MachineRenewed { .. } => "RENEW",
            Self::MachineRevoked { .. } => "REVOKE_MACHINE",
            Self::ReplicaTokenIssued { .. } => "ISSUE_TOKEN",
            Self::ReplicaJoined { .. } => "REPLICA_JOINED",
            Self::ReplicaAdded { .. } => "REPLICA_ADDED",
            Self::ReplicaRemoved { .. } => "REPLICA_REMOVED",
            Self::ReplicaMember { .. } => "REPLICA_MEMBER",
            Self::ReplicaDescribed { .. } => "REPLICA_DESCRIBED",
            other => other.transition().map_or("", Transition::name),
        }
    }
}
