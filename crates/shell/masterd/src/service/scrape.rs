//! The values that are read at each scrape: the newest view of the cell, the queues, and admission.
//! The cell counts its tasks by state; its machines are counted here, and what its tasks may use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cell::{Cell, Machine, MachineState, Rescheduling, Stages, TaskState};
use model::{Band, NoticeDelivery, NoticeReason, Resources, attribute};
use nameserver::Exported;
use process::clock::wall_clock;
use process::metrics::{Process, counters, gauge, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use rpc::Rotating;
use rpc::transport::{Cause, Refusals};

use crate::disk::{events, log};
use crate::handle::Core;
use crate::metrics::{Metrics, Requests};
use crate::service::limits;
use crate::service::scrape_usage::UsageMetrics;
use crate::streams::Streams;
use crate::usage::UsageMemory;
use crate::view::View;

/// Where the metrics of a master come from.
pub(super) struct Sources {
    pub(super) metrics: Arc<Metrics>,
    /// What the replica serves with.
    pub(super) credentials: Rotating,
    pub(super) core: Core,
    pub(super) refusals: Refusals,
    pub(super) requests: Arc<Requests>,
    pub(super) usage: Arc<UsageMemory>,
    /// Whether they name tasks.
    pub(super) task_metrics: bool,
    pub(super) dns: Option<Arc<nameserver::Metrics>>,
    /// What users share of this replica.
    pub(super) limits: Arc<[Streams]>,
}

/// All metrics of a master.
pub(super) fn registry(sources: Sources) -> Registry {
    let Sources { metrics, core, refusals, requests, usage, task_metrics, dns, limits, .. } =
        sources;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process::with(sources.credentials)));
    metrics.register(&mut registry);
    if let Some(dns) = dns {
        registry.register_collector(Box::new(Exported(dns)));
    }
    registry.register_collector(Box::new(requests));
    let of_usage = UsageMetrics { core: core.clone(), usage, tasks: task_metrics };
    registry.register_collector(Box::new(of_usage));
    registry.register_collector(Box::new(Serving { core, refusals, metrics, limits }));
    registry
}

/// The sources of the values.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) core: Core,
    pub(super) refusals: Refusals,
    pub(super) metrics: Arc<Metrics>,
    /// What users share of this replica.
    pub(super) limits: Arc<[Streams]>,
}

impl Collector for Serving {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let view = self.core.view();
        replica(&mut encoder, &view)?;
        machines(&mut encoder, &view.cell)?;
        tasks(&mut encoder, &view.cell)?;
        reservations(&mut encoder, &view.cell)?;
        self.waiting(&mut encoder)?;
        self.rejected_samples(&mut encoder)?;
        self.evictions(&mut encoder)?;
        self.refused(&mut encoder)?;
        self.limits(&mut encoder, &view.cell)?;
        self.past(&mut encoder)
    }
}

impl Serving {
    /// Queues and waiting requests.
    fn waiting(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (core, of) = self.core.queue();
        let (log, events) = (self.metrics.log.queue.get(), self.metrics.events.queue.get());
        let queues = [
            ("core", core as u64, of),
            ("log", log, log::QUEUE),
            ("events", events, events::QUEUE),
        ];
        let help = "Length of a thread's queue.";
        let used = queues.map(|(queue, used, _)| ([("queue", queue)], used));
        gauges(encoder, "bourg_queue_length", help, used)?;
        let help = "Capacity of a thread's queue.";
        let most = queues.map(|(queue, _, most)| ([("queue", queue)], most as u64));
        gauges(encoder, "bourg_queue_capacity", help, most)?;
        let (requests, bytes) = self.core.admission().waiting();
        let help = "Requests waiting for their answer.";
        gauge(encoder, "bourg_waiting_requests", help, requests)?;
        gauge(encoder, "bourg_waiting_bytes", "Bytes of the waiting requests.", bytes)
    }

    fn refused(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let shed = self.core.admission().refused();
        let shed = shed.map(|(band, count)| {
            ([("cause", "overload"), ("band", band.map_or("none", Band::name))], count)
        });
        let untrusted = Cause::ALL.map(|cause| (cause.as_str(), self.refusals.total(cause)));
        let others = [("no_room", self.metrics.no_room.get())].into_iter().chain(untrusted);
        let others = others.map(|(cause, count)| ([("cause", cause), ("band", "none")], count));
        let help =
            "Rejected requests, by cause, and under overload by the band of the submitted job.";
        counters(encoder, "bourg_requests_refused", help, shed.chain(others))
    }

