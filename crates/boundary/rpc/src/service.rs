//! The clients and servers of every service, generated from `proto/bourg/v1/*.proto`. Their
//! messages are those of the crate `proto`.

#![allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]

include!(concat!(env!("OUT_DIR"), "/bourg.v1.rs"));

/// The service of crate `replication`, which is asked by replicas of the master alone.
pub(crate) const REPLICATION: &str = "bourg.v1.Replication";
