//! The client of a cell's API: which cell, as whom, and any replica of its master until one answers.
//!
//! A *client directory* has `cell.toml` (the cell's name and its master's addresses) and a user's
//! certificate. It is given as its path or by a name under which it is known on this machine; without
//! either, the only cell that is known is taken.
//!
//! What is deliberately not here: exit codes and words for a terminal. Errors are [`Error`], and what
//! happens while a request waits is a [`Notice`].

mod connection;
mod directory;
mod error;
pub mod known;

pub use connection::{Connection, Target};
pub use directory::{CELL_FILE, CellFile, USER_STEM, write, write_file};
pub use error::{Error, Notice};
