//! What rejections say of an object: which text, which bound, which state.

use model::{
    Bytes, Dimension, FilePath, LockSessionId, MachineName, Span, UserName, Version, VolumeClaim,
    VolumeName,
};

/// A text that a user writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// The address of a machine.
    MachineAddress,
    /// The address of a replica.
    ReplicaAddress,
    /// The name of a platform.
    Platform,
    /// The reason of a change.
    Reason,
    /// A command to run in a task.
    Command,
    /// The name of an attribute.
    AttributeName,
    /// The value of an attribute.
    AttributeValue,
    /// The query for the labels of jobs behind a service.
    ServiceLabels,
}

/// Why a join token does not admit a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It is not for that name: the name is another one, does not begin as it has to, or is not said.
    Name,
    /// It admits new machines only, and the name is known.
    Known,
    /// It has admitted as many machines as it may.
    Spent {
        /// How many.
        most: u32,
    },
}

/// Things of which a cell has a bounded number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Countable {
    /// Ids of jobs that were given; none is given twice.
    JobIds,
    /// Ids of machines that were given.
    MachineIds,
    /// Ids of replicas that were given.
    ReplicaIds,
    /// Ids of sessions that were given.
    SessionIds,
    /// Ids of lock sessions that were given.
    LockSessionIds,
    /// Ids of grants that were given.
    GrantIds,
    /// Machines.
    Machines,
    /// Overriding attributes of one machine.
    AttributesOf(MachineName),
    /// Volumes of one machine.
    VolumesOf(MachineName),
    /// Platforms whose factor is set.
    Platforms,
    /// Replicas.
    Replicas,
    /// Users with certificates, or revoked ones.
    Users,
    /// Certificates of one user that have not expired.
    CertificatesOf(UserName),
    /// Users with capabilities.
    CapabilityHolders,
    /// Names that are revoked and that no machine has.
    RevokedMachines,
    /// Join tokens.
    JoinTokens,
    /// Grants of quota.
    Grants,
    /// Grants of one user.
    GrantsOf(UserName),
    /// Services of one user.
    ServicesOf(UserName),
    /// Versions of packages of one user.
    PackagesOf(UserName),
    /// Secrets of one user.
    SecretsOf(UserName),
    /// Holders of one lock.
    HoldersOf(FilePath),
    /// Locks and ephemeral files of one lock session.
    LocksOf(LockSessionId),
}

/// What the users of a cell share: see [`model::SharedBound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shareable {
    /// Tasks in the cell, dead ones included.
    Tasks,
    /// Tasks that wait for a machine or for other jobs.
    WaitingTasks,
    /// Bytes of job descriptions.
    DescriptionBytes,
    /// Files.
    Files,
    /// Bytes of files.
    FileBytes,
    /// Locks of files without a content.
    BareLocks,
    /// Services.
    Services,
    /// Live jobs with one task on every machine.
    EveryMachineJobs,
    /// Lock sessions.
    LockSessions,
    /// Versions of packages.
    Packages,
    /// Bytes of packages.
    PackageBytes,
    /// Secrets.
    Secrets,
    /// Bytes of secrets.
    SecretBytes,
}

/// A value beyond its bounds, which are in [`crate::bounds`], `spec::limits` or of this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutOfBounds {
    /// The longest notice of tasks.
    Notice(Span),
    /// The half-life or the assumed runtime of the batch queue.
    QueueTime(Span),
    /// How many running tasks are restarted at once.
    Batch(u32),
    /// The number of tasks of a job.
    Tasks(u32),
    /// How many machines a join token admits.
    TokenUses(u32),
    /// How far a band is oversold.
    OversellPercent(u32),
    /// The lease of a lock session.
    LockLease(Span),
    /// The content of a file, in bytes.
    FileBytes(u64),
    /// The content of a secret, in bytes as it is sealed.
    SealedBytes(u64),
    /// The attributes of a machine in one request.
    Attributes {
        /// The machine.
        machine: MachineName,
        /// Their number.
        number: u64,
    },
    /// The amount of a grant in this dimension.
    GrantAmount(Dimension),
    /// How long logs are kept.
    LogKeep(Span),
    /// The logs of each task.
    LogBytes(Bytes),
    /// The logs on each machine.
    LogBytesOnMachine(Bytes),
}

/// A field of a description that names another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceField {
    /// The jobs to wait for.
    After,
    /// The job with which this one ends.
    Parent,
    /// The alloc set to run in.
    AllocSet,
}

