//! The only wire and disk formats of Bourg: protobuf, and its canonical JSON.
//!
//! [`v1`] contains the generated messages; the other modules convert them from and to the core's
//! own types. Decoding is the border to the outside: it checks every number, name and enum, and
//! reports errors with their position ([`Malformed`]); nothing panics on any input.
//!
//! A core type `X` converts to its message with `From<&X>` and back with `TryFrom`. What is read
//! back equals what was written; an absent field of a message type is an error, unless the `.proto`
//! file defines what its absence means. Whether a description is *valid* is not checked here but at
//! admission (crate `spec`).

mod error;
mod read;

mod autoscale;
mod borglet;
mod cause;
mod cell;
mod credential;
mod dimension;
mod duration;
mod enrolment;
pub mod event;
mod exec;
mod health;
pub mod image;
mod job;
pub mod json;
mod locks;
pub mod log;
mod logs;
mod mutation;
mod names;
mod notice;
mod replica;
mod saver;
mod services;
mod task;
mod update;
mod usage;
mod word;

pub use duration::{Duration, duration, span};
pub use error::{At, Fault, Malformed};
pub use names::name_task;
pub use update::update_action;
pub(crate) use word::Word;
pub use word::{Words, word};

/// The messages, generated from `proto/bourg/v1/*.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.serde.rs"));
}

/// The encoded descriptors of every message and service, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
