//! The Borgmaster's process: sockets, disk and threads around one [`replica::Replica`].
//!
//! Threads (design, section 2): `core` takes every step of the replica; `log` writes and syncs its
//! records; `agents` polls the machines; `serve` answers requests from views of the cell. The
//! queues between them are bounded; requests that do not fit are rejected.
//!
//! From the bottom up, each module uses only those before it: `caller` identifies callers,
//! `request` and `message` are the core's inputs, `admission` limits them; `metrics` counts, `view`
//! is what is read; `disk`, `agents` and `peers` are the core's threads for the disk, the machines
//! and the other replicas; `handle` is the core as others see it, and `core` its thread; `reads`
//! makes answers from a cell, and `service` serves all of it.

mod admission;
mod agents;
mod arguments;
mod bounds;
mod caller;
mod chunks;
mod core;
mod disk;
mod estimates;
mod handle;
mod held_packages;
pub mod identity;
pub mod in_process;
mod message;
mod metrics;
mod name_server;
mod names;
pub mod past;
mod peers;
mod previous_cell;
mod rate_limited_log;
mod reads;
mod records;
pub mod recover;
mod request;
mod restarts;
pub mod restorations;
mod secret_keys;
mod service;
mod sigma_server;
mod streams;
mod threads;
mod unresponsive;
mod usage;
mod usage_history;
mod view;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use disk::{checkpointer, events, log};
use identity::ReplicaIdentity;
use model::{DirectoryId, Level, LogIndex, Span};
use name_server::{DnsOptions, ReplicaNames};
use process::joining::{Given, Joining};
use process::{notify, renewal, shutdown};
use replica::Bootstrap;
use rpc::{Authority, Identity, Rotating, Validity};
use service::event_watch::EventSource;
use service::{Api, Components};
use sigma_server::SigmaOptions;
use store::{DataDirectory, Retention};
use tokio::sync::mpsc;

pub use self::arguments::{MasterArgs, ReplicaArgs, start};
pub use self::estimates::ReclaimArgs;
pub use self::identity::Dismissed;
pub use self::records::Records;
pub use self::unresponsive::SilenceArgs;
pub use self::usage::UsageMemory;
pub use self::usage_history::UsageHistoryArgs;

/// The options of a master.
#[derive(Clone, Debug)]
struct Options {
    /// Its data directory.
    pub(crate) directory: PathBuf,
    /// Whether the data directory has to exist: a deleted one is not created anew.
    pub(crate) existing: bool,
    /// The cell that it bootstraps; `None` if it joined one, or has run before.
    pub(crate) bootstrap: Option<Bootstrap>,
    /// The token with which it joins.
    pub(crate) join: Option<Given>,
    /// The address for other replicas and clients, as `host:port`.
    pub(crate) address: String,
    /// The highest level of the state machine that it may reach.
    pub(crate) level: Level,
    /// The master's settings.
    pub(crate) settings: master::Settings,
    /// How much of the log and its checkpoints to keep.
    pub(crate) history: Retention,
    /// How many events to keep.
    pub(crate) events: Retention,
    /// The validity of the certificates that it issues to itself, machines and schedulers.
    pub(crate) validity: Duration,
    /// Whether its metrics name tasks.
    pub(crate) task_metrics: bool,
    /// How often it records what the cell uses.
    pub(crate) usage_history_interval: Span,
    /// Where it serves DNS, if it does.
    pub(crate) dns: Option<DnsOptions>,
    /// Where it serves Sigma, if it does.
    pub(crate) sigma: Option<SigmaOptions>,
}

/// The maximum number of messages that wait for the core, and of requests that wait for their
/// answer.
const CORE_QUEUE: usize = 16_384;
/// The maximum bytes of requests that wait for their answer.
const WAITING_BYTES: usize = 256 << 20;

