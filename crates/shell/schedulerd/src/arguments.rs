//! The flags of a scheduler's process.

use std::path::PathBuf;

use clap::Args;

use crate::Options;

/// How a scheduler runs.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// The directory with its certificate, scheduler.pem and scheduler.key.
    #[arg(long)]
    credentials: PathBuf,
    /// Where a replica of the master answers, as host:port; given again for each.
    #[arg(long, required = true)]
    master: Vec<String>,
}

/// Runs a scheduler, with these flags, until it is told to stop.
///
/// # Errors
/// Where it cannot be started.
pub fn start(args: SchedulerArgs) -> anyhow::Result<()> {
    process::begin()?;
    crate::run(&Options {
        credentials: args.credentials,
        stem: "scheduler".to_owned(),
        masters: args.master,
    })
}
