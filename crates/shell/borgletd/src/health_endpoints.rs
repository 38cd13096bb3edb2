//! The health and metrics endpoints of a Borglet: `/livez`, `/readyz` and `/metrics`, for every
//! peer with a certificate of the cell. They name no tasks or users, since a Borglet does not know
//! about revocations.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use borglet::TaskStatus;
use model::VolumeFill;
use nameserver::Exported;
use process::health::{self, Check};
use process::metrics::{Process, counters, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use rpc::transport::{Cause, Refusals};
use rpc::{Identity, Rotating};

use super::driver::Driver;
use super::message::Obeyed;
use super::packages::FetchCounts;
use super::unpolled::Unpolled;

/// The counters of a Borglet.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) polls: Counter,
    pub(super) orders_obeyed: Counter,
    pub(super) orders_refused: Counter,
    pub(super) unpolled: Unpolled,
    pub(super) kept_outputs: Gauge,
}

impl Metrics {
    /// Counts an order.
    pub(super) fn ordered(&self, obeyed: Obeyed) {
        match obeyed {
            Obeyed::Yes => drop(self.orders_obeyed.inc()),
            Obeyed::TooOld => drop(self.orders_refused.inc()),
            // The sender repeats it.
            Obeyed::NotNow => {}
        }
    }
}

/// What travels of packages.
#[derive(Debug)]
pub(super) struct PackageCounts {
    pub(super) fetched: FetchCounts,
    /// Bytes of chunks sent to other machines.
    pub(super) sent: Counter,
}

#[derive(Clone)]
struct Watched {
    driver: Driver,
    unpolled: Unpolled,
    registry: Arc<Registry>,
}

impl Watched {
    fn driver_check(&self) -> Check {
        Check::new("driver", self.driver.check().map_err(|error| format!("{error:#}")))
    }
}

/// The endpoints, for peers of a cell.
pub(super) fn pages(
    cell: &str,
    driver: Driver,
    metrics: &Metrics,
    refusals: &Refusals,
    dns: Option<Arc<nameserver::Metrics>>,
    credentials: Rotating,
    packages: &PackageCounts,
) -> Router {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process::with(credentials)));
    let help = "Polls answered";
    registry.register("bourg_borglet_polls", help, metrics.polls.clone());
    let help = "Orders obeyed";
    registry.register("bourg_borglet_orders_obeyed", help, metrics.orders_obeyed.clone());
    let help = "Orders rejected as older than one obeyed before";
    registry.register("bourg_borglet_orders_refused", help, metrics.orders_refused.clone());
    let caps = driver.caps();
    let help = "CPU caps set or lowered because a latency-sensitive task above its limit starved batch tasks";
    registry.register("bourg_borglet_cpu_caps", help, caps.caps.clone());
    let help = "Tasks that are capped for that reason now";
    registry.register("bourg_borglet_tasks_capped", help, caps.capped.clone());
    let help = "Bytes of the outputs of ended tasks that are kept";
    registry.register("bourg_borglet_outputs_bytes", help, metrics.kept_outputs.clone());
    let (help, shortages) = ("How often memory ran short", driver.memory_shortages().clone());
    registry.register("bourg_borglet_memory_shortages", help, shortages);
    let fetched = &packages.fetched;
    for (name, help, counter) in [
        (
            "bourg_borglet_packages_sent_bytes",
            "Bytes of packages sent to other machines",
            &packages.sent,
        ),
        (
            "bourg_borglet_packages_from_stores_bytes",
            "Bytes of packages from stores",
            &fetched.from_stores,
        ),
        (
            "bourg_borglet_packages_from_machines_bytes",
            "Bytes of packages from other machines",
            &fetched.from_machines,
        ),
        (
            "bourg_borglet_packages_machines_banned",
            "Machines from which nothing was fetched for a while, because they sent nothing or wrong bytes",
            &fetched.banned,
        ),
    ] {
        registry.register(name, help, counter.clone());
    }
    if let Some(dns) = dns {
        registry.register_collector(Box::new(Exported(dns)));
    }
    registry.register_collector(Box::new(Tasks(driver.clone())));
    registry.register_collector(Box::new(Ready(driver.clone())));
    registry.register_collector(Box::new(Ended(driver.clone())));
    registry.register_collector(Box::new(LayersHere(driver.clone())));
    registry.register_collector(Box::new(Volumes(driver.clone())));
    registry.register_collector(Box::new(Refused(refusals.clone())));
    let unpolled = metrics.unpolled.clone();
    let watched = Watched { driver, unpolled, registry: Arc::new(registry) };
    Router::new()
        .route("/livez", get(lives))
        .route("/readyz", get(is_ready))
        .route("/metrics", get(metrics_of))
        .with_state(watched)
        .layer(from_fn_with_state(Arc::<str>::from(cell), lookers))
}