/// Runs a master until it is told to stop.
fn run(options: &Options, listener: TcpListener) -> anyhow::Result<()> {
    let directory = match options.existing {
        true => identity::existing(&options.directory)?,
        false => DataDirectory::open_or_create(&options.directory)?,
    };
    join(&directory, options.join.as_ref())?;
    let itself = ReplicaIdentity::read(&options.directory)?;
    let bootstrap = itself.id() == identity::FIRST;
    let authority = authority(&directory, options.bootstrap.as_ref(), bootstrap)?;
    let authority = Arc::new(authority);
    let validity = Validity::lasting(options.validity);
    let credentials = Rotating::new(authority.issue(&Identity::Master, validity)?)?;
    let secret_keys = secret_keys::SecretKeys::open(&directory.tls(), credentials.clone())?;
    let refusals = rpc::transport::Refusals::default();
    let (log, recovered) = recover::recover(&directory)?;
    identity::check(&directory, itself.id())?;
    if bootstrap && recovered.is_nothing() {
        itself.check_founds(&directory)?;
    }
    let epoch = recovered.restore_epoch;
    previous_cell::wait_until_gone(directory.path(), &itself, epoch, &credentials)?;
    let began = recovered.checkpoint.as_ref().map(|(cell, _)| cell.clone());
    let metrics = Arc::<metrics::Metrics>::default();
    metrics.restarts.inc_by(restarts::count(directory.path()));

    let (to_core, from_all) = mpsc::channel(CORE_QUEUE);
    let begins = directory.log_begins();
    let (to_log, log_thread) = log::start(log, begins, to_core.clone(), Arc::clone(&metrics))?;
    let agents =
        agents::start(&credentials, refusals.clone(), to_core.clone(), Arc::clone(&metrics))?;
    let (me, own) = (itself.id(), options.address.as_str());
    let peers = peers::start(&credentials, me, own, itself.replicas(), to_core.clone())?;
    let bootstrap = options.bootstrap.clone().filter(|_| bootstrap);
    let settings = replica::Settings {
        id: itself.id(),
        address: options.address.as_str().into(),
        directory: DirectoryId(directory.id()),
        level: options.level,
        master: options.settings,
        waiting_max: CORE_QUEUE,
        ..replica::Settings::default()
    };
    let limits = admission::AdmissionLimits { requests: CORE_QUEUE, bytes: WAITING_BYTES };
    let next = LogIndex(recovered.checkpoint.as_ref().map_or(0, |(cell, _)| cell.index().0) + 1);
    let (recorder, keeper) = events::start(
        &directory.events(),
        events::HistoryStart { next, epoch },
        peers.handle(),
        options.events,
        to_core.clone(),
        Arc::clone(&metrics),
    )?;
    let checkpoints = checkpointer::Checkpoints::new(
        directory.checkpoints(),
        directory.log(),
        options.history,
        to_core.clone(),
        Arc::clone(&metrics),
    );
    if let Some(cell) = began {
        checkpointer::check_in_background(cell, to_core.clone())?;
    }
    let core = core::start(core::Components {
        settings,
        recovered,
        bootstrap,
        from_all,
        to_core,
        to_log,
        agents: agents.handle(),
        peers: peers.handle(),
        checkpoints,
        recorder,
        admission: admission::Admission::new(limits),
        metrics: Arc::clone(&metrics),
    })?;

    let estimates = estimates::start(
        &options.settings,
        core.clone(),
        Arc::clone(agents.handle().usage()),
        Arc::clone(&metrics.estimates),
    )?;
    let serve = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("serve")
        .enable_all()
        .build()
        .context("cannot start the threads that serve")?;
    let dns = options.dns.as_ref().map(|dns| name_server::bind(dns, authority.cell()));
    let dns = dns.map(|bound| process::block_on(&serve, bound)).transpose()?;
    let resolved = core.watch();
    let sigma = options.sigma.as_ref().map(sigma_server::bind).transpose()?;
    let api = Api::new(Components {
        core: core.clone(),
        agents: agents.handle(),
        peers: peers.handle(),
        authority: Arc::clone(&authority),
        credentials: credentials.clone(),
        secret_keys,
        validity: options.validity,
        past: past::Past::of(directory.path()),
        events: EventSource::new(&directory.events(), keeper.kept()),
        refusals: refusals.clone(),
        metrics,
        task_metrics: options.task_metrics,
        dns: dns.as_ref().map(|dns| Arc::clone(dns.metrics())),
        sigma: sigma.as_ref().map(|bound| bound.sessions.clone()),
    });
    serve.spawn(api.record_usage(options.usage_history_interval));
    serve.spawn(api.keep_secret_keys());
    let routes = api.routes(directory.checkpoints())?;
    let limits = rpc::transport::Limits { drain: Duration::from_millis(200), ..Default::default() };
    let served = process::block_on(&serve, async {
        let stopped = async {
            tokio::select! {
                () = shutdown::requested() => core.hand_over().await,
                () = core.stopped() => {}
            }
            notify::stopping();
        };
        let pages = routes.clone();
        let serving =
            rpc::transport::serve(listener, &credentials, routes, limits, &refusals, stopped);
        let showing = async {
            if let Some(sigma) = sigma {
                let ended = sigma.serve(pages, &authority, &refusals).await;
                tracing::error!("Sigma is not served any more: {ended:?}");
            }
            std::future::pending().await
        };
        let ready = async {
            if core.caught_up().await {
                notify::ready();
            }
            std::future::pending().await
        };
        let resolving = async {
            if let Some(dns) = dns {
                let ended = dns.serve(Arc::new(ReplicaNames(resolved))).await;
                tracing::error!("DNS is not served any more: {ended:?}");
            }
            std::future::pending().await
        };
        tokio::select! {
            served = serving => served,
            never = ready => never,
            never = resolving => never,
            never = showing => never,
            never = renewal::of_authority(&credentials, &authority, options.validity) => never,
        }
    });
    serve.shutdown_timeout(Duration::from_millis(200));
    drop(estimates);
    drop(agents);
    drop(peers);
    let ended = core.stop();
    log_thread.join().map_err(|_| anyhow::anyhow!("the thread that writes the log panicked"))?;
    keeper.join()?;
    served?;
    ended
}

