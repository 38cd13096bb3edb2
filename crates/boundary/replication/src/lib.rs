//! The protocol between the replicas of a Borgmaster: the messages and the service of
//! `replication.proto`, and their conversion from and to the types of [`replica`].
//!
//! It is separate from the API (crate `api`), so that clients of a cell do not link consensus.
//! Deliberately absent: connections, and how a replica handles a message.

mod convert;

pub use convert::message;

/// The messages and the service, generated from `proto/bourg/v1/replication.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]
pub mod v1 {
    tonic::include_proto!("bourg.v1");
}

/// The encoded descriptors of the messages and the service, including those they use.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replication.bin"));
