//! One replica of a Borgmaster (paper, section 3.1): consensus, cell and master joined into one
//! deterministic step function.
//!
//! [`Replica::step`] takes the moment and what came in, and gives back what is to be done as plain
//! data: records to make durable, answers, polls, committed operations for those who follow. It
//! touches no disk, no socket and no clock, so the program and a simulator drive the very same
//! code. Consensus is raft-rs, behind this interface; nothing outside sees it.
//!
//! An operation is acknowledged only after its record is durable; polls and answers that do not
//! depend on a record never wait for one.

mod log;
mod record;
mod replica;

pub use record::{HardState, LogEntry, UnknownOperation};
pub use replica::{
    Codec, Founding, Input, Output, Persist, Recovered, Refusal, Replica, ReplicaError, Settings,
    Ticket,
};

#[cfg(test)]
mod tests;
