//! The files of a replica: log, events and checkpoints, each with its own thread.

pub(crate) mod checkpointer;
pub(crate) mod events;
pub(crate) mod log;
