//! One replica of a Borgmaster (paper, section 3.1): consensus, cell and master combined into one
//! deterministic step function.
//!
//! [`Replica::step`] takes the time and an input and returns the actions to perform as plain data:
//! records to make durable, messages to other replicas, answers, polls, and committed operations
//! for followers. It accesses no disk, no socket and no clock, so the program and a simulator run
//! the same code. Consensus is raft-rs, hidden behind this interface.
//!
//! An operation is acknowledged only after its record is durable on a majority of the replicas;
//! polls and answers that do not depend on a record never wait for one. The membership is part of
//! the cell: operators set the desired one, and the leader changes consensus accordingly
//! ([`Op::ChangeMember`](cell::Op)), one change at a time.

mod io;
mod links;
mod log;
mod members;
mod message;
mod reads;
mod record;
mod replica;
mod slow_disk;

pub use io::{
    Bootstrap, Input, Output, Persist, Progress, Recovered, Refusal, ReplicaError, Settings, Ticket,
};
pub use log::Snapshot;
pub use message::{Body, Consensus, ConsensusKind, Message};
pub use record::{HardState, LogEntry, UnknownOperation};
pub use replica::{Codec, Replica};

#[cfg(test)]
mod tests;
