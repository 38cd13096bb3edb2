//! The Borglet's process: real tasks, files and sockets around one [`borglet::Borglet`].
//!
//! One async task owns the Borglet and takes every step (`driver`); `effects` executes the
//! resulting effects and reports back; `service` answers the master's polls and reads logs;
//! `watched` serves health and metrics. `tasks` and `allocs` manage files, `program` the executable
//! of shims, `clients` the certificates of tasks that call the API. `disk` measures usage, `ports`
//! finds out who uses which port, `kept` expires logs, and `remover` deletes discarded files. When
//! this process dies, the tasks keep running, and the next process adopts them.

mod allocs;
mod arguments;
mod checks;
mod cleanup;
mod clients;
mod disk;
mod driver;
mod effects;
mod health_endpoints;
mod logs;
mod message;
mod ports;
mod program;
mod retained_logs;
mod service;
mod tasks;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use linux::Isolation;
use linux::machine::Machine;
use model::{Bytes, MachineReport, MilliCores, PortRange, Resources};
use process::joining::{self, Given, Joining};
use process::renewal::{Masters, Renewed};
use process::{notify, shutdown};
use rpc::transport::{Limits, Refusals};
use rpc::{Credentials, Rotating};

use clients::Clients;

pub use arguments::{BorgletArgs, start};

/// How to run a Borglet.
#[derive(Clone, Debug)]
struct Options {
    /// The data directory.
    pub(crate) directory: PathBuf,
    /// The directory of its certificate.
    pub(crate) credentials: PathBuf,
    /// The stem of the certificate's file names.
    pub(crate) stem: String,
    /// The token with which it joins the cell, and its address then, as `host:port`.
    pub(crate) join: Option<Given>,
    pub(crate) address: String,
    /// The addresses of the masters from the flags; they renew its certificate.
    pub(crate) masters: Vec<String>,
    /// The port range for tasks.
    pub(crate) ports: PortRange,
    /// The disk throughput per second, from the flags, since it cannot be queried.
    pub(crate) disk_rate: Bytes,
    /// Whether its tasks stop with it when it is told to stop. When it is killed, they keep
    /// running.
    pub(crate) stop_tasks: bool,
}

/// The grace period of tasks that stop with the Borglet.
const STOP_NOTICE_MS: u64 = 3_000;

/// Runs a Borglet until it is told to stop.
fn run(options: &Options, listener: TcpListener) -> anyhow::Result<()> {
    let isolation = linux::machine::preflight()?;
    let files = tasks::Files::open(&options.directory, isolation)?;
    // An agent runs on every machine and has little to do: few threads, since each costs memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(3)
        .thread_name("borglet")
        .enable_all()
        .build()
        .context("cannot start the Borglet's threads")?;
    let joined = runtime.block_on(async {
        tokio::select! {
            joined = join(options) => joined.map(Some),
            () = shutdown::requested() => Ok(None),
        }
    })?;
    let Some(credentials) = joined else { return Ok(()) };
    let credentials = Rotating::new(credentials)?;
    let renewed = renewed(options, &credentials)?;
    let machine = describe(&files, options.ports, options.disk_rate, isolation)?;
    tracing::info!("this machine has {} for tasks", machine.report.capacity);
    runtime.block_on(async {
        let masters = Masters::new(renewed.masters.all());
        let clients = Clients::new(&files, credentials.clone(), masters);
        let driver = driver::start(files.clone(), clients.clone(), machine)?;
        let service =
            service::Service::new(driver.clone(), files.clone(), credentials.credentials().cell());
        let limits = Limits { drain: Duration::from_millis(200), ..Limits::default() };
        let stopped = async {
            tokio::select! {
                () = shutdown::requested() => {}
                () = driver.ended() => {}
            }
            notify::stopping();
        };
        // The socket listens already, and existing tasks are adopted.
        notify::ready();
        let refusals = Refusals::default();
        let routes = service.routes(&refusals).prepare();
        let serving =
            rpc::transport::serve(listener, &credentials, routes, limits, &refusals, stopped);
        tokio::select! {
            served = serving => served?,
            never = renewed.run() => match never {},
            never = clients.run() => match never {},
        }
        driver.check()
    })?;
    runtime.shutdown_timeout(Duration::from_millis(200));
    if options.stop_tasks {
        end(&files)?;
    }
    Ok(())
}

/// The credentials in its directory; new ones if it has a token that it has not used.
async fn join(options: &Options) -> anyhow::Result<Credentials> {
    let Options { credentials: directory, stem, join, .. } = options;
    if let Some(joining) = Joining::new(directory, join.as_ref())? {
        return joining.as_machine(stem, &options.address).await;
    }
    let read = Credentials::read(directory, stem);
    read.context(
        "this machine has not joined a cell yet: pass a token with --join, which an administrator gets \
         with bourg machine token NAME",
    )
}

/// The renewal of its certificate.
fn renewed(options: &Options, credentials: &Rotating) -> anyhow::Result<Renewed> {
    let kept = joining::masters(&options.credentials)?;
    let joined = !kept.is_empty();
    let files = (&*options.credentials, &*options.stem);
    let masters = Masters::new([&options.masters[..], &kept].concat());
    Ok(Renewed::new(credentials, files, masters, joined))
}

/// Stops the tasks of a Borglet that is dead and will not be restarted.
pub fn end_tasks(directory: &Path) -> anyhow::Result<()> {
    let files = tasks::Files::found(directory, linux::machine::preflight()?)?;
    if files.tasks().exists() { end(&files) } else { Ok(()) }
}

fn end(files: &tasks::Files) -> anyhow::Result<()> {
    let swept = linux::task::sweep(&files.tasks(), STOP_NOTICE_MS)?;
    for name in &swept.stopped {
        if let Err(error) = files.note_stopped(name) {
            tracing::error!("{name}: {error:#}");
        }
    }
    for (name, why) in swept.failed {
        tracing::error!("{name}: {why}");
    }
    clients::remove_all(files);
    files.remove_cgroup()
}

/// The description of a machine.
struct Described {
    report: Arc<MachineReport>,
    /// Whether all disk usage of existing tasks is counted.
    certain: bool,
}

fn describe(
    files: &tasks::Files,
    ports: PortRange,
    disk_rate: Bytes,
    isolation: Isolation,
) -> anyhow::Result<Described> {
    let machine = Machine::discover(&files.directory, isolation)?;
    let (disk, certain) = disk::capacity(files)?;
    let (first, last) = machine.ephemeral_ports;
    anyhow::ensure!(
        ports.last < first || ports.first > last,
        "the ports {ports} overlap with the kernel's range for outgoing connections \
         ({first}-{last}): choose others with --ports"
    );
    let report = MachineReport {
        capacity: Resources {
            cpu: MilliCores(machine.cpu_milli),
            ram: Bytes(machine.memory_bytes),
            disk,
            disk_rate,
        },
        ports,
        attributes: machine.attributes,
        held_ports: Vec::new(),
    };
    Ok(Described { report: Arc::new(report), certain })
}
