//! Benchmarks as commands: they measure this program on this machine, and say what they did.

mod recovery;
mod start;

pub(crate) use recovery::recovery;
pub(crate) use start::start;
