//! What is on the disk of a replica: the log, the events, and checkpoints, each with its thread.

pub(crate) mod checkpointer;
pub(crate) mod events;
pub(crate) mod log;
