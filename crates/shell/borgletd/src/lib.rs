//! The Borglet's process: real tasks, files and sockets around one [`borglet::Borglet`].
//!
//! One async task owns the Borglet and takes every step (`driver`); `effects` executes the
//! resulting effects and reports back; `service` answers the master's polls and reads logs;
//! `health_endpoints` serves health and metrics. `tasks` and `allocs` manage files, `program` the
//! executable of shims, `clients` the certificates of tasks that call the API. `capacity` decides what
//! of the machine is for tasks, and `uids` which user ids. `port_isolation` finds out whether the
//! kernel can check ports, `cpu_isolation` what it can do about CPU and disk rates (`cgroups` has
//! which task is where), and `task_network` prepares the host for networks of tasks. `disk` measures
//! usage, `memory` how much is available, `ports` finds out who uses which port, `retained_logs`
//! deletes old logs, and `cleanup` discarded files. When this process dies, the tasks keep running,
//! and the next process adopts them.

mod allocs;
mod arguments;
mod capacity;
mod cgroups;
mod checks;
mod cleanup;
mod clients;
mod cpu_isolation;
mod deleted_logs;
mod disk;
mod driver;
mod effects;
mod end_records;
mod exec;
mod found_packages;
mod health_endpoints;
mod kept_outputs;
mod known_volumes;
mod log_settings;
mod logs;
mod memory;
mod message;
mod name_server;
mod names;
mod notice;
mod oom;
mod outputs;
mod owners;
mod packages;
mod port_isolation;
mod ports;
mod probe;
mod program;
mod readable;
mod retained_logs;
mod savers;
mod secrets;
mod service;
mod starts;
mod task_files;
mod task_metrics;
mod task_network;
mod tasks;
mod uids;
mod unpolled;
mod usage;
mod volumes;
mod wanted_ports;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use dns::Zone;
use model::{Bytes, CellName, MachineName, PortRange, Subnet};
use process::joining::{self, Given, Joining};
use process::master_connection::MasterConnection;
use process::renewal::{Masters, Renewed};
use process::{notify, shutdown};
use rpc::transport::{Limits, Refusals};
use rpc::{Credentials, Rotating};

use clients::Clients;
use effects::Provided;
use names::{MachineNames, ResolvConf};
use packages::{Packages, Sharing};
use port_isolation::WantedPortIsolation;

pub use arguments::{BorgletArgs, start};
pub use capacity::of_host;
pub use name_server::NameServer;
pub use task_network::is_possible as can_run_task_networks;
pub use uids::Uids;

/// How to run a Borglet.
#[derive(Debug)]
struct Options {
    /// The data directory.
    pub(crate) directory: PathBuf,
    /// The directory of its certificate.
    pub(crate) credentials: PathBuf,
    /// The stem of the certificate's file names.
    pub(crate) stem: String,
    /// The token with which it joins the cell, and its address then, as `host:port`.
    pub(crate) join: Option<Given>,
    /// The name by which it joins, if the token does not say it.
    pub(crate) name: Option<MachineName>,
    pub(crate) address: String,
    /// The addresses of the masters from the flags; they renew its certificate.
    pub(crate) masters: Vec<String>,
    /// The port range for tasks.
    pub(crate) ports: PortRange,
    /// The locked file that reserves them, for its tasks to hold open.
    pub(crate) ports_lock: Option<OwnedFd>,
    /// How tasks are kept from other ports.
    pub(crate) port_isolation: WantedPortIsolation,
    /// The addresses for tasks with a network of their own.
    pub(crate) task_network: Option<Subnet>,
    /// The resources for tasks, from the flags.
    pub(crate) limits: capacity::Limits,
    /// The maximum of the outputs that it keeps of ended tasks.
    pub(crate) keep_outputs: Option<Bytes>,
    /// How many bytes of packages it sends to other machines per second; 0: none.
    pub(crate) share_packages: Bytes,
    /// The user ids for tasks.
    pub(crate) uids: Uids,
    /// Whether its tasks stop with it when it is told to stop. When it is killed, they keep
    /// running.
    pub(crate) stop_tasks: bool,
}

/// Listens for the DNS requests of tasks, and lets them know where: at an address of the host, and at
/// the gateway of those with a network of their own. Empty if there is no address for that.
async fn listen_for_names(
    files: &tasks::Files,
    cell: &CellName,
    range: Option<Subnet>,
) -> anyhow::Result<Vec<nameserver::Server>> {
    let host = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    let zone = Zone::new(cell, None)?;
    let settings = |address| {
        let answers = dns::Settings { zone: zone.clone(), recursion: true };
        let resolvers = nameserver::resolvers(&host);
        nameserver::Settings { resolvers, ..nameserver::Settings::new(address, answers) }
    };
    let mut servers = Vec::new();
    servers.extend(names::listen(&files.directory, &settings).await);
    if let Some(server) = servers.first() {
        let address = server.address().ip();
        files.resolver.set(ResolvConf::new(address, format!("{cell}.borg"), &host));
        if let Some(range) = range {
            let of_tasks = names::listen_at_gateway(range.gateway(), &settings).await?;
            servers.push(of_tasks.counted_with(server));
        }
    }
    Ok(servers)
}