/// Rejects peers without permission.
async fn lookers(State(cell): State<Arc<str>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match rpc::transport::peer_identity(&health::asked(&parts), &cell) {
        Ok(
            Identity::Master
            | Identity::Borglet(_)
            | Identity::Scheduler(_)
            | Identity::Packages(_)
            | Identity::User(_)
            | Identity::Task { .. },
        ) => next.run(Request::from_parts(parts, body)).await,
        Ok(Identity::Joining(_)) => health::refused(&tonic::Status::permission_denied(
            "a join token can only be used to join the cell",
        )),
        Err(status) => health::refused(&status),
    }
}

async fn lives(State(watched): State<Watched>, uri: Uri) -> Response {
    health::answer(&uri, &[watched.driver_check()])
}

/// It adopts existing tasks before it listens, may still be unable to run others, and may be unknown to
/// its cell by now.
async fn is_ready(State(watched): State<Watched>, uri: Uri) -> Response {
    let tasks = not_ready(&watched.driver).map_or(Ok(()), Err);
    let polled = watched.unpolled.check();
    let (tasks, polled) = (Check::new("tasks", tasks), Check::new("polled", polled));
    health::answer(&uri, &[watched.driver_check(), tasks, polled])
}

/// Why the machine can run no tasks, if it cannot.
fn not_ready(driver: &Driver) -> Option<String> {
    driver.reports().borrow().report.machine.not_ready.clone()
}

async fn metrics_of(State(watched): State<Watched>) -> Response {
    health::metrics(&watched.registry)
}

/// Rejected connections and requests.
#[derive(Debug)]
struct Refused(Refusals);

impl Collector for Refused {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let causes = Cause::ALL.map(|cause| ([("cause", cause.as_str())], self.0.total(cause)));
        let help = "Rejected connections and requests, by cause.";
        counters(&mut encoder, "bourg_borglet_requests_refused", help, causes)
    }
}

/// Whether the machine can run tasks.
#[derive(Debug)]
struct Ready(Driver);

impl Collector for Ready {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ready = ConstGauge::new(i64::from(not_ready(&self.0).is_none()));
        let help = "1 if this machine can run tasks, as its last probe task found.";
        let kind = ready.metric_type();
        ready.encode(encoder.encode_descriptor("bourg_borglet_ready", help, None, kind)?)
    }
}

/// The layers of packages and images.
#[derive(Debug)]
struct LayersHere(Driver);

impl Collector for LayersHere {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (layers, bytes) = self.0.layers().totals();
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let (layers, bytes) = (gauge(layers as u64), gauge(bytes.0));
        let (name, help) =
            ("bourg_borglet_layers", "Layers of packages and images on this machine.");
        let kind = layers.metric_type();
        layers.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        let (name, help) = ("bourg_borglet_layer_bytes", "Bytes of the files of these layers.");
        let kind = bytes.metric_type();
        bytes.encode(encoder.encode_descriptor(name, help, None, kind)?)
    }
}

/// How full the volumes are that tasks have.
#[derive(Debug)]
struct Volumes(Driver);

impl Collector for Volumes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = Arc::clone(&self.0.reports().borrow().report);
        let all = &report.machine.volumes;
        let mut gauge = |name: &str, help: &str, value: fn(&VolumeFill) -> u64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for fill in all.iter().filter(|fill| fill.size.0 > 0) {
                let labels = [("volume", fill.volume.as_str())];
                ConstGauge::new(value(fill)).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let help = "Bytes in use of the file system of a volume that a task has had, within a fiftieth of its size.";
        gauge("bourg_borglet_volume_used_bytes", help, |fill| fill.used.0)?;
        let help = "Size of that file system.";
        gauge("bourg_borglet_volume_size_bytes", help, |fill| fill.size.0)
    }
}

/// The tasks that rules have ended.
#[derive(Debug)]
struct Ended(Driver);

impl Collector for Ended {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ended = self.0.ended_by_rule().counts();
        let ended = ended.map(|(rule, count)| ([("rule", rule.name())], count));
        let help = "Tasks that this Borglet has ended, by rule.";
        counters(&mut encoder, "bourg_borglet_ended_by_rule", help, ended)
    }
}

/// The tasks and allocs of the newest report.
#[derive(Debug)]
struct Tasks(Driver);

impl Collector for Tasks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = Arc::clone(&self.0.reports().borrow().report);
        let (mut starting, mut running, mut healthy, mut stopping, mut ended) = (0, 0, 0, 0, 0);
        for task in &report.tasks {
            *match task.status {
                TaskStatus::Starting => &mut starting,
                TaskStatus::Running { healthy: Some(true) } => &mut healthy,
                TaskStatus::Running { .. } | TaskStatus::Unready => &mut running,
                TaskStatus::Stopping => &mut stopping,
                TaskStatus::Ended(_, _) => &mut ended,
            } += 1;
        }
        let states = [
            ("starting", starting),
            ("running", running),
            ("healthy", healthy),
            ("stopping", stopping),
            ("ended", ended),
        ];
        let states = states.map(|(state, count)| ([("state", state)], count));
        let help = "Tasks and allocs on this machine, by state; running are those not known to be \
                    healthy.";
        gauges(&mut encoder, "bourg_borglet_tasks", help, states)
    }
}
