//! The client of a cell's API: resolves the cell, authenticates, and calls any replica of the
//! master until one answers.
//!
//! A *client directory* contains `cell.toml` (the cell's name and its master's addresses) and a
//! user's certificate. It is given by its path or by a name registered on this machine; without
//! either, the only registered cell is used.
//!
//! Not here: exit codes and terminal output. Failures are [`Error`]s; events while a request waits
//! are [`Notice`]s.

mod changes;
mod connection;
mod directory;
mod error;
pub mod known;
mod masters;
pub mod packages;

pub use connection::{Connection, MasterClient, Target};
pub use directory::{CELL_FILE, CellFile, USER_STEM, write, write_file};
pub use error::{Error, Notice};
