//! What a user may not do, and who may.

use std::fmt;

use cell::{
    CellPermission, JobPermission, MachinePermission, PackagePermission, Permission, Permitted,
    ReplicaPermission, ServicePermission, UserPermission,
};
use spec::JobSpec;

/// What a user may not do, as the object of "may not".
pub(crate) struct Doing<'a>(pub(crate) &'a Permission);

impl fmt::Display for Doing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Permission::OfJob { owner, name, what } => {
                let what = match what {
                    JobPermission::Kill => "kill",
                    JobPermission::Forget => "forget",
                    JobPermission::Restart => "restart",
                    JobPermission::Update => "update",
                    JobPermission::Resize => "resize",
                    JobPermission::SetLimits => "set the limits of",
                    JobPermission::MoveTasks => "move tasks of",
                    JobPermission::Exec => "run commands in tasks of",
                    JobPermission::SubmitInto => "submit jobs into",
                };
                write!(f, "{what} {owner}/{name}")
            }
            Permission::ControlUpdate { owner, name, action } => {
                write!(f, "{} the update of {owner}/{name}", action.name())
            }
            Permission::UseCapability { owner, name, capability } => {
                write!(f, "use {capability} on {owner}/{name}")
            }
            Permission::SubmitWith(capability) => match JobSpec::field_for(*capability) {
                Some(field) => write!(f, "submit a job with {field}"),
                None => write!(f, "submit a job that needs {capability}"),
            },
            Permission::OfService { owner, name, what } => {
                let what = match what {
                    ServicePermission::Set => "set",
                    ServicePermission::Delete => "delete",
                };
                write!(f, "{what} service {owner}/{name}")
            }
            Permission::OfPackage { id, what } => {
                let what = match what {
                    PackagePermission::Set => "set",
                    PackagePermission::Delete => "delete",
                    PackagePermission::Use => "use",
                };
                write!(f, "{what} package {id}")
            }
            Permission::OfMachine { machine, what } => {
                let what = match what {
                    MachinePermission::Add => "add",
                    MachinePermission::Remove => "remove",
                    MachinePermission::SetAttributes => "set attributes of",
                    MachinePermission::SetVolumes => "change the volumes of",
                    MachinePermission::Drain => "drain",
                    MachinePermission::Undrain => "undrain",
                    MachinePermission::IssueToken => "issue a join token for",
                    MachinePermission::Revoke => "revoke",
                };
                write!(f, "{what} machine {machine}")
            }
            Permission::OfReplica { replica, what } => {
                let what = match what {
                    ReplicaPermission::IssueToken => "issue a join token for",
                    ReplicaPermission::Remove => "remove",
                };
                write!(f, "{what} replica {replica}")
            }
            Permission::AddReplica { address } => {
                write!(f, "add a replica at {}", address.escape_debug())
            }
            Permission::OfUser { user, what } => match what {
                UserPermission::Add => write!(f, "add user {user}"),
                UserPermission::Revoke => write!(f, "revoke user {user}"),
                UserPermission::GrantQuota => write!(f, "grant quota to {user}"),
                UserPermission::EndSavers => write!(f, "end savers of {user}"),
            },
            Permission::SetCapability { user, capability, granted: true } => {
                write!(f, "grant {capability} to {user}")
            }
            Permission::SetCapability { user, capability, granted: false } => {
                write!(f, "take {capability} from {user}")
            }
            Permission::RevokeGrant(grant) => write!(f, "revoke grant {grant}"),
            Permission::Oversell(band) => write!(f, "oversell {band}"),
            Permission::UseFile(path) => write!(f, "use {path}"),
            Permission::UseLockSession(session) => write!(f, "use lock session {session}"),
            Permission::OfCell(what) => f.write_str(match what {
                CellPermission::MeterQuota => "switch quota metering",
                CellPermission::SetQueue => "set how the batch queue decides",
                CellPermission::SetNoticeMax => "set the longest notice",
                CellPermission::SetLogs => "set how long logs are kept",
                CellPermission::SetReclamation => "set how much is reclaimed",
                CellPermission::SetPacking => "set the packing policy",
                CellPermission::SetPlatform => "set a platform's factor",
                CellPermission::ResumeRescheduling => "resume rescheduling",
                CellPermission::EndSaversOfForgottenJobs => "end savers of a forgotten job",
                CellPermission::RotateSecretKey => "seal secrets with another key",
                CellPermission::SaveCheckpoint => "save a checkpoint of the cell",
            }),
        }
    }
}

/// Who may do it, as the subject of "may".
pub(crate) struct Whoever<'a>(pub(crate) &'a Permitted);

impl fmt::Display for Whoever<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Permitted::Administrators => f.write_str("an administrator"),
            Permitted::Holders(capability) => {
                write!(f, "an administrator or a user with the capability {capability}")
            }
            Permitted::User(user) => write!(f, "{user}"),
            Permitted::OwnerOrAdministrators(owner) => write!(f, "{owner} or an administrator"),
            Permitted::OwnerOrHolders { owner, capability } => {
                write!(f, "{owner}, {}", Whoever(&Permitted::Holders(*capability)))
            }
            Permitted::UsersOfAllocSet { owner, capability } => {
                let holders = Permitted::Holders(*capability);
                write!(f, "{owner}, the users that its description names, {}", Whoever(&holders))
            }
        }
    }
}
