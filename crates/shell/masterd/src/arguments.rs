//! The flags of a master's process.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::{Bytes, CellName, Level, UserName};
use process::arguments::{ListenArgs, dialled, duration, validity};
use process::joining::Given;
use process::reached_at;
use store::Retention;

use crate::silence::SilenceArgs;
use crate::{Bootstrap, Options};

/// Of which cell a replica is.
#[derive(Debug, Args)]
pub struct ReplicaArgs {
    /// The data directory; made at the first start.
    #[arg(long)]
    dir: PathBuf,
    /// Join a cell with this token, which bourg master add prints: itself, @FILE, or - for standard
    /// input. Once it has joined, it needs none.
    #[arg(long, value_name = "TOKEN")]
    join: Option<Given>,
    /// The data directory must be there: none is made.
    #[arg(long, hide = true)]
    existing: bool,
    /// The cell's name. Where it is new, it is bootstrapped.
    #[arg(long, requires = "administrator")]
    name: Option<CellName>,
    /// Who administers a cell that is new.
    #[arg(long, requires = "name")]
    administrator: Option<UserName>,
}

/// How a replica of the master runs.
#[derive(Debug, Args)]
pub struct MasterArgs {
    /// How much of the log and its checkpoints is kept, so that the cell can be shown as it was.
    #[arg(long, default_value = "2 GiB", value_name = "BYTES")]
    history_bytes: Bytes,
    /// For how long they are kept.
    #[arg(long, default_value = "7d", value_parser = duration)]
    history_age: Duration,
    /// How much of the events is kept.
    #[arg(long, default_value = "1 GiB", value_name = "BYTES")]
    events_bytes: Bytes,
    /// For how long they are kept.
    #[arg(long, default_value = "30d", value_parser = duration)]
    events_age: Duration,
    /// How long the certificates are valid that it issues to itself, machines and schedulers. They
    /// are renewed when a third of that is left.
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = validity)]
    certificate_validity: Duration,
    /// Where other replicas and clients reach it; otherwise where it listens, by this host's name if that
    /// is everywhere.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    /// Stay at this level of the state machine or below, as an older build would.
    #[arg(long, value_name = "LEVEL", default_value_t = cell::LEVEL.0, hide_default_value = true,
          value_parser = level)]
    level: u32,
    #[command(flatten)]
    listen: ListenArgs,
    // Its heading is that of whatever follows.
    #[command(flatten)]
    silence: SilenceArgs,
}

/// A level of the state machine that this build has.
fn level(text: &str) -> Result<u32, String> {
    let level = text.parse().map(Level).map_err(|error| format!("{error}"))?;
    match cell::has_level(level) {
        true => Ok(level.0),
        false => Err(format!("this build has levels 1 to {}", cell::LEVEL)),
    }
}

/// Runs a replica of the master, with these flags, until it is told to stop.
///
/// # Errors
/// Where it cannot go on; [`Dismissed`](crate::Dismissed) where it must not be started again as it is.
pub fn start(replica: ReplicaArgs, args: MasterArgs) -> anyhow::Result<()> {
    process::begin()?;
    let listener = args.listen.listener()?;
    let options = Options {
        directory: replica.dir,
        existing: replica.existing,
        bootstrap: replica.name.zip(replica.administrator).map(|(name, administrator)| Bootstrap {
            name,
            administrator,
            quota: true,
        }),
        join: replica.join,
        address: args.address.map_or_else(|| reached_at(&listener), Ok)?,
        level: Level(args.level),
        settings: args.silence.settings(),
        history: Retention::new(args.history_bytes.0, args.history_age),
        events: Retention::new(args.events_bytes.0, args.events_age),
        validity: args.certificate_validity,
    };
    crate::run(&options, listener)
}
