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
//! Not here: states of jobs, machines, the network; where estimates of runtimes are kept.

mod forecast;
mod job;
mod pass;
mod queue;
mod runtimes;
mod share;

pub use job::{BadJob, QueuedJob, Runtime};
pub use pass::{Enabled, StartReservation, TurnPass};
pub use queue::{BatchQueue, PoorestUser, QueuePolicy};
pub use runtimes::{RUNTIMES_KEPT, Runtimes};
pub use share::{BadWeight, DominantShare, ShareWeights};
