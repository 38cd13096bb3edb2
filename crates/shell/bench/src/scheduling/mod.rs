//! Benchmarks of the scheduler: a whole cell from scratch (`cell`), how many machines it needs
//! (`pack`), and passes while tasks come and go (`pass`).

pub(crate) mod cell;
mod dump;
pub(crate) mod input;
pub(crate) mod pack;
pub(crate) mod pass;
pub(crate) mod run;
