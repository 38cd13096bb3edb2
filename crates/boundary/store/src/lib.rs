//! A replica's own disk: the locked data directory, the segment log, checkpoints and events.
//!
//! The crate makes bytes durable, finds them again after a crash, and reports an error when they
//! are not the bytes that were written. It uses blocking `std` IO with one writer per log, which a
//! shell runs on its own thread.
//!
//! Deliberately absent: raft, the cell's state, protobuf (payloads are opaque bytes), async,
//! retention settings (their meaning and safe execution are here) and any cache. The state lives in
//! memory; the log is appended, replayed and cut. To see a past state, rebuild it.
//!
//! - [`directory`]: `{log, checkpoints, events, tls, tasks, packages}`, format version, lock
//! - [`log`]: segment files, group commit, recovery that tells a torn tail from damage
//! - [`checkpoint`]: self-contained, checksummed files of opaque sections
//! - [`retention`]: decides which checkpoints and segments to delete, without IO
//! - [`history`]: the retained history, for other processes to read
//! - [`events`]: the event stream in segment files, followed by any number of readers
//! - [`measure`]: the cost of an fsync, to compare the log with its physical limit

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
