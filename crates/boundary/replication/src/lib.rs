//! What the replicas of a Borgmaster say to each other: the messages and the service of
//! `replication.proto`, and their conversion from and to the types of [`replica`].
//!
//! It is apart from the API (crate `proto`), so that a client of a cell does not link consensus. What is
//! deliberately not here: connections, and what a replica does with a message.

mod convert;

pub use convert::message;

/// The messages and the service, generated from `proto/bourg/v1/replication.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]
pub mod v1 {
    tonic::include_proto!("bourg.v1");
}

/// The descriptors of the messages and the service, encoded, with those that they use.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replication.bin"));
