//! The formats in which a master keeps and sends the cell: the log, images, and the events of an
//! operation.
//!
//! [`v1`] contains their messages, beside those of the API (crate `api`) that are in them; the other modules
//! convert them from and to the types of the state machine (crate `cell`). As in `api`, decoding is the border
//! to the outside, and nothing panics on any input.

mod credential;
pub mod event;
pub mod image;
mod limits;
pub mod locks;
pub mod log;
mod moves;
mod mutation;
mod names;
mod replica;
mod secrets;
mod update;

pub use names::name_task;

/// The messages of the formats, generated from `proto/bourg/v1/*.proto`, and those of the API.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications)]
pub mod v1 {
    pub use api::v1::*;

    include!(concat!(env!("OUT_DIR"), "/bourg.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/bourg.v1.serde.rs"));
}
