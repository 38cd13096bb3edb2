//! The kinds of rejections.

use super::Rejection;

/// The kind of a rejection: servers map it to a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionClass {
    /// The request would be rejected by every cell.
    InvalidArgument,
    /// It names something that does not exist.
    NotFound,
    /// The user may not do it, or their credentials are not accepted.
    PermissionDenied,
    /// The state of the cell does not allow it.
    FailedPrecondition,
    /// Somebody else has changed it since the user looked at it.
    Conflict,
    /// Somebody else holds the lock.
    Taken,
    /// The cell is not bootstrapped yet.
    Unavailable,
}

impl Rejection {
    /// The class of this rejection.
    #[must_use]
    pub fn class(&self) -> RejectionClass {
        match self {
            Self::NotBootstrapped => RejectionClass::Unavailable,
            Self::ChangedMeanwhile { .. } | Self::FileChanged { .. } | Self::StaleSequencer(_) => {
                RejectionClass::Conflict
            }
            Self::LockTaken { .. } => RejectionClass::Taken,
            Self::InvalidDescription(_)
            | Self::NeedsLevel { .. }
            | Self::NamesItself(_)
            | Self::OwnLimit
            | Self::OutOfBounds(_)
            | Self::InstanceEnded { .. }
            | Self::EndsWith { .. }
            | Self::RestartsAllocSet { .. }
            | Self::NoTasks { .. }
            | Self::NotAutoscaled { .. }
            | Self::LimitOutOfBounds { .. }
            | Self::InvalidDrain { .. }
            | Self::NoDataKept { .. }
            | Self::InvalidGrant(_)
            | Self::NeverOversold(_)
            | Self::TokenExists(_)
            | Self::ReplicaHasJoined(_)
            | Self::InvalidService { .. }
            | Self::InvalidPackage { .. }
            | Self::NoSuchTask { .. }
            | Self::BadText { .. }
            | Self::Validity(_)
            | Self::TokenValidity(_) => RejectionClass::InvalidArgument,
            Self::NoSuchJob { .. }
            | Self::NoSuchCollection(_)
            | Self::NoSuchMachine(_)
            | Self::NoSuchGrant(_)
            | Self::NoSuchFile(_)
            | Self::NoSuchService { .. }
            | Self::NoSuchPackage { .. }
            | Self::NoSuchSecret { .. }
            | Self::NoSuchReplica(_) => RejectionClass::NotFound,
            Self::NotAllowed { .. }
            | Self::ForeignSession { .. }
            | Self::NoSuchToken(_)
            | Self::TokenExpired(_)
            | Self::TokenUsed(_)
            | Self::NotAdmitted { .. }
            | Self::ReplicaTokenUsed(_)
            | Self::MachineRevoked(_) => RejectionClass::PermissionDenied,
            Self::NoSuchSession(_)
            | Self::NoSuchLockSession(_)
            | Self::NameOfJob { .. }
            | Self::NameOfService { .. }
            | Self::OnEveryMachine { .. }
            | Self::GangTooLarge { .. }
            | Self::PackageVersionExists { .. }
            | Self::PackageInUse { .. }
            | Self::SecretInUse { .. }
            | Self::AnswerForgotten { .. }
            | Self::Fixed { .. }
            | Self::JobEnded { .. }
            | Self::BeingKilled { .. }
            | Self::TaskBeingKilled { .. }
            | Self::JobAlive { .. }
            | Self::CannotControlUpdate { .. }
            | Self::VersionNotKept { .. }
            | Self::VersionsTooLarge { .. }
            | Self::RestartDuringUpdate { .. }
            | Self::LimitsWait { .. }
            | Self::NotMovable { .. }
            | Self::PriorityAboveAllocSet { .. }
            | Self::PriorityBelowJob { .. }
            | Self::LockHeld { .. }
            | Self::LockNotHeld { .. }
            | Self::NotAnAllocSet { .. }
            | Self::AllocTooSmall { .. }
            | Self::NoSuchReference { .. }
            | Self::PredecessorEnded { .. }
            | Self::PredecessorFinished { .. }
            | Self::CounterpartsMissing { .. }
            | Self::MachineInUse { .. }
            | Self::Volume { .. }
            | Self::Full { .. }
            | Self::Shared { .. }
            | Self::AddressTaken(_)
            | Self::RevokesOneself(_)
            | Self::LastAdministrator(_)
            | Self::StaticPortOfMachines { .. }
            | Self::NotStopped
            | Self::Quota(_)
            | Self::Oversold(_)
            | Self::ReplicaAddressTaken(_)
            | Self::LastVoter(_) => RejectionClass::FailedPrecondition,
        }
    }
}
