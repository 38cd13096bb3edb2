//! The cell: the deterministic state machine over every object of a Borg cell (paper, sections 2.3
//! and 3.1).
//!
//! [`Cell::apply`] is the only way to change a cell. It is total: every operation, however absurd,
//! returns an [`Applied`] and never panics. It is also a pure function of its arguments, so every
//! replica, every build and every replay of one log reach the same state. An operation carries all
//! its decisions: nothing here chooses a machine, a port or a time.
//!
//! Deliberately absent: clocks, randomness, IO, formats (crate `formats`), communication (crate
//! `master`) and the choice of the best machine (crate `scheduler`). What *fits* is decided here,
//! in [`feasibility`], because scheduler, master and "why pending?" must agree on it.

mod apply;
pub mod bounds;
mod check;
mod cow;
pub mod feasibility;
mod image;
mod outcome;
mod rejection;
mod reply;
mod shortfall;
mod state;
mod total;
mod unschedulable;

pub use apply::backup::RecordBackup;
pub use apply::budget::{BudgetExhausted, Room};
pub use apply::capability::{SetCapability, UseCapability};
pub use apply::control::ControlUpdate;
pub use apply::drain::{DrainMachine, UndrainMachine};
pub use apply::enrolment::{IssueReplicaToken, IssueToken, RevokeMachine};
pub use apply::exec::RecordExec;
pub use apply::forget::ForgetJob;
pub use apply::job::Kill;
pub use apply::limits::SetLimits;
pub use apply::locks::{
    AcquireLock, CloseLockSession, DeleteFile, OpenLockSession, ReleaseLock, RenewLockSession,
    WriteFile,
};
pub use apply::logs::SetLogs;
pub use apply::machine::{AddMachine, RemoveMachine, SetAttributes, SetPlatform};
pub use apply::moves::MoveTask;
pub use apply::mutation::Mutation;
pub use apply::notice::SetNoticeMax;
pub use apply::op::{Observation, Op, Reservation};
pub use apply::packages::{DeletePackage, SetPackage};
pub use apply::packing::SetPacking;
pub use apply::queue::{SetQueuePolicy, SetQueueWeight};
pub use apply::quota::{GrantQuota, MeterQuota, Oversell, RevokeQuota};
pub use apply::reclamation::SetReclamation;
pub use apply::replicas::{AddReplica, RemoveReplica};
pub use apply::rescheduling::ResumeRescheduling;
pub use apply::resize::ResizeJob;
pub use apply::restart::RestartJob;
pub use apply::rolling::UpdateStep;
pub use apply::saving::EndSaver;
pub use apply::secrets::{DeleteSecret, ResealSecret, ResealedVersion, SetSecret};
pub use apply::services::{DeleteService, SetService};
pub use apply::update::{ChangeKind, UpdateJob};
pub use apply::user::{AddUser, RevokeUser};
pub use apply::volumes::{AcceptVolume, ReleaseVolume, RemoveVolume, SetVolume};
pub use check::{
    Counted, DecisionChecker, EveryMachineViolation, HalfGang, QueueViolation, VersionViolation,
    Violation,
};
pub use event::{
    Actor, Death, Event, EventKind, EvictionCause, ExecEnd, KillReason, LockChange, MoveReason,
    PendingCause, SkipReason, StopReason, Subject, UpdateFailure, lifecycle,
};
pub use image::{Image, ImageError};
pub use model::{
    Assignment, Certificate, Grant, Member, MemberChange, Package, PackageId, RequestId, Service,
    UpdateAction,
};
pub use outcome::{Applied, AssignmentRefused, NoAlloc, NoVictim, ObservationRefused, Outcome};
pub use rejection::{
    CellPermission, Countable, DrainProblem, EndsWith, GrantProblem, JobPermission,
    LimitsHindrance, MachinePermission, MoveHindrance, NewerUpdate, NewerUpdateState, NotAdmitted,
    OutOfBounds, PackagePermission, PackageProblem, Permission, Permitted, ReferenceField,
    Rejection, RejectionClass, ReplicaPermission, ServicePermission, ServiceProblem, Shareable,
    TextField, UpdateHindrance, UserPermission, VolumeHindrance,
};
pub use reply::{Reply, Submission};
pub use shortfall::{ExpiringQuota, Oversold, Shortfall};
pub use state::{
    Act, Admission, Cell, Changing, Content, Counts, Credentials, Demand, Drain, EnableRefused,
    FailureDomain, File, Health, Holder, Inputs, Job, JobParts, JobState, KeptRuntimes, LastBackup,
    LastIncarnation, LeftOut, Lock, LockSession, Machine, MachineState, MachineTasks, Metering,
    NoAddress, NoVolume, Notices, PastVersion, Phase, Placement, QueueState, Replica, ReplicaToken,
    Rescheduling, Reserved, RunsAfter, Session, SharedUse, Stages, Task, TaskState, Token,
    TokenUse, Update, UpdateState, User, VersionEnd, Volume, VolumeAsk, crashes,
};

pub use total::Total;

/// The level of the state machine that this build implements. A record that needs a higher one
/// must not be decoded by this build.
pub const LEVEL: model::Level = model::Level(1);

/// A level that no release has, with the same state machine as [`LEVEL`]. It exists for tests of
/// raising a cell's level and of clusters that mix builds of several levels. A cell reaches it only
/// if each of its replicas was started with `--level` and this number.
pub const TEST_LEVEL: model::Level = model::Level(1_000_000);

/// Whether this build implements a level.
#[must_use]
pub fn has_level(level: model::Level) -> bool {
    (model::Level(1)..=LEVEL).contains(&level) || level == TEST_LEVEL
}
