//! One replica of a Borgmaster (paper, section 3.1): consensus, cell and master joined into one
//! deterministic step function.
//!
//! [`Replica::step`] takes the moment and what came in, and gives back what is to be done as plain
//! data: records to make durable, messages to other replicas, answers, polls, committed operations
//! for those who follow. It touches no disk, no socket and no clock, so the program and a simulator
//! drive the very same code. Consensus is raft-rs, behind this interface; nothing outside sees it.
//!
//! An operation is acknowledged only after its record is durable on a majority of the replicas;
//! polls and answers that do not depend on a record never wait for one. Who the replicas are is part
//! of the cell: people say who should be, and the leader brings consensus there ([`Op::ChangeMember`](cell::Op)),
//! one change at a time.

mod behind;
mod io;
mod links;
mod log;
mod members;
mod message;
mod reads;
mod record;
mod replica;

pub use io::{
    Bootstrap, Input, Output, Persist, Progress, Recovered, Refusal, ReplicaError, Settings, Ticket,
};
pub use log::Snapshot;
pub use message::{Body, Consensus, ConsensusKind, Message};
pub use record::{HardState, LogEntry, UnknownOperation};
pub use replica::{Codec, Replica};

#[cfg(test)]
mod tests;
