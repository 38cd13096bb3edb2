//! The events of a cell with their actors and causes, and the life cycle of jobs and tasks.
//!
//! The state machine (crate `cell`) produces events. A program that reads them needs only these types.

mod cause;
mod event;
pub mod lifecycle;

pub use cause::{
    Death, EvictionCause, KillReason, MoveReason, PendingCause, SkipReason, StopReason,
    UpdateFailure,
};
pub use event::{Actor, Event, EventKind, ExecEnd, LockChange, Subject};
