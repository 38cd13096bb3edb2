//! The cell: the deterministic state machine over every object of a Borg cell (paper, sections 2.3
//! and 3.1).
//!
//! [`Cell::apply`] is the only thing that changes a cell. It is total: any operation, however
//! absurd, gives an [`Applied`] and never a panic; and it is a function of its arguments alone, so
//! that every replica, every build and every replay of one log arrive at the same state. An
//! operation carries every decision filled in: nothing here chooses a machine, a port or a moment.
//!
//! What is deliberately absent: clocks, randomness, IO, formats (crate `proto`), who sends what to
//! whom (crate `master`), and which machine is best (crate `scheduler`). What *fits* is here, in
//! [`feasibility`], because scheduler, master and "why pending?" must agree on it.

mod apply;
mod check;
mod cow;
mod event;
pub mod feasibility;
mod image;
mod op;
mod outcome;
mod shortfall;
mod state;

pub use check::{Counted, DecisionChecker, Violation};
pub use event::{Actor, Event, EventKind, Subject};
pub use image::{Image, ImageError};
pub use op::{Assignment, Kill, Mutation, Observation, Op, RequestId, Reservation};
pub use outcome::{
    Applied, AssignmentRefused, NoAlloc, NoVictim, ObservationRefused, Outcome, Rejection, Reply,
    Submission,
};
pub use shortfall::{Oversold, Shortfall};
pub use state::{
    Act, Cell, Certificate, Counts, Credentials, Death, Demand, Drain, EvictionCause,
    FailureDomain, Grant, Health, Job, JobParts, JobState, KillReason, LastIncarnation, Machine,
    MachineState, Member, MemberChange, Metering, PendingCause, Phase, Placement, Replica,
    ReplicaToken, Rescheduling, Session, Stages, StopReason, Task, TaskState, Token, TokenUse,
    Total, User, attribute, bounds, crashes, lifecycle,
};

/// The level of the state machine that this build implements. A record that needs a higher one
/// must not be decoded by this build.
pub const LEVEL: model::Level = ENROLMENT;

/// The level from which on a machine is unreachable before it is down, and rescheduling can be
/// stopped.
pub const LOST_MACHINES: model::Level = model::Level(2);

/// The level from which on tasks have reservations, and jobs maxima per machine and switch.
pub const RESERVATIONS: model::Level = model::Level(2);

/// The level from which on there is quota.
pub const QUOTA: model::Level = model::Level(2);

/// The level from which on users hold capabilities.
pub const CAPABILITIES: model::Level = model::Level(2);

/// The level from which on there are alloc sets.
pub const ALLOCS: model::Level = model::Level(2);

/// The level from which on who the replicas are is recorded.
pub const REPLICAS: model::Level = model::Level(2);

/// The level from which on machines enrol with tokens, and are revoked.
pub const ENROLMENT: model::Level = model::Level(3);

/// The level from which on the data directory of each replica is recorded.
pub const DIRECTORIES: model::Level = model::Level(3);

/// The level from which on tasks can have certificates of their own.
pub const TASK_IDENTITIES: model::Level = model::Level(3);

/// The level from which on the cell knows which ports of a machine something holds that they were not
/// given to, and that a task was ended because it broke a rule.
pub const HELD_PORTS: model::Level = model::Level(3);

/// The level from which on what failed waits for a second at least, and a machine is suspect only where
/// jobs of several users crashed.
pub const RESTARTS: model::Level = model::Level(3);

/// The level from which on users are added and revoked.
pub const USERS: model::Level = model::Level(2);
