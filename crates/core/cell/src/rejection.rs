//! Why a request was rejected.
//!
//! Sessions keep answers, so they are part of the replicated state. They are data: which object, which bound,
//! which state. The sentence for people, with the command that helps, is made from it by crate `diagnostics`.

mod class;
mod permission;
mod reason;

use model::{
    Band, Beyond, CollectionId, Digest, Dimension, FilePath, GrantId, InstanceId, JobName, Level,
    LockMode, LockSessionId, LogIndex, MachineName, PackageId, PortName, PortRange, Priority,
    ReplicaId, Resources, SecretName, Sequencer, Serial, SessionId, Span, TaskId, TaskIndex,
    UpdateAction, UserName, Version, VolumeName,
};
use spec::{Autoscale, CpuRam, FieldName, Path};

pub use class::RejectionClass;
pub use permission::{
    CellPermission, JobPermission, MachinePermission, PackagePermission, Permission, Permitted,
    ReplicaPermission, ServicePermission, UserPermission,
};
pub use reason::{
    Countable, DrainProblem, EndsWith, GrantProblem, LimitsHindrance, MoveHindrance, NewerUpdate,
    NewerUpdateState, NotAdmitted, OutOfBounds, PackageProblem, ReferenceField, ServiceProblem,
    Shareable, TextField, UpdateHindrance, VolumeHindrance,
};

use crate::{Oversold, Shortfall};