/// The job with which another one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsWith {
    /// Its parent.
    Parent,
    /// The alloc set that it runs in.
    AllocSet,
}

/// The last update of a job that has changed since a user looked at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerUpdate {
    /// Who opened it.
    pub by: UserName,
    /// The version that it leads to.
    pub to: Version,
    /// Its state.
    pub state: NewerUpdateState,
}

/// The state of an update, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewerUpdateState {
    /// It changes tasks.
    Rolling,
    /// It changes no further task.
    Paused,
    /// All tasks have passed.
    Succeeded,
    /// Its tasks are changed back.
    Undoing,
    /// Its tasks were changed back.
    Undone,
    /// It cannot be undone any more.
    Closed,
}

/// Why the update of a job cannot be controlled that way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateHindrance {
    /// The job has never been updated.
    NoUpdate,
    /// The update is closed.
    Closed,
    /// It was undone, by a user or because it failed.
    Undone {
        /// The user.
        by: Option<UserName>,
    },
    /// It is being undone, by a user or because it failed.
    Undoing {
        /// The user.
        by: Option<UserName>,
    },
    /// It was paused already, by a user or because it failed.
    Paused {
        /// The user.
        by: Option<UserName>,
    },
    /// It has succeeded: there is nothing to pause.
    Succeeded,
    /// It is not paused: there is nothing to resume.
    NotPaused,
    /// It has not succeeded yet: it cannot be closed.
    NotSucceeded,
}

/// Why an autoscaler cannot set the limits of a job now: its open update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsHindrance {
    /// It is being undone.
    Undoing,
    /// It is not complete.
    NotComplete,
    /// It is open, and the limits would fall.
    Falling,
}

/// Why a running task cannot be moved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveHindrance {
    /// That incarnation is not up: it is not running, not healthy, or being stopped.
    NotUp,
    /// It runs in an alloc, or is one.
    InAlloc,
    /// Its job has a task on every machine.
    EveryMachine,
    /// It has volumes, which are on its machine.
    Volumes,
    /// It stands in for another task, or is being removed.
    Replacement,
    /// Its machine is being drained.
    Draining,
    /// Its job has an open update.
    Updating,
    /// It is there already.
    SameMachine,
    /// It does not fit there now.
    NoRoom,
    /// Its disruption budget allows no disruption now.
    Budget,
}

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceProblem {
    /// It has no labels.
    NoLabels,
    /// Its labels are no label query.
    NoQuery,
    /// Its owner is among its other users.
    OwnerAsUser,
    /// It has too many other users.
    Users {
        /// Their number.
        number: u64,
    },
}

/// What is wrong with a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageProblem {
    /// Its owner is among its readers.
    OwnerAsReader,
    /// It has too many readers.
    Readers {
        /// Their number.
        number: u64,
    },
    /// It is to be the root of a task, and is not an image.
    NotAnImage,
    /// It is to be below `/packages`, and is an image.
    IsAnImage,
    /// It is to be both the root of a task and below `/packages`.
    UsedTwice,
    /// It is for too many architectures.
    Architectures {
        /// Their number.
        number: u64,
    },
}

/// What is wrong with the drain of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainProblem {
    /// It is forced and has no deadline.
    NoDeadline,
    /// Its deadline is after [`crate::bounds::TIME_MAX`].
    DeadlineTooLate,
    /// Its deadline has passed.
    DeadlinePassed,
}

/// What is wrong with a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantProblem {
    /// Its band is never charged.
    NotCharged,
    /// It has no amount.
    NoAmount,
    /// It ends before it begins.
    EndsBeforeItBegins,
    /// It has ended.
    Ended,
    /// It ends after [`crate::bounds::TIME_MAX`].
    EndsTooLate,
}

/// What is in the way of a change of a machine's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeHindrance {
    /// The machine has no volume of that name.
    NoSuch,
    /// Its directory is that of another volume of the machine, or one is below the other.
    Overlaps(VolumeName),
    /// A task claims it.
    Claimed(VolumeClaim),
    /// A task uses it now.
    InUse(VolumeClaim),
    /// A task claims it, and its machine is to leave the cell.
    MachineLeaves {
        /// That claim.
        by: VolumeClaim,
        /// How many more claims the machine's volumes have.
        others: u64,
    },
    /// It has data of a user, so its directory stays.
    DataOf(UserName),
    /// It has too many labels, or one that is empty, too long, or has a control character.
    Labels,
}
