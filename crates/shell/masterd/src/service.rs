//! The master's API: services by subject behind one door, and what else a master serves. Reads are
//! answered from the newest view, with its index; mutations go through the core and are answered when they
//! are committed.
//!
//! A request of a user, a tool or a task passes [`dispatch`], waits at the [`gate`], and reaches the service
//! of its subject: a struct with limits of its own, whose methods authenticate, authorise, bound, forward
//! and answer by the [`door`]. Each subject has a file of its name.

mod access;
mod announced_stores;
mod checkpoint_download;
mod dispatch;
mod door;
mod enrolment;
mod event_digests;
mod event_transfer;
pub(crate) mod event_watch;
mod exec;
mod gate;
mod health;
mod history;
mod holding;
mod issuer;
mod job_watch;
mod jobs;
pub(crate) mod limits;
mod locks;
mod logs;
mod machines;
pub(crate) mod names;
mod outputs;
mod packages;
mod process_discovery;
mod quota;
mod replicas;
mod replication;
mod routes;
mod scheduling;
mod scrape;
mod scrape_usage;
mod secrets;
mod service_discovery;
mod service_endpoints;
mod services;
mod submission;
mod summary;
mod task_certificates;
mod task_metrics;
mod tasks;
#[cfg(test)]
mod test_services;
mod updates;
mod usage;
mod usage_history;
mod whole_cell;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::Span;
use rpc::transport::Refusals;
use rpc::{Authority, Rotating};
use tokio_stream::Stream;
use tonic::{Response, Status};

use self::access::Access;
use self::door::Door;
use self::enrolment::Enroller;
use self::event_watch::EventSource;
use self::health::Monitoring;
use self::history::History;
use self::issuer::Issuer;
use self::jobs::Jobs;
use self::locks::Locks;
use self::machines::Machines;
use self::names::NameService;
use self::packages::Packages;
use self::quota::Quota;
use self::replicas::Replicas;
use self::scheduling::Schedulers;
use self::scrape::Sources;
use self::secrets::Secrets;
use self::services::Services;
use self::tasks::Tasks;
use self::updates::Updates;
use self::usage::Usage;
use self::whole_cell::WholeCell;
use crate::handle::Core;
use crate::metrics::{Metrics, Requests};
use crate::past::Past;
use crate::secret_keys::SecretKeys;
use crate::streams::Streams;
use crate::{agents, peers};

/// What the services of a replica use.
pub(crate) struct Components {
    pub(crate) core: Core,
    pub(crate) agents: agents::Handle,
    pub(crate) peers: peers::Handle,
    pub(crate) authority: Arc<Authority>,
    /// What the replica signs statements with.
    pub(crate) credentials: Rotating,
    /// What secrets are sealed with.
    pub(crate) secret_keys: SecretKeys,
    /// The validity of certificates for machines and schedulers.
    pub(crate) validity: Duration,
    pub(crate) past: Past,
    pub(crate) events: EventSource,
    pub(crate) refusals: Refusals,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether the metrics name tasks.
    pub(crate) task_metrics: bool,
    /// What the server of DNS counts, if there is one.
    pub(crate) dns: Option<Arc<nameserver::Metrics>>,
    /// Who is signed in to Sigma, if it is served here.
    pub(crate) sigma: Option<::sigma::Sessions>,
}

/// The services of a replica.
#[derive(Clone)]
pub(crate) struct Api {
    door: Door,
    agents: agents::Handle,
    requests: Arc<Requests>,
    jobs: Jobs,
    updates: Updates,
    tasks: Tasks,
    machines: Machines,
    cell: WholeCell,
    access: Access,
    quota: Quota,
    usage: Usage,
    history: History,
    names: NameService,
    services: Services,
    packages: Packages,
    secrets: Secrets,
    locks: Locks,
    replicas: Replicas,
    schedulers: Schedulers,
    enroller: Enroller,
    monitoring: Monitoring,
}

pub(super) type Answer<T> = Result<Response<T>, Status>;
pub(super) type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The maximum number of stream messages that wait for a slow reader.
pub(super) const STREAM_QUEUE: usize = 64;

impl Api {
    pub(super) fn new(components: Components) -> Self {
        let Components { core, agents, peers, authority, past, metrics, .. } = components;
        let door = Door::new(core, peers, authority.cell(), past, metrics);
        let packages = Packages::new(door.clone(), components.credentials.clone(), &authority);
        let issuer = Issuer { authority, validity: components.validity };
        let jobs = Jobs::new(door.clone(), Usage::new(door.clone(), agents.clone()));
        let tasks = Tasks::new(door.clone(), agents.clone());
        let history = History::new(door.clone(), components.events);
        let names = NameService::new(door.clone());
        let locks = Locks::new(door.clone());
        let [askers, rebuilding] = door.limits();
        let [log_readers, metrics_readers, commands, output_readers] = tasks.limits();
        let limits: Arc<[Streams]> = [
            jobs.watchers(),
            locks.watchers(),
            log_readers,
            metrics_readers,
            commands,
            output_readers,
            names.watches(),
            askers,
            history.events.followers(),
            history.events.readers(),
            rebuilding,
        ]
        .map(Streams::clone)
        .into();
        let requests = routes::requests();
        let registry = scrape::registry(Sources {
            metrics: Arc::clone(&door.metrics),
            credentials: components.credentials.clone(),
            core: door.core.clone(),
            refusals: components.refusals,
            requests: Arc::clone(&requests),
            usage: Arc::clone(agents.usage()),
            task_metrics: components.task_metrics,
            dns: components.dns,
            limits: Arc::clone(&limits),
        });
        Self {
            jobs,
            updates: Updates::new(door.clone()),
            tasks,
            machines: Machines::new(door.clone(), agents.clone()),
            cell: WholeCell::new(door.clone(), limits),
            access: Access::new(door.clone(), issuer.clone(), components.sigma),
            quota: Quota::new(door.clone()),
            usage: Usage::new(door.clone(), agents.clone()),
            history,
            names,
            services: Services::new(door.clone()),
            packages,
            secrets: Secrets::new(door.clone(), components.secret_keys.clone()),
            locks,
            replicas: Replicas::new(door.clone()),
            schedulers: Schedulers::new(door.clone(), agents.clone()),
            enroller: Enroller::new(door.clone(), issuer, components.secret_keys),
            monitoring: Monitoring::new(door.clone(), Arc::new(registry)),
            door,
            agents,
            requests,
        }
    }

    /// Keeps the keys with which secrets are sealed. Never ends.
    pub(super) fn keep_secret_keys(&self) -> impl Future<Output = ()> + use<> {
        secrets::keep(self.door.core.clone(), self.secrets.keys())
    }

    /// Records the history of what the cell uses, at each multiple of an interval. Never ends.
    pub(super) fn record_usage(&self, interval: Span) -> impl Future<Output = ()> + use<> {
        self.usage.clone().record(interval)
    }
}

pub(super) fn unexpected(outcome: &impl std::fmt::Debug) -> Status {
    Status::internal(format!("unexpected outcome {outcome:?}"))
}

pub(super) use crate::request::malformed;
