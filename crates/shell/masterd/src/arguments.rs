//! The command-line flags of a master.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::{Bytes, CellName, Level, UserName};
use process::arguments::{ListenArgs, dialled, duration, validity};
use process::joining::Given;
use process::reached_at;
use store::Retention;

use crate::estimates::ReclaimArgs;
use crate::name_server::DnsOptions;
use crate::sigma_server::SigmaOptions;
use crate::unresponsive::SilenceArgs;
use crate::usage_history::UsageHistoryArgs;
use crate::{Bootstrap, Options};

/// The cell of a replica.
#[derive(Debug, Args)]
pub struct ReplicaArgs {
    /// The data directory; created at the first start.
    #[arg(long)]
    dir: PathBuf,
    /// Join a cell with this token, which bourg master add prints: the token itself, @FILE, or -
    /// for standard input. Not needed after it has joined.
    #[arg(long, value_name = "TOKEN")]
    join: Option<Given>,
    /// Require that the data directory exists.
    #[arg(long, hide = true)]
    existing: bool,
    /// The cell's name. A new cell is bootstrapped.
    #[arg(long, requires = "administrator")]
    name: Option<CellName>,
    /// The first administrator of a new cell.
    #[arg(long, requires = "name")]
    administrator: Option<UserName>,
}

/// The settings of a master replica.
#[derive(Debug, Args)]
pub struct MasterArgs {
    /// How many bytes of the log and its checkpoints to keep, to show the cell as it was.
    #[arg(long, default_value = "2 GiB", value_name = "BYTES")]
    history_bytes: Bytes,
    /// How long to keep them.
    #[arg(long, default_value = "7d", value_parser = duration)]
    history_age: Duration,
    /// How many bytes of events to keep.
    #[arg(long, default_value = "1 GiB", value_name = "BYTES")]
    events_bytes: Bytes,
    /// How long to keep them.
    #[arg(long, default_value = "30d", value_parser = duration)]
    events_age: Duration,
    /// Name the tasks with the most memory in its metrics, up to 10,000. Otherwise only jobs are named.
    #[arg(long)]
    task_metrics: bool,
    /// Serve DNS for the names of the cell at this address, over UDP and TCP, such as 127.0.0.1:7853.
    #[arg(long, value_name = "IP:PORT")]
    dns: Option<SocketAddr>,
    /// The domain below which the zone of the cell is: CELL.borg.DOMAIN instead of CELL.borg.
    #[arg(long, value_name = "DOMAIN", requires = "dns")]
    dns_domain: Option<String>,
    /// Serve Sigma, the web UI, at this address, over HTTPS, such as 127.0.0.1:7800. Users sign in with
    /// bourg sigma open.
    #[arg(long, value_name = "IP:PORT")]
    sigma: Option<SocketAddr>,
    /// The host name or IP address by which browsers reach Sigma; by default that of --address.
    #[arg(long, value_name = "HOST", requires = "sigma", value_parser = host)]
    sigma_host: Option<String>,
    /// The validity of the certificates that it issues to itself, machines and schedulers. They are
    /// renewed when a third of it is left.
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = validity)]
    certificate_validity: Duration,
    /// The address at which other replicas and clients reach it; by default the listening address,
    /// with this host's name if that is a wildcard.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    /// Stay at or below this level of the state machine, as an older build would.
    #[arg(long, value_name = "LEVEL", default_value_t = cell::LEVEL.0, hide_default_value = true,
          value_parser = level)]
    level: u32,
    #[command(flatten)]
    listen: ListenArgs,
    // It has the heading of the flags that follow.
    #[command(flatten)]
    silence: SilenceArgs,
    #[command(flatten)]
    reclaim: ReclaimArgs,
    #[command(flatten)]
    usage_history: UsageHistoryArgs,
}

/// Parses a level of the state machine that this build supports.
fn level(text: &str) -> Result<u32, String> {
    let level = text.parse().map(Level).map_err(|error| format!("{error}"))?;
    match cell::has_level(level) {
        true => Ok(level.0),
        false => Err(format!("this build has levels 1 to {}", cell::LEVEL)),
    }
}

/// Parses a host name or an IP address.
fn host(text: &str) -> Result<String, String> {
    let is_name = |text: &str| {
        let is_part =
            |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        text.len() <= 253 && text.bytes().all(is_plain) && text.split('.').all(is_part)
    };
    match text.parse::<IpAddr>().is_ok() || is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("use a host name or an IP address, such as cell1.example.org".to_owned()),
    }
}

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Runs a replica of the master with these flags until it is told to stop.
///
/// # Errors
/// If it cannot continue; [`Dismissed`](crate::Dismissed) if it must not be restarted as it is.
pub fn start(replica: ReplicaArgs, args: MasterArgs) -> anyhow::Result<()> {
    process::begin()?;
    let listener = args.listen.listener()?;
    let address = args.address.map_or_else(|| reached_at(&listener), Ok)?;
    let host = args.sigma_host.unwrap_or_else(|| host_of(&address).to_owned());
    let options =
        Options {
            directory: replica.dir,
            existing: replica.existing,
            bootstrap: replica.name.zip(replica.administrator).map(|(name, administrator)| {
                Bootstrap { name, administrator, quota: true, queue: true }
            }),
            join: replica.join,
            address,
            level: Level(args.level),
            settings: args.reclaim.settings(args.silence.settings()),
            history: Retention::new(args.history_bytes.0, args.history_age),
            events: Retention::new(args.events_bytes.0, args.events_age),
            validity: args.certificate_validity,
            task_metrics: args.task_metrics,
            usage_history_interval: args.usage_history.interval(),
            dns: args.dns.map(|address| DnsOptions { address, domain: args.dns_domain }),
            sigma: args.sigma.map(|address| SigmaOptions { address, host }),
        };
    crate::run(&options, listener)
}