    /// What is used of what users share.
    fn limits(&self, encoder: &mut DescriptorEncoder<'_>, cell: &Cell) -> fmt::Result {
        let used = limits::used(cell, &self.limits);
        let help = "What users hold of a bound that they share.";
        let held = used.iter().map(|of| ([("limit", of.name)], of.held()));
        gauges(encoder, "bourg_shared_limit_held", help, held)?;
        let help = "A bound that users share.";
        let max = used.iter().map(|of| ([("limit", of.name)], of.max));
        gauges(encoder, "bourg_shared_limit_max", help, max)?;
        let help = "Requests that were rejected because a user had its share of a bound, or nothing was free.";
        let rejected = used.iter().filter_map(|of| Some(([("limit", of.name)], of.rejected?)));
        counters(encoder, "bourg_shared_limit_rejected", help, rejected)
    }

    /// Samples of usage that no estimate used.
    fn rejected_samples(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rejected = self.metrics.estimates.rejected();
        let help = "Samples of usage that the rounds of estimates rejected, by reason; one that stays the \
                    newest counts in each round.";
        let counts = rejected.map(|(reason, count)| ([("reason", reason)], count));
        counters(encoder, "bourg_usage_samples_rejected", help, counts)
    }

    fn evictions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.metrics.evictions.total().by_cause();
        let help = "Evictions of tasks, by cause, since this replica had applied its log.";
        let counts = counts.map(|(cause, count)| ([("cause", cause)], count));
        counters(encoder, "bourg_evictions", help, counts)
    }

    /// The history on disk.
    fn past(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = (
            "bourg_checkpoint_age_seconds",
            "Age of the newest checkpoint; no value if there is none.",
        );
        let age = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let newest = self.metrics.checkpoints.newest.get();
        if newest > 0 {
            let since = Duration::from_micros(wall_clock().0.saturating_sub(newest));
            ConstGauge::new(since.as_secs_f64()).encode(age)?;
        }
        let events = &self.metrics.events;
        let lag = match events.waiting_bytes.get() {
            0 => 0,
            _ => events.recorded.get().saturating_sub(events.kept.get()),
        };
        let help =
            "How far the events on the disk are behind the newest operation, in the cell's time.";
        let lag = Duration::from_micros(lag).as_secs_f64();
        gauge(encoder, "bourg_event_lag_seconds", help, lag)
    }
}

/// The replica, and its followers.
fn replica(encoder: &mut DescriptorEncoder<'_>, view: &View) -> fmt::Result {
    let help = "1 if this replica leads the cell, else 0.";
    gauge(encoder, "bourg_leads", help, u32::from(view.leads.is_some()))?;
    let help = "The newest operation that this replica has applied.";
    gauge(encoder, "bourg_applied_index", help, view.cell.index().0)?;
    let help = "Schedulers that follow this replica.";
    gauge(encoder, "bourg_schedulers", help, view.followers)?;
    let help = "Violated invariants that the last check of the cell found; above 0 is a bug.";
    gauge(encoder, "bourg_contradictions", help, view.violations)?;
    gauge(encoder, "bourg_sessions", "Open sessions.", view.cell.session_count())
}

fn machines(encoder: &mut DescriptorEncoder<'_>, cell: &Cell) -> fmt::Result {
    let (mut joining, mut up, mut not_ready, mut unreachable, mut down) = (0, 0, 0, 0, 0);
    for machine in cell.machines() {
        *match machine.state {
            MachineState::Joining => &mut joining,
            MachineState::Up if machine.report.not_ready.is_some() => &mut not_ready,
            MachineState::Up => &mut up,
            MachineState::Unreachable { .. } => &mut unreachable,
            MachineState::Down { .. } => &mut down,
        } += 1;
    }
    let states = [
        ("joining", joining),
        ("up", up),
        ("not-ready", not_ready),
        ("unreachable", unreachable),
        ("down", down),
    ];
    let states = states.map(|(state, count)| ([("state", state)], count));
    gauges(encoder, "bourg_machines", "Machines of the cell, by state.", states)?;
    let rejects = |machine: &&Arc<Machine>| machine.attribute(attribute::REJECTS_ORDERS).is_some();
    let rejecting = cell.machines().filter(rejects).count();
    let help = "Machines that answer and reject the cell's orders.";
    gauge(
        encoder,
        "bourg_machines_rejecting_orders",
        help,
        u32::try_from(rejecting).unwrap_or(u32::MAX),
    )?;
    if let Some(last) = cell.last_backup() {
        let help =
            "When the last backup of the cell was saved, since 1970; absent before the first one.";
        gauge(encoder, "bourg_last_backup_timestamp_seconds", help, last.at.0 / 1_000_000)?;
    }
    let stopped = matches!(cell.rescheduling(), Rescheduling::Stopped { .. });
    let help = "1 if rescheduling has stopped because too many machines are unreachable, else 0.";
    gauge(encoder, "bourg_rescheduling_stopped", help, u32::from(stopped))
}

