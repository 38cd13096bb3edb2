//! The flags of the scheduler's process.

use std::path::PathBuf;

use clap::Args;

use crate::Options;

/// The flags of a scheduler.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// The directory with its certificate, scheduler.pem and scheduler.key.
    #[arg(long)]
    credentials: PathBuf,
    /// The address of a replica of the master, as host:port; repeatable.
    #[arg(long, required = true)]
    master: Vec<String>,
}

/// Runs a scheduler with these flags until it is told to stop.
///
/// # Errors
/// If it cannot be started.
pub fn start(args: SchedulerArgs) -> anyhow::Result<()> {
    process::begin()?;
    crate::run(&Options {
        credentials: args.credentials,
        stem: "scheduler".to_owned(),
        masters: args.master,
    })
}
