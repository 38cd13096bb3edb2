//! A scheduler's decisions (paper, sections 3.2 and 3.4): a copy of the cell in, proposed
//! assignments out.
//!
//! A [`Scheduler`] keeps its own copy of the cell by applying the committed operations through the
//! same [`cell::Cell::apply`] as the master, together with the data structures of a pass: the
//! machines as parallel arrays, the queue, and the scores of each class of tasks. Proposals that
//! are not yet confirmed are kept as a plan on top of that copy, so that the next pass does not use
//! the same resources twice; rejected ones are rolled back. It is deterministic: the same copy,
//! time and seed give the same plan.
//!
//! [`why()`] explains why tasks are pending, with the same checks that a pass uses.
//!
//! Deliberately absent: connections to a master (the shell's), and any authority to change the
//! cell: the master accepts or rejects each assignment itself.

mod class;
mod engine;
mod evictable;
mod in_alloc;
mod kept;
mod machines;
mod pass;
mod plan;
mod planned;
mod pool;
mod preview;
mod queue;
mod score;
mod scores;
mod settings;
mod spread;
pub mod why;

pub use kept::{Kept, WAIT_MAX};
pub use plan::{Plan, Scheduler};
pub use preview::{preview, preview_of};
pub use score::{Policy, Term, Terms, Weights};
pub use scores::{Scored, scores};
pub use settings::Settings;
pub use why::why;