/// What running tasks may use and what is reserved for them, by band: of all machines, so each replica
/// says the same.
fn reservations(encoder: &mut DescriptorEncoder<'_>, cell: &Cell) -> fmt::Result {
    let none = (Resources::default(), Resources::default());
    let mut bands = BTreeMap::from(Band::ALL.map(|band| (band, none)));
    for job in cell.jobs().filter(|job| job.running() > 0 && !job.spec.kind.is_alloc_set()) {
        let (limit, reserved) = bands.entry(job.spec.priority.band()).or_default();
        for (index, task) in job.tasks() {
            if matches!(task.state, TaskState::Running(_)) {
                *limit = limit.plus(job.limit(index));
                *reserved = reserved.plus(job.reservation(index));
            }
        }
    }
    let mut family = |name: &str, help: &str, value: fn(&(Resources, Resources)) -> f64| {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        bands.iter().try_for_each(|(band, sums)| {
            let labels = [("band", band.name())];
            ConstGauge::new(value(sums)).encode(family.encode_family(&labels)?)
        })
    };
    let help = "Sum of the CPU limits of the running tasks, in normalised cores.";
    family("bourg_limit_cpu_cores", help, |(limit, _)| limit.cpu.0 as f64 / 1_000.0)?;
    let help = "Sum of the CPU reservations of the running tasks, in normalised cores.";
    family("bourg_reserved_cpu_cores", help, |(_, reserved)| reserved.cpu.0 as f64 / 1_000.0)?;
    let help = "Sum of the memory limits of the running tasks, in bytes.";
    family("bourg_limit_memory_bytes", help, |(limit, _)| limit.ram.0 as f64)?;
    let help = "Sum of the memory reservations of the running tasks, in bytes.";
    family("bourg_reserved_memory_bytes", help, |(_, reserved)| reserved.ram.0 as f64)
}

/// The jobs with queued tasks, and since when the first of these waits, by band.
fn queue(encoder: &mut DescriptorEncoder<'_>, cell: &Cell) -> fmt::Result {
    let mut bands = BTreeMap::from(Band::ALL.map(|band| (band, (0_u64, 0_u64))));
    for job in cell.jobs().filter(|job| job.is_alive() && job.counts().queued > 0) {
        let (jobs, longest) = bands.entry(job.spec.priority.band()).or_default();
        *jobs += 1;
        if let Some(TaskState::Queued { since }) =
            job.task(job.first_queued()).map(|task| &task.state)
        {
            *longest = (*longest).max(cell.time().since(*since).0 / 1_000_000);
        }
    }
    let of = |value: fn(&(u64, u64)) -> u64| {
        let each = bands.iter();
        let each = each.map(move |(band, found)| ([("band", band.name())], value(found)));
        each.collect::<Vec<_>>()
    };
    let help = "Jobs with tasks that wait for other jobs or in the batch queue, by band.";
    gauges(encoder, "bourg_queued_jobs", help, of(|(jobs, _)| *jobs))?;
    let help = "How long the first queued task of a job waits, of the longest, by band.";
    gauges(encoder, "bourg_queued_longest_seconds", help, of(|(_, longest)| *longest))
}

fn tasks(encoder: &mut DescriptorEncoder<'_>, cell: &Cell) -> fmt::Result {
    let values = cell.stages().flat_map(|(band, stages)| {
        let Stages { queued, pending, running, dead } = stages;
        [("queued", queued), ("pending", pending), ("running", running), ("dead", dead)]
            .map(|(state, count)| ([("state", state), ("band", band.name())], count))
    });
    gauges(encoder, "bourg_tasks", "Tasks in the cell, by state and band.", values)?;
    gauge(encoder, "bourg_jobs", "Jobs in the cell, including dead ones.", cell.job_count())?;
    let help = "Jobs with a pending task.";
    gauge(encoder, "bourg_pending_jobs", help, cell.pending_job_count())?;
    queue(encoder, cell)?;
    let counts = NoticeReason::ALL.into_iter().flat_map(|reason| {
        NoticeDelivery::ALL.map(|delivery| {
            let labels = [("reason", reason.name()), ("delivered", delivery.name())];
            (labels, cell.notices().get(reason, delivery))
        })
    });
    let help = "Tasks that were stopped and due a notice, by reason and how much of it they had.";
    counters(encoder, "bourg_notices", help, counts)
}
