//! The replica's own disk: the lock on its data directory, the segment log, checkpoints.
//!
//! What is here: bytes made durable, found again after a crash, and refused loudly when they are
//! not the bytes that were written. Blocking `std` IO, one writer for each log; a shell gives it a
//! thread.
//!
//! What is deliberately not here: raft, the cell's state, protobuf (payloads are opaque bytes),
//! async, how much is kept for how long (the caller's figures; what they mean and how it goes
//! safely is here) and any cache. The state lives in memory; the log is appended, replayed and
//! cut. Whoever wants to see a state of the past rebuilds it.
//!
//! - [`directory`]: `{log, checkpoints, events, tls, tasks, packages}`, format version, lock
//! - [`log`]: segment files, group commit, recovery that tells a torn tail from damage
//! - [`checkpoint`]: one self-contained, checksummed file of opaque sections
//! - [`retention`]: which checkpoints and segments may go, as a decision that touches nothing
//! - [`history`]: what is kept of the past, for other processes to read
//! - [`events`]: the event stream in segment files, followed by any number of readers
//! - [`measure`]: what an fsync costs here, to compare the log with its physical limit

pub mod checkpoint;
mod cursor;
pub mod directory;
mod disk;
mod error;
pub mod events;
pub mod history;
pub mod log;
pub mod measure;
pub mod retention;
mod segments;

pub use directory::{DataDirectory, LogBegins};
pub use error::{Error, Result};
pub use retention::Retention;