/// A request that was rejected. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The cell is not bootstrapped yet.
    NotBootstrapped,
    /// The request needs a higher level of the state machine than the cell has.
    NeedsLevel {
        /// The level that it needs.
        needs: Level,
        /// The level of the cell.
        is: Level,
    },
    /// The session was never opened, or was closed to make room for others.
    NoSuchSession(SessionId),
    /// The session belongs to another user.
    ForeignSession {
        /// The session.
        session: SessionId,
        /// Its owner.
        owner: UserName,
        /// Who used it.
        by: UserName,
    },
    /// The request is so old that its answer has been discarded.
    AnswerForgotten {
        /// The request's number.
        sequence: u64,
    },
    /// The job description is invalid at this place. What is wrong there is not part of the state: the
    /// checks of a description may say more of it in a later build.
    InvalidDescription(Path),
    /// The job description names the job itself.
    NamesItself(ReferenceField),
    /// The job description has what only the cell adds, for an autoscaled job: the limit of its user.
    OwnLimit,
    /// A value is beyond its bounds.
    OutOfBounds(OutOfBounds),
    /// Fields differ that cannot change while the job is alive.
    Fixed {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The fields that differ.
        fields: Vec<FieldName>,
    },
    /// The job has ended.
    JobEnded {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// Somebody else has changed the job since the user looked at it.
    ChangedMeanwhile {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The last version that the user has seen.
        seen: Version,
        /// The last version now.
        now: Version,
        /// The last update.
        update: Option<NewerUpdate>,
    },
    /// The job is being killed: it ends when its tasks have ended where they run.
    BeingKilled {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// A task to restart is being killed.
    TaskBeingKilled {
        /// Its owner.
        owner: UserName,
        /// The name of its job.
        name: JobName,
        /// Its index.
        index: TaskIndex,
    },
    /// The instance that the user looked at is not the task's any more.
    InstanceEnded {
        /// Its owner.
        owner: UserName,
        /// The name of its job.
        name: JobName,
        /// The index of its task.
        index: TaskIndex,
    },
    /// Every job of that name is alive: there is none to forget.
    JobAlive {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// The job ends with another one, which has ended.
    EndsWith {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// What the other one is to it.
        with: EndsWith,
        /// The other one.
        other: CollectionId,
    },
    /// The update of the job cannot be controlled that way.
    CannotControlUpdate {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// What the user wanted.
        action: UpdateAction,
        /// Why not.
        why: UpdateHindrance,
    },
    /// The version to go back to is not kept.
    VersionNotKept {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The version.
        version: Version,
    },
    /// The tasks of the job have versions of its description that are too large together.
    VersionsTooLarge {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// How many bytes they would have.
        bytes: u64,
    },
    /// The job cannot be restarted during its update.
    RestartDuringUpdate {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The version that the update leads to.
        to: Version,
        /// Whether it is being undone.
        undoing: bool,
    },
    /// An alloc set runs no program that could be restarted.
    RestartsAllocSet {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// An alloc set cannot be resized to no allocs.
    NoTasks {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// No autoscaler may set the limits of the job.
    NotAutoscaled {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// The limit is out of the bounds that the job's description gives an autoscaler.
    LimitOutOfBounds {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The limit.
        limit: CpuRam,
        /// The bounds.
        bounds: Autoscale,
    },
    /// An autoscaler cannot set the limits of the job now.
    LimitsWait {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The version that its open update leads to.
        version: Version,
        /// Why not.
        why: LimitsHindrance,
    },
    /// A running task cannot be moved now.
    NotMovable {
        /// The owner of its job.
        owner: UserName,
        /// The name of its job.
        name: JobName,
        /// Its index.
        index: TaskIndex,
        /// Why not.
        why: MoveHindrance,
    },
    /// A job would have a higher priority than the alloc set that it runs in.
    PriorityAboveAllocSet {
        /// The name of the job.
        job: JobName,
        /// The priority that it would have.
        priority: Priority,
        /// The owner of the alloc set.
        set_owner: UserName,
        /// The name of the alloc set.
        set: JobName,
        /// The highest priority inside.
        most: Priority,
    },
    /// An alloc set would have a lower priority than a job that runs in it.
    PriorityBelowJob {
        /// The owner of the alloc set.
        set_owner: UserName,
        /// The name of the alloc set.
        set: JobName,
        /// The priority that it would have.
        priority: Priority,
        /// The owner of the job.
        owner: UserName,
        /// The name of the job.
        job: JobName,
        /// The priority of the job.
        has: Priority,
    },
    /// The job that `allocSet` names is not an alloc set.
    NotAnAllocSet {
        /// Owner of the named job.
        user: UserName,
        /// Name of that job.
        name: JobName,
    },
    /// The new description would make an alloc smaller than what runs in it.
    AllocTooSmall {
        /// The alloc.
        alloc: TaskId,
        /// The dimension.
        dimension: Dimension,
        /// The size it would have.
        asked: u64,
        /// The amount in use.
        used: u64,
    },
    /// A job that the description refers to does not exist.
    NoSuchReference {
        /// The field that names it.
        field: ReferenceField,
        /// Owner of the named job.
        user: UserName,
        /// Name of that job.
        name: JobName,
        /// Whether the job exists but is dead.
        dead: bool,
    },
    /// The job would wait for one that ended without finishing.
    PredecessorEnded {
        /// Owner of the job to wait for.
        user: UserName,
        /// Name of that job.
        name: JobName,
    },
    /// The job would wait for the failure of one that has finished.
    PredecessorFinished {
        /// Owner of the job to wait for.
        user: UserName,
        /// Name of that job.
        name: JobName,
    },
    /// The tasks of the job would wait for those of another, one by one, and that has another number of tasks.
    CounterpartsMissing {
        /// Owner of the job to wait for.
        user: UserName,
        /// Name of that job.
        name: JobName,
        /// How many tasks that job has.
        theirs: u32,
        /// How many tasks the job has.
        own: u32,
    },
    /// There is no such machine.
    NoSuchMachine(MachineName),
    /// The machine still has tasks.
    MachineInUse {
        /// The machine.
        machine: MachineName,
        /// How many tasks are placed there.
        tasks: u64,
    },
    /// The drain of the machine is invalid.
    InvalidDrain {
        /// The machine.
        machine: MachineName,
        /// What is wrong.
        why: DrainProblem,
    },
    /// The volume of the machine cannot be changed so.
    Volume {
        /// The machine.
        machine: MachineName,
        /// The volume.
        volume: VolumeName,
        /// What is in the way.
        why: VolumeHindrance,
    },
    /// The machine keeps no data of the instance, or not any more.
    NoDataKept {
        /// The machine.
        machine: MachineName,
        /// The instance.
        instance: InstanceId,
    },
    /// A text is too long, empty, or contains control characters.
    BadText {
        /// Which text.
        what: TextField,
        /// The maximum length in characters.
        most: u64,
    },
    /// There is no such job.
    NoSuchJob {
        /// The owner in the request.
        user: UserName,
        /// The name in the request.
        name: JobName,
    },
    /// There is no job with that id.
    NoSuchCollection(CollectionId),
    /// The requested tasks are not in the job.
    NoSuchTask {
        /// The last task index of the job.
        last: u32,
    },
    /// The user is not allowed to do that.
    NotAllowed {
        /// The user.
        by: UserName,
        /// What they may not do.
        what: Permission,
        /// Who may.
        who: Permitted,
    },
    /// A bound of the cell is reached.
    Full {
        /// What the cell has too many of.
        what: Countable,
        /// How many it has.
        has: u64,
        /// The maximum.
        most: u64,
    },
    /// A bound that users share leaves no more to the user.
    Shared {
        /// What is shared.
        what: Shareable,
        /// How much there is, and who has it.
        why: Beyond,
    },
    /// A static port is one that the cell's machines give to other tasks.
    StaticPortOfMachines {
        /// The port's name.
        port: PortName,
        /// Its number.
        number: u16,
        /// A range with it that machines have.
        range: PortRange,
    },
    /// Another machine has that address.
    AddressTaken(MachineName),
    /// Users cannot revoke their own certificates: they could not undo it.
    RevokesOneself(UserName),
    /// No administrator would be left.
    LastAdministrator(UserName),
    /// The validity of a certificate is too short or too long.
    Validity(Span),
    /// Rescheduling is already allowed.
    NotStopped,
    /// The user's quota is insufficient.
    Quota(Box<Shortfall>),
    /// The cell has too little capacity for the grant.
    Oversold(Box<Oversold>),
    /// The grant does not exist, or not any more.
    NoSuchGrant(GrantId),
    /// The grant is invalid.
    InvalidGrant(GrantProblem),
    /// The band is never oversold.
    NeverOversold(Band),
    /// There is a join token with that number.
    TokenExists(Serial),
    /// The join token does not exist, or not any more.
    NoSuchToken(Serial),
    /// The join token has expired.
    TokenExpired(MachineName),
    /// The join token was used with another key.
    TokenUsed(MachineName),
    /// The join token does not admit the machine.
    NotAdmitted {
        /// The machine.
        machine: MachineName,
        /// What the token is for: a machine, or the beginning of the names of many.
        token: MachineName,
        /// Why not.
        why: NotAdmitted,
    },
    /// A replica's join token was used with another key.
    ReplicaTokenUsed(ReplicaId),
    /// The validity of a join token is too short or too long.
    TokenValidity(Span),
    /// The certificate that the machine presented is revoked.
    MachineRevoked(MachineName),
    /// The replica does not exist, or not any more.
    NoSuchReplica(ReplicaId),
    /// The replica has joined: it needs no token.
    ReplicaHasJoined(ReplicaId),
    /// Another replica has that address.
    ReplicaAddressTaken(ReplicaId),
    /// No voter would be left to commit operations.
    LastVoter(ReplicaId),
    /// There is no such file, or it has no content.
    NoSuchFile(FilePath),
    /// The lock session does not exist, or not any more.
    NoSuchLockSession(LockSessionId),
    /// Somebody else holds the lock.
    LockTaken {
        /// Its file.
        path: FilePath,
        /// The user of the holder.
        by: UserName,
        /// The session of the holder.
        session: LockSessionId,
        /// How it is held.
        mode: LockMode,
    },
    /// The session holds the lock already, in another way.
    LockHeld {
        /// Its file.
        path: FilePath,
        /// The session.
        session: LockSessionId,
        /// How it is held.
        mode: LockMode,
    },
    /// The session does not hold the lock.
    LockNotHeld {
        /// Its file.
        path: FilePath,
        /// The session.
        session: LockSessionId,
    },
    /// The file has another generation than the user expects.
    FileChanged {
        /// The file.
        path: FilePath,
        /// The generation that the user expects; 0: no content.
        expected: LogIndex,
        /// Its generation; 0: it has no content.
        now: LogIndex,
    },
    /// There is no such service.
    NoSuchService {
        /// The owner.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// The service is invalid.
    InvalidService {
        /// The owner.
        owner: UserName,
        /// The name.
        name: JobName,
        /// What is wrong.
        why: ServiceProblem,
    },
    /// There is no such version of a package.
    NoSuchPackage {
        /// Which.
        id: PackageId,
    },
    /// The package is invalid.
    InvalidPackage {
        /// Which.
        id: PackageId,
        /// What is wrong.
        why: PackageProblem,
    },
    /// The version exists with another content.
    PackageVersionExists {
        /// Which.
        id: PackageId,
        /// The digest of its content.
        digest: Digest,
    },
    /// A live job uses the package.
    PackageInUse {
        /// Which.
        id: PackageId,
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        job: JobName,
    },
    /// The user has no such secret.
    NoSuchSecret {
        /// The user.
        owner: UserName,
        /// The name.
        name: SecretName,
    },
    /// A live job of its owner names the secret.
    SecretInUse {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: SecretName,
        /// The job.
        job: JobName,
    },
    /// A service would have the name of a live job of its owner.
    NameOfJob {
        /// The owner.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// A job would have the name of a service of its owner.
    NameOfService {
        /// The owner.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// The cell decides how many tasks a job with one on every machine has.
    OnEveryMachine {
        /// The owner.
        owner: UserName,
        /// The name.
        name: JobName,
    },
    /// All machines together hold fewer tasks than the gang has, whatever else runs.
    GangTooLarge {
        /// How many tasks the gang has.
        tasks: u32,
        /// The limit of each; where they differ, the smallest in each dimension.
        limit: Resources,
        /// How many of them the machines hold.
        fits: u32,
        /// How many machines suit its tasks.
        machines: u32,
    },
    /// The lock of the sequencer is not held by its holder any more.
    StaleSequencer(Sequencer),
}
