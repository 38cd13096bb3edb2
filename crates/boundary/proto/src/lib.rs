//! The only wire and disk formats of Bourg: protobuf, and its canonical JSON.
//!
//! [`v1`] holds the messages as they are generated; the other modules convert them from and to the
//! core's own types. Decoding is the border to the outside: every number, name and enum is checked
//! here, and what is wrong is said with its place ([`Malformed`]); nothing panics on any input.
//!
//! A core type `X` becomes its message with `From<&X>` and comes back with `TryFrom`. What is read
//! back equals what was written; a field of a message type that is absent is refused, except where
//! the `.proto` file says what its absence means. Whether a description is *valid* is not asked
//! here but where it is admitted (crate `spec`).

mod error;
mod read;

mod borglet;
mod cause;
mod cell;
mod credential;
mod duration;
mod enrolment;
pub mod event;
pub mod image;
mod job;
pub mod json;
pub mod log;
mod mutation;
mod replica;
mod task;
mod usage;
mod word;

pub use duration::{Duration, duration, span};
pub use error::{At, Fault, Malformed};
pub(crate) use word::Word;
pub use word::{Words, word};

/// The messages, generated from `proto/bourg/v1/*.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.serde.rs"));
}

/// The descriptors of every message and service, encoded: what gRPC reflection answers with.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
