//! The replica's own disk: the lock on its data directory, the segment log, checkpoints.
//!
//! What is here: bytes made durable, found again after a crash, and refused loudly when they are
//! not the bytes that were written. Blocking `std` IO, one writer for each log; a shell gives it a
//! thread.
//!
//! What is deliberately not here: raft, the cell's state, protobuf (payloads are opaque bytes),
//! async, retention policies (the caller decides what may go, this crate how it goes safely) and
//! any cache. The state lives in memory; the log is appended, replayed and cut, never queried.
//!
//! - [`directory`]: `{log, checkpoints, events, tls, tasks, packages}`, format version, lock
//! - [`log`]: segment files, group commit, recovery that tells a torn tail from damage
//! - [`checkpoint`]: one self-contained, checksummed file of opaque sections
//! - [`measure`]: what an fsync costs here, to compare the log with its physical limit

pub mod checkpoint;
pub mod directory;
mod disk;
mod error;
pub mod log;
pub mod measure;
mod segments;

pub use directory::DataDirectory;
pub use error::{Error, Result};
