//! The flags of a Borglet's process.

use std::path::PathBuf;

use clap::Args;
use model::{Bytes, PortRange};
use process::arguments::{ListenArgs, dialled};
use process::joining::Given;
use process::reached_at;

use crate::Options;

/// How a Borglet runs.
#[derive(Debug, Args)]
pub struct BorgletArgs {
    /// The data directory; made at the first start.
    #[arg(long)]
    dir: PathBuf,
    /// Join the cell with this token: itself, @FILE, or - for standard input. Once it has joined, it
    /// needs none.
    #[arg(long, value_name = "TOKEN")]
    join: Option<Given>,
    /// Where the masters reach it when it joins; otherwise where it listens, by this host's name if that is
    /// everywhere.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    /// The directory with its certificate, borglet.pem and borglet.key. Default: the data directory.
    #[arg(long)]
    credentials: Option<PathBuf>,
    /// Where a replica of the master answers, as host:port, which renews the certificate; given again
    /// for each. One that has joined knows it.
    #[arg(long, value_name = "HOST:PORT")]
    master: Vec<String>,
    /// The ports that tasks can have.
    #[arg(long, default_value = "20000-29999")]
    ports: PortRange,
    /// What the machine's disks do a second, of which tasks can ask their share.
    #[arg(long, default_value = "200 MiB", value_name = "BYTES")]
    disk_rate: Bytes,
    /// End the tasks when this process is told to stop. Killed, it leaves them running.
    #[arg(long)]
    stop_tasks: bool,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs a Borglet, with these flags, until it is told to stop.
///
/// # Errors
/// Where it cannot be started, or cannot go on.
pub fn start(args: BorgletArgs) -> anyhow::Result<()> {
    process::begin()?;
    let listener = args.listen.listener()?;
    let options = Options {
        credentials: args.credentials.unwrap_or_else(|| args.dir.clone()),
        directory: args.dir,
        stem: "borglet".to_owned(),
        join: args.join,
        address: args.address.map_or_else(|| reached_at(&listener), Ok)?,
        masters: args.master,
        ports: args.ports,
        disk_rate: args.disk_rate,
        stop_tasks: args.stop_tasks,
    };
    crate::run(&options, listener)
}
