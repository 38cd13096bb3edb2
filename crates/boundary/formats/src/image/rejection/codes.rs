//! Enums of rejections that have no data, and their numbers in messages.

use crate::v1::rejection;

/// Converts an enum of the cell to that of a message, and back: the message's has one value more, which
/// means nothing.
macro_rules! codes {
    ($($name:ident { $($value:ident),* })*) => {
        $(
            impl From<cell::$name> for rejection::$name {
                fn from(value: cell::$name) -> Self {
                    match value {
                        $(cell::$name::$value => Self::$value),*
                    }
                }
            }

            impl Code for cell::$name {
                type Message = rejection::$name;

                fn of(message: rejection::$name) -> Option<Self> {
                    match message {
                        rejection::$name::Unspecified => None,
                        $(rejection::$name::$value => Some(Self::$value)),*
                    }
                }
            }
        )*
    };
}

/// An enum of the cell that is a number in messages.
pub(super) trait Code: Sized {
    /// The enum of the message.
    type Message: TryFrom<i32>;

    /// The value for one of the message, if that means something.
    fn of(message: Self::Message) -> Option<Self>;
}

codes! {
    ReferenceField { After, Parent, AllocSet }
    TextField {
        MachineAddress, ReplicaAddress, Platform, Reason, Command, AttributeName, AttributeValue,
        ServiceLabels
    }
    Shareable {
        Tasks, WaitingTasks, DescriptionBytes, Files, FileBytes, BareLocks, Services, LockSessions,
        Packages, PackageBytes, Secrets, SecretBytes, EveryMachineJobs
    }
    NewerUpdateState { Rolling, Paused, Succeeded, Undoing, Undone, Closed }
    LimitsHindrance { Undoing, NotComplete, Falling }
    MoveHindrance {
        NotUp, InAlloc, EveryMachine, Volumes, Replacement, Draining, Updating, SameMachine, NoRoom,
        Budget
    }
    DrainProblem { NoDeadline, DeadlineTooLate, DeadlinePassed }
    GrantProblem { NotCharged, NoAmount, EndsBeforeItBegins, Ended, EndsTooLate }
    JobPermission { Kill, Forget, Restart, Update, Resize, SetLimits, Exec, SubmitInto, MoveTasks }
    ServicePermission { Set, Delete }
    PackagePermission { Set, Delete, Use }
    MachinePermission {
        Add, Remove, SetAttributes, SetVolumes, Drain, Undrain, IssueToken, Revoke
    }
    ReplicaPermission { IssueToken, Remove }
    UserPermission { Add, Revoke, GrantQuota, EndSavers }
    CellPermission {
        MeterQuota, SetNoticeMax, SetLogs, SetReclamation, SetPlatform, ResumeRescheduling,
        EndSaversOfForgottenJobs, RotateSecretKey, SaveCheckpoint, SetPacking, SetQueue
    }
}
