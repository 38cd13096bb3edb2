//! The clients and servers of every service, generated from `proto/bourg/v1/*.proto`. Crate `api`
//! has their messages.

#![allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]

include!(concat!(env!("OUT_DIR"), "/bourg.v1.rs"));

/// The service of crate `replication`, which only replicas of the master may call.
pub(crate) const REPLICATION: &str = "bourg.v1.Replication";
