//! A scheduler's decisions (paper, sections 3.2 and 3.4): a copy of the cell in, proposed
//! assignments out.
//!
//! A [`Scheduler`] keeps its own copy of the cell by applying the committed operations through the
//! same [`cell::Cell::apply`] as the master, and beside it a queue of the pending tasks. A pass takes
//! them in turn, and `placement` finds the machine for each. Proposals that are not yet confirmed are
//! kept as a plan on top of that copy, so that the next pass does not use the same resources twice;
//! rejected ones are rolled back. It is deterministic: the same copy, time and seed give the same plan.
//!
//! Deliberately absent: which machine is best for a task (`placement`), connections to a master (the
//! shell's), and any authority to change the cell: the master accepts or rejects each assignment itself.

mod gang;
mod in_alloc;
mod pass;
mod plan;
mod preview;
mod queue;

pub use plan::{ASSIGNMENTS_MAX, Plan, Scheduler};
pub use preview::{preview, preview_of};
