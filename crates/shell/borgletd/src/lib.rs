//! The Borglet's process: real tasks, files and sockets around one [`borglet::Borglet`].
//!
//! One task of the runtime owns the Borglet and takes every step (`driver`); `effects` does what a
//! step wants done and reports back; `service` answers the master's polls and reads logs; `watched`
//! tells how it goes. `tasks` and `allocs` know the files of both, `program` has their shims',
//! `clients` has certificates for tasks that ask the cell. `disk` looks who fills it, `ports` who holds
//! which, `kept` says which logs are old, and `remover` deletes what nobody needs. When this process
//! dies the tasks run on, and the next one adopts them.

mod allocs;
mod arguments;
mod checks;
mod clients;
mod disk;
mod driver;
mod effects;
mod kept;
mod logs;
mod message;
mod ports;
mod program;
mod remover;
mod service;
mod tasks;
mod watched;

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

/// How a Borglet is started.
#[derive(Clone, Debug)]
struct Options {
    /// Its data directory.
    pub(crate) directory: PathBuf,
    /// Where its certificate is.
    pub(crate) credentials: PathBuf,
    /// The name of its files there.
    pub(crate) stem: String,
    /// The token with which it joins the cell, and where it is reached then, as `host:port`.
    pub(crate) join: Option<Given>,
    pub(crate) address: String,
    /// Where the masters answer, as far as that is said to it; they renew its certificate.
    pub(crate) masters: Vec<String>,
    /// The ports that tasks can have.
    pub(crate) ports: PortRange,
    /// What its disks do a second, as whoever starts it says: that cannot be asked of them.
    pub(crate) disk_rate: Bytes,
    /// Whether its tasks end with it, when it is told to stop. When it is killed they run on.
    pub(crate) stop_tasks: bool,
}

/// How long tasks get to end when they are to end with the Borglet.
const STOP_NOTICE_MS: u64 = 3_000;

/// Runs a Borglet until it is told to stop.
fn run(options: &Options, listener: TcpListener) -> anyhow::Result<()> {
    let isolation = linux::machine::preflight()?;
    let files = tasks::Files::open(&options.directory, isolation)?;
    // An agent is on every machine and has little to do: few threads, which cost memory each.
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
        // The socket listens already, and what was here is adopted.
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

/// The credentials in its directory; where it is given a token that it has not used, new ones.
async fn join(options: &Options) -> anyhow::Result<Credentials> {
    let Options { credentials: directory, stem, join, .. } = options;
    if let Some(joining) = Joining::new(directory, join.as_ref())? {
        return joining.as_machine(stem, &options.address).await;
    }
    let read = Credentials::read(directory, stem);
    read.context(
        "this machine is of no cell yet: give it a token with --join, which an administrator gets \
         by bourg machine token NAME",
    )
}

/// Its certificate, as it is renewed.
fn renewed(options: &Options, credentials: &Rotating) -> anyhow::Result<Renewed> {
    let kept = joining::masters(&options.credentials)?;
    let joined = !kept.is_empty();
    let files = (&*options.credentials, &*options.stem);
    let masters = Masters::new([&options.masters[..], &kept].concat());
    Ok(Renewed::new(credentials, files, masters, joined))
}

/// Ends the tasks of a Borglet that is dead and will not come back to do so.
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

/// What a machine is.
struct Described {
    report: Arc<MachineReport>,
    /// Whether all that tasks have of its disk already is counted.
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
        "the ports {ports} overlap with those that the kernel gives to outgoing connections \
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
