//! The paper's experiments on resource reclamation (section 5.5), without a cell's processes: usage
//! is replayed through the production estimator ([`reclaim::Estimator`]), on machines that are
//! packed by the production rule of feasibility ([`cell::feasibility`]).
//!
//! - [`usage`]: the usage of tasks, from a table ([`usage::read`]) or drawn ([`usage::draw`]);
//! - [`replay`]: the cell that is replayed, and its model;
//! - [`Outcome`]: what a replay gives: a [`Timeline`] as in figure 12, [`Cdf`]s as in figure 11,
//!   totals;
//!
//! Everything is derived from its arguments and a seed, in integers, and is the same in every
//! build.
//!
//! Not here: files and options (crate `bench`), and how many machines a cell needs (figure 10: the
//! scheduler of `bourg bench pack`).

mod machine;
mod outcome;
pub mod replay;
pub mod usage;

pub use outcome::{Amounts, Cdf, Cdfs, Outcome, Ratios, Slot, Timeline, Totals};
