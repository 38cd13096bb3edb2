//! Events of a cell: what happened, to what, by whom and why; and the life cycle of jobs and tasks.
//!
//! The state machine (crate `cell`) decides what happens. These types only say it, so that whatever reads
//! events knows them without the state machine.

mod cause;
mod event;
pub mod lifecycle;

pub use cause::{
    Death, EvictionCause, KillReason, PendingCause, SkipReason, StopReason, UpdateFailure,
};
pub use event::{Actor, Event, EventKind, ExecEnd, LockChange, Subject};
