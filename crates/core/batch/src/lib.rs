//! The batch queue: best-effort jobs wait in it until it is their turn and there is room (paper, section 3.4; the
//! events QUEUE and ENABLE of the trace).
//!
//! - Whose turn it is: the user with the smallest weighted dominant share of what tasks from the queue use ("Dominant
//!   Resource Fairness", Ghodsi et al., 2011). Shares act by admission alone: nothing is preempted for them.
//! - A job of the poorest user that does not fit gets a [reservation](StartReservation): the moment at which, as far
//!   as is known, enough tasks have ended. Others are admitted before it only if they do not delay it (EASY backfill,
//!   Lifka, 1995). It keeps the reservation until it starts or leaves.
//! - A gang is admitted whole or not at all, and holds nothing while it waits.
//!
//! Room is an amount, not machines: what fits where is decided by the scheduler that gets the enabled tasks.
//!
//! An [`QueueAdmission`] is a queue that follows a cell.
//!
//! Not here: states of jobs, which change only by operations of the cell; the network.

mod admission;
mod forecast;
mod job;
mod pass;
#[cfg(test)]
mod plain;
mod queue;
mod share;
mod waiting;

pub use admission::{AdmissionPass, ENABLED_AHEAD, ENABLED_TASKS_MAX, QueueAdmission};
pub use forecast::{ExpectedStart, StartBasis, WaitingJob, WaitsFor};
pub use job::{BadJob, QueuedJob, Runtime};
pub use model::{BadWeight, Enabled, PoorestUser, ShareWeights};
pub use pass::{StartReservation, TurnPass};
pub use queue::{BatchQueue, QueuePolicy};
pub use share::DominantShare;
