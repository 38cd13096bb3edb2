//! The messages of Bourg's API: protobuf, and its canonical JSON.
//!
//! [`v1`] contains the generated messages; the other modules convert them from and to the words of the
//! other crates: descriptions, events, what a master and a Borglet say to each other. Decoding is the border
//! to the outside: it checks every number, name and enum, and reports errors with their position
//! ([`Malformed`]); nothing panics on any input.
//!
//! A type `X` converts to its message with `From<&X>` and back with `TryFrom`. What is read back equals
//! what was written; an absent field of a message type is an error, unless the `.proto` file defines what
//! its absence means. Whether a description is *valid* is not checked here but at admission (crate `spec`).
//!
//! Deliberately absent: the state machine, and what is made of it alone: the log and images (crate
//! `formats`). So clients do not link it.

mod error;
pub mod read;

pub mod autoscale;
mod borglet;
mod cause;
pub mod cell;
pub mod dimension;
mod duration;
mod enrolment;
pub mod event;
mod exec;
mod file;
mod grant;
mod health;
mod held_package;
pub mod job;
pub mod json;
pub mod locks;
mod logs;
pub mod notice;
pub mod package;
pub mod queue_settings;
pub mod replica;
pub mod saver;
mod scheduling;
pub mod secret;
pub mod services;
pub mod start_latency;
mod task;
pub mod update;
mod usage;
pub mod volume;
mod word;

pub use duration::{Duration, duration, span};
pub use error::{At, Fault, Malformed};
pub use update::update_action;
pub use word::{Word, Words, word};

/// The messages, generated from `proto/bourg/v1/*.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.serde.rs"));
}

/// The encoded descriptors of every message and service, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
