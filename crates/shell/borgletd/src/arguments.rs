//! The flags of a Borglet's process.

use std::os::fd::RawFd;
use std::path::PathBuf;

use clap::Args;
use model::{Bytes, MachineName, MilliCores, PortRange, Subnet};
use process::arguments::{ListenArgs, dialled};
use process::joining::Given;
use process::reached_at;

use crate::Options;
use crate::capacity::{DISK_RATE, Limits};
use crate::packages::SHARE_RATE;
use crate::port_isolation::{PORT_ISOLATION_VARIABLE, WantedPortIsolation};
use crate::uids::Uids;

/// The flags of a Borglet.
#[derive(Debug, Args)]
pub struct BorgletArgs {
    /// The data directory; created at the first start.
    #[arg(long)]
    dir: PathBuf,
    /// Join the cell with this token: the token itself, @FILE, or - for standard input. Ignored
    /// once the machine has joined.
    #[arg(long, value_name = "TOKEN")]
    join: Option<Given>,
    /// The name of this machine, which a token for many machines needs. Only with --join.
    #[arg(long, value_name = "MACHINE", requires = "join")]
    name: Option<MachineName>,
    /// The address at which the masters reach this Borglet. Default: the listening address, with
    /// this host's name if it listens on all interfaces.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    /// The directory with its certificate, borglet.pem and borglet.key. Default: the data
    /// directory.
    #[arg(long)]
    credentials: Option<PathBuf>,
    /// The address of a replica of the master that renews the certificate, as host:port;
    /// repeatable. Not needed after joining.
    #[arg(long, value_name = "HOST:PORT")]
    master: Vec<String>,
    /// The port range for tasks.
    #[arg(long, default_value = "20000-29999")]
    ports: PortRange,
    /// An inherited file with a lock on the port range. It is open, and so the range is locked, until
    /// this process and its last task have ended.
    #[arg(long, value_name = "DESCRIPTOR")]
    ports_lock_fd: Option<RawFd>,
    /// How tasks are kept from ports that are not theirs: enforced by the kernel, watched by this
    /// process, which kills a task that holds one, or the better of both that this machine has.
    #[arg(long, value_enum, default_value_t, env = PORT_ISOLATION_VARIABLE, hide_env = true)]
    port_isolation: WantedPortIsolation,
    /// The addresses for tasks with a network of their own, such as 10.64.5.0/24; the second one
    /// becomes this machine's. Needs root. Default: none, and such tasks run on other machines.
    #[arg(long, value_name = "RANGE")]
    task_network: Option<Subnet>,
    /// The cores for tasks. Default: all of the machine.
    #[arg(long, value_name = "CORES")]
    cpu: Option<MilliCores>,
    /// The memory for tasks. Default: all of the machine.
    #[arg(long, value_name = "BYTES")]
    ram: Option<Bytes>,
    /// The maximum disk space for tasks. Default: what is free beyond a reserve.
    #[arg(long, value_name = "BYTES")]
    disk: Option<Bytes>,
    /// The throughput of the machine's disks per second, of which tasks can request a share.
    #[arg(long, default_value_t = DISK_RATE, value_name = "BYTES")]
    disk_rate: Bytes,
    /// How much this machine keeps of the outputs of ended tasks, shared by users. Default: 10 GiB, or a tenth of a
    /// smaller disk.
    #[arg(long, value_name = "BYTES")]
    keep_outputs: Option<Bytes>,
    /// How much this machine sends per second of the packages that it has to other machines that fetch them. 0: nothing.
    #[arg(long, default_value_t = SHARE_RATE, value_name = "BYTES")]
    share_packages: Bytes,
    /// The range of user ids for tasks. Several Borglets on one host should have ranges of their own.
    #[arg(long, default_value_t, value_name = "FIRST-LAST")]
    uids: Uids,
    /// Stop the tasks when this process is told to stop. If it is killed, they keep running.
    #[arg(long)]
    stop_tasks: bool,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs a Borglet with these flags until it is told to stop.
///
/// # Errors
/// If it cannot start, or cannot continue.
pub fn start(args: BorgletArgs) -> anyhow::Result<()> {
    // An agent runs on every machine: its memory counts there.
    linux::machine::without_huge_pages();
    process::begin()?;
    let listener = args.listen.listener()?;
    let options = Options {
        credentials: args.credentials.unwrap_or_else(|| args.dir.clone()),
        directory: args.dir,
        stem: "borglet".to_owned(),
        join: args.join,
        name: args.name,
        address: args.address.map_or_else(|| reached_at(&listener), Ok)?,
        masters: args.master,
        ports: args.ports,
        ports_lock: args.ports_lock_fd.map(process::inherited).transpose()?,
        port_isolation: args.port_isolation,
        task_network: args.task_network,
        limits: Limits { cpu: args.cpu, ram: args.ram, disk: args.disk, disk_rate: args.disk_rate },
        keep_outputs: args.keep_outputs,
        share_packages: args.share_packages,
        uids: args.uids,
        stop_tasks: args.stop_tasks,
    };
    crate::run(options, listener)
}
