//! Benchmarks as commands: they measure this program on this machine, and say what they did.

mod recovery;
mod start;

pub(crate) use recovery::recovery;
#[cfg(test)]
pub(crate) use recovery::write_history;
pub(crate) use start::start;