/// Answers them, forever.
async fn resolve(
    servers: Vec<nameserver::Server>,
    names: MachineNames,
) -> std::convert::Infallible {
    let names = Arc::new(names);
    let mut serving = tokio::task::JoinSet::new();
    for server in servers {
        serving.spawn(server.serve(Arc::clone(&names)));
    }
    while let Some(ended) = serving.join_next().await {
        tracing::error!("DNS is not served any more: {ended:?}");
    }
    std::future::pending().await
}

/// The host's resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The grace period of tasks that stop with the Borglet.
const STOP_NOTICE_MS: u64 = 3_000;
/// How long starts that are under way may take before all tasks are ended.
const STARTS_PATIENCE: Duration = Duration::from_secs(5);

/// Runs a Borglet until it is told to stop.
fn run(mut options: Options, listener: TcpListener) -> anyhow::Result<()> {
    let ports_lock = options.ports_lock.take();
    let options = &options;
    let isolation = linux::machine::preflight()?;
    linux::machine::protect_from_oom_killer();
    if let Some(range) = options.task_network {
        task_network::prepare(range, isolation)?;
    }
    let files = tasks::Files::open(&options.directory, isolation, options.port_isolation)?
        .for_tasks_in(options.task_network)
        .keeping(kept_outputs::OutputsHere::at_most(options.keep_outputs))
        .holding(ports_lock);
    options.limits.check(&files.directory, options.ports, isolation)?;
    // An agent runs on every machine and has little to do: few threads, since each costs memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(3)
        .thread_name("borglet")
        .enable_all()
        .build()
        .context("cannot start the Borglet's threads")?;
    let joined = process::block_on(&runtime, async {
        tokio::select! {
            joined = join(options) => joined.map(Some),
            () = shutdown::requested() => Ok(None),
        }
    })?;
    let Some(credentials) = joined else { return Ok(()) };
    let files = files.of_machine(credentials.identity());
    let credentials = Rotating::new(credentials)?;
    let renewed = renewed(options, &credentials)?;
    let machine = capacity::describe(&files, options.ports, options.limits, isolation)?;
    let range = options.task_network;
    tracing::info!("this machine has {} for tasks", machine.report.capacity);
    process::block_on(&runtime, async {
        let masters = renewed.masters.clone();
        let cell = CellName::new(credentials.credentials().cell())?;
        // Before a task starts.
        let dns = listen_for_names(&files, &cell, range).await?;
        let dns_address = dns.first().map(nameserver::Server::address);
        let names = MachineNames::new(
            credentials.clone(),
            masters.clone(),
            dns_address,
            files.owners.clone(),
        );
        let dns_metrics = dns.first().map(|dns| Arc::clone(dns.metrics()));
        let connection = MasterConnection::new(credentials.clone(), masters.clone());
        let clients = Clients::new(&files, credentials.clone(), connection.clone());
        // Before the cell hears of this machine.
        let probed = probe::run(&files, options.uids).await;
        if let Err(reason) = &probed {
            tracing::error!("this machine can run no tasks: {reason}");
        }
        let packages = Packages::new(&files, credentials.clone(), masters.clone())?;
        let secrets = secrets::TaskSecrets::new(&files, connection);
        let provided = Provided { clients: clients.clone(), packages: packages.clone(), secrets };
        let driver = driver::start(files.clone(), provided, machine, options.uids, probed)?;
        let cell = credentials.credentials().cell().to_owned();
        let uploads = outputs::upload(files.clone(), credentials.clone(), masters.clone());
        let service =
            service::Service::new(driver.clone(), files.clone(), cell, masters, packages.clone());
        let unpolled = service.unpolled();
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
        let sharing = Sharing::new(packages.clone(), &credentials, options.share_packages)?;
        let fetched = packages.counts();
        let routes = service
            .routes(&refusals, dns_metrics, credentials.clone(), sharing, &fetched)
            .prepare();
        let serving =
            rpc::transport::serve(listener, &credentials, routes, limits, &refusals, stopped);
        tokio::select! {
            served = serving => served?,
            never = renewed.run() => match never {},
            never = clients.run() => match never {},
            never = unpolled => match never {},
            never = packages.run() => match never {},
            never = uploads => match never {},
            never = names.clone().follow() => match never {},
            never = resolve(dns, names) => match never {},
        }
        driver.check()
    })?;
    // A start that is under way has to be over before tasks are ended: it would be missed.
    let patience = if options.stop_tasks { STARTS_PATIENCE } else { Duration::from_millis(200) };
    runtime.shutdown_timeout(patience);
    files.shims().stop();
    if options.stop_tasks {
        end(&files)?;
    }
    Ok(())
}

/// The credentials in its directory; new ones if it has a token that it has not used.
async fn join(options: &Options) -> anyhow::Result<Credentials> {
    let Options { credentials: directory, stem, join, .. } = options;
    if let Some(joining) = Joining::new(directory, join.as_ref())? {
        return joining.as_machine(stem, options.name.as_ref(), &options.address).await;
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
    let masters = Masters::new([&options.masters[..], &kept].concat());
    Ok(Renewed::new(credentials, &options.credentials, &options.stem, masters))
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
    files.sweep_savers()?;
    files.release_alloc_networks();
    clients::remove_all(files);
    secrets::remove_all(files);
    probe::clear(files)?;
    files.remove_cgroup()
}
