//! A scheduler's decisions (paper, sections 3.2 and 3.4): a copy of the cell in, proposed
//! assignments out.
//!
//! A [`Scheduler`] keeps its own copy of the cell by applying the committed operations through the
//! same [`cell::Cell::apply`] as the master, and beside it what a pass looks at: the machines as
//! parallel arrays, the queue, and the scores of each class of tasks. What it has proposed and not
//! yet heard about lies over that copy as a plan, or the next pass would book the same room twice;
//! what is refused is rolled back. It is deterministic: the same copy, moment and seed give the same
//! plan.
//!
//! [`why()`] explains what is pending with the very checks that a pass uses.
//!
//! What is deliberately absent: connections to a master (the shell's), and any power to change the
//! cell: the master accepts or refuses each assignment by itself.

mod class;
mod engine;
mod evictable;
mod inside;
mod machines;
mod pass;
mod plan;
mod planned;
mod pool;
mod queue;
mod score;
mod scores;
mod settings;
mod spread;
pub mod why;

pub use plan::{Plan, Scheduler};
pub use score::{Policy, Term, Terms, Weights};
pub use scores::{Scored, scores};
pub use settings::Settings;
pub use why::why;