/// Joins the cell of a token that was not used here yet.
fn join(directory: &DataDirectory, given: Option<&Given>) -> anyhow::Result<()> {
    let (path, tls) = (directory.path(), directory.tls());
    if let Some(joining) = Joining::new(path, given)? {
        anyhow::ensure!(
            joining.has_begun() || !tls.join("ca.pem").exists(),
            "{} already belongs to a cell: use another directory for the replica that joins {}",
            path.display(),
            joining.cell()
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return process::block_on(&runtime, async {
            tokio::select! {
                joined = joining.as_replica(&tls, |id, others| ReplicaIdentity::new(id, others).write(path)) => joined,
                () = shutdown::requested() => anyhow::bail!("told to stop before it joined"),
            }
        });
    }
    // Otherwise it would bootstrap an unwanted cell of its own.
    anyhow::ensure!(
        given.is_none() || tls.join("ca.pem").exists(),
        "--join gives no join token, and {} belongs to no cell yet: an administrator gets a token by \
         bourg master add",
        path.display()
    );
    Ok(())
}

/// The cell's certificate authority: created at the first start of the replica that bootstraps the
/// cell.
fn authority(
    directory: &DataDirectory,
    named: Option<&Bootstrap>,
    bootstrap: bool,
) -> anyhow::Result<Authority> {
    let path = directory.tls();
    let authority = match named.filter(|_| bootstrap && !path.join("ca.pem").exists()) {
        Some(Bootstrap { name, .. }) => Authority::create(&path, name.as_str())?,
        None => Authority::open(&path).context(
            "this directory belongs to no cell: bootstrap one with --name and --administrator, or \
             join one with --join and a token, which an administrator gets by bourg master add",
        )?,
    };
    let other = named.filter(|named| named.name.as_str() != authority.cell());
    anyhow::ensure!(
        other.is_none(),
        "{} belongs to cell {}, not to {}: use another data directory",
        directory.path().display(),
        authority.cell(),
        other.map(|named| named.name.to_string()).unwrap_or_default()
    );
    Ok(authority)
}
