//! Google's published traces, read as data: real cells to replay, and to measure schedulers by.
//!
//! [`google2011`] reads the tables of the 2011 trace: a [`CellSnapshot`] of its cell at the moment
//! where the trace begins, and the [`google2011::Churn`] that follows. Everything comes from any
//! [`std::io::BufRead`] and in any order that the data may have: a row that cannot be is an error
//! with its line, a row that contradicts another is counted. Opening files and decompressing them is
//! the caller's, scheduling is the scheduler's, and what a task does with its time the simulator's.

mod cell;
pub mod google2011;
mod packed;
pub mod shapes;

pub use cell::{CellSnapshot, Dropped, Job, Machine, PerMille, Task};
