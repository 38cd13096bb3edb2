//! The commands that work on files, or on nothing but what they are given: checkpoints, the data directory of a
//! replica that is stopped, and simulated cells.
//!
//! Not here: what asks a cell (`cli`), but for `bourg checkpoint save`, which writes a file.

mod checkpoint;
mod restore;
mod sim;

use clap::Subcommand;
use client::Target;
use command::Done;

pub use self::restore::{RestoreArgs, restore};

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Save, verify, show, edit and load checkpoints: the whole state of a cell in one file.
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    /// Simulate whole cells in this process, in virtual time and under faults, reproducibly by
    /// seed.
    Sim(sim::SimArgs),
}

/// Executes a command.
///
/// # Errors
/// If the command fails.
pub fn execute(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Checkpoint(command) => checkpoint::checkpoint(cell, command),
        Command::Sim(args) => sim::sim(args),
    }
}
