//! Benchmarks of the scheduler: a whole cell from scratch (`cell`), how many machines it needs
//! (`pack`), what fetches of packages are saved (`packages`), and passes while tasks come and go (`pass`).

pub(crate) mod cell;
mod dump;
pub(crate) mod input;
pub(crate) mod pack;
pub(crate) mod packages;
pub(crate) mod pass;
pub(crate) mod run;
pub(crate) mod why;
