//! Google's published traces as data: real cells to replay and to measure schedulers with.
//!
//! [`google2011`] reads the tables of the 2011 trace: a [`CellSnapshot`] of its cell at the start
//! of the trace, and the [`google2011::Churn`] that follows. It reads from any
//! [`std::io::BufRead`]; an invalid row is an error with its line, a row that contradicts another
//! is counted. Opening and decompressing files is left to the caller, scheduling to the scheduler,
//! and the behaviour of running tasks to the simulator.

mod cell;
pub mod google2011;
mod packed;
pub mod shapes;
pub mod swf;

pub use cell::{CellSnapshot, Dropped, Job, Machine, PerMille, Task};
