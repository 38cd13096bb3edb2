//! What a user may not do, and who may.

use model::{
    Band, Capability, FilePath, GrantId, JobName, LockSessionId, MachineName, PackageId, ReplicaId,
    UpdateAction, UserName,
};

/// What a user may not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Something with a job.
    OfJob {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// What.
        what: JobPermission,
    },
    /// To control the open update of a job.
    ControlUpdate {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// What to do with the update.
        action: UpdateAction,
    },
    /// To use a capability on a job.
    UseCapability {
        /// The owner of the job.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The capability.
        capability: Capability,
    },
    /// To submit a job with the field for which this capability is needed.
    SubmitWith(Capability),
    /// Something with a service.
    OfService {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// What.
        what: ServicePermission,
    },
    /// Something with a version of a package.
    OfPackage {
        /// Which.
        id: PackageId,
        /// What.
        what: PackagePermission,
    },
    /// Something with a machine.
    OfMachine {
        /// The machine.
        machine: MachineName,
        /// What.
        what: MachinePermission,
    },
    /// Something with a replica.
    OfReplica {
        /// The replica.
        replica: ReplicaId,
        /// What.
        what: ReplicaPermission,
    },
    /// To add a replica.
    AddReplica {
        /// Its address, as the user wrote it; at most as long as a reason.
        address: String,
    },
    /// Something with a user.
    OfUser {
        /// The user.
        user: UserName,
        /// What.
        what: UserPermission,
    },
    /// To grant a capability to a user, or to take it away.
    SetCapability {
        /// The user.
        user: UserName,
        /// The capability.
        capability: Capability,
        /// Whether to grant it.
        granted: bool,
    },
    /// To revoke a grant.
    RevokeGrant(GrantId),
    /// To oversell a band.
    Oversell(Band),
    /// To read, write or lock a file.
    UseFile(FilePath),
    /// To use a lock session.
    UseLockSession(LockSessionId),
    /// Something with the whole cell.
    OfCell(CellPermission),
}

/// What may be done with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPermission {
    /// To kill it, or tasks of it.
    Kill,
    /// To forget it.
    Forget,
    /// To restart its tasks.
    Restart,
    /// To update it.
    Update,
    /// To change its number of tasks.
    Resize,
    /// To set its limits.
    SetLimits,
    /// To move its tasks.
    MoveTasks,
    /// To run commands in its tasks.
    Exec,
    /// To submit jobs into it; it is an alloc set.
    SubmitInto,
}

impl JobPermission {
    /// This permission for a job.
    #[must_use]
    pub fn of(self, owner: &UserName, name: &JobName) -> Permission {
        Permission::OfJob { owner: owner.clone(), name: name.clone(), what: self }
    }
}

/// What may be done with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServicePermission {
    /// To set it.
    Set,
    /// To delete it.
    Delete,
}

/// What may be done with a version of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackagePermission {
    /// To add it, or to change who may use it.
    Set,
    /// To delete it.
    Delete,
    /// To use it in jobs, or to read it.
    Use,
}

/// What may be done with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachinePermission {
    /// To add it.
    Add,
    /// To remove it.
    Remove,
    /// To set its attributes.
    SetAttributes,
    /// To change its volumes.
    SetVolumes,
    /// To drain it.
    Drain,
    /// To undrain it.
    Undrain,
    /// To issue a join token for it.
    IssueToken,
    /// To revoke its certificates.
    Revoke,
}

/// What may be done with a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaPermission {
    /// To issue a join token for it.
    IssueToken,
    /// To remove it.
    Remove,
}

/// What may be done with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPermission {
    /// To issue certificates to them.
    Add,
    /// To revoke their certificates.
    Revoke,
    /// To grant them quota.
    GrantQuota,
    /// To end savers of their jobs.
    EndSavers,
}

/// What may be done with the whole cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellPermission {
    /// To switch quota metering.
    MeterQuota,
    /// To set how the batch queue decides.
    SetQueue,
    /// To set the longest notice of tasks.
    SetNoticeMax,
    /// To set how long logs are kept.
    SetLogs,
    /// To set how much is reclaimed.
    SetReclamation,
    /// To set the packing policy.
    SetPacking,
    /// To set the factor of a platform.
    SetPlatform,
    /// To resume rescheduling.
    ResumeRescheduling,
    /// To end savers of jobs that are forgotten.
    EndSaversOfForgottenJobs,
    /// To seal secrets with another key.
    RotateSecretKey,
    /// To save a checkpoint of the cell.
    SaveCheckpoint,
}

/// Who may do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permitted {
    /// Administrators.
    Administrators,
    /// Administrators, and users with the capability.
    Holders(Capability),
    /// This user alone.
    User(UserName),
    /// The owner of what it is about, and administrators.
    OwnerOrAdministrators(UserName),
    /// The owner of what it is about, administrators, and users with the capability.
    OwnerOrHolders {
        /// The owner.
        owner: UserName,
        /// The capability.
        capability: Capability,
    },
    /// The owner of an alloc set, the users that its description names, administrators, and users with the
    /// capability.
    UsersOfAllocSet {
        /// The owner.
        owner: UserName,
        /// The capability.
        capability: Capability,
    },
}
