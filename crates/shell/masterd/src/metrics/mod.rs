//! A master's metrics and its registry: one per master, of which a process may have several.
//!
//! The threads update [`Metrics`] by atomics alone. `service::serving` reads the values of the
//! newest view, the queues and admission at each scrape.

mod estimates;
mod evictions;
mod requests;
mod start_latency;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use process::metrics::{Durations, Sizes};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use api::v1;

use crate::threads::Threads;

pub(crate) use estimates::EstimateMetrics;
pub(crate) use evictions::{EvictionMetrics, Evictions};
pub(crate) use requests::{Requests, measure};
pub(crate) use start_latency::StartMetrics;

/// A value that can increase and decrease.
pub(super) type Value = Gauge<u64, AtomicU64>;

/// Metrics that a master's threads update.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Which of the threads are alive.
    pub(super) threads: Threads,
    pub(super) core: CoreMetrics,
    pub(super) log: LogMetrics,
    pub(super) polls: PollMetrics,
    pub(super) proposals: ProposalMetrics,
    pub(super) checkpoints: CheckpointMetrics,
    pub(super) events: EventMetrics,
    pub(super) estimates: Arc<EstimateMetrics>,
    pub(super) evictions: Arc<EvictionMetrics>,
    /// Where the time of the starts of tasks went.
    pub(super) starts: StartMetrics,
    /// Requests rejected because nothing can be made durable.
    pub(super) no_room: Counter,
    /// How often the master of this data directory was restarted.
    pub(super) restarts: Counter,
}

/// Metrics of the core.
#[derive(Debug, Default)]
pub(super) struct CoreMetrics {
    pub(super) step: Durations,
    pub(super) applied: Sizes,
    pub(super) commit: Durations,
    pub(super) elections_won: Counter,
    pub(super) leaderships_lost: Counter,
    pub(super) term: Value,
    pub(super) commit_index: Value,
    /// How often a restored replica was rejected because this cell is alive.
    pub(super) restored_refused: Counter,
    /// Records that another leader replaced.
    pub(super) replaced: Counter,
}

/// Metrics of the log's thread.
#[derive(Debug, Default)]
pub(super) struct LogMetrics {
    pub(super) fsync: Durations,
    pub(super) records: Counter,
    pub(super) written_bytes: Counter,
    pub(super) bytes: Value,
    pub(super) segments: Value,
    /// The length of the thread's queue.
    pub(super) queue: Value,
}

/// Metrics of the threads that poll machines.
#[derive(Debug, Default)]
pub(super) struct PollMetrics {
    pub(super) made: Counter,
    pub(super) failed: Counter,
}

/// Metrics of decisions about the proposals of schedulers.
#[derive(Debug, Default)]
pub(super) struct ProposalMetrics {
    pub(super) decided: Counter,
    /// Their assignments.
    pub(super) accepted: Counter,
    pub(super) rejected: Counter,
    /// Tasks of the batch queue that they enabled, and the jobs of which none was.
    pub(super) enabled: Counter,
    pub(super) enabled_rejected: Counter,
}

/// Metrics of checkpoints.
#[derive(Debug, Default)]
pub(super) struct CheckpointMetrics {
    pub(super) written: Counter,
    pub(super) failed: Counter,
    /// When the newest was made, in microseconds since 1970; 0 if there is none.
    pub(super) newest: Value,
}

/// Metrics of event storage.
#[derive(Debug, Default)]
pub(super) struct EventMetrics {
    pub(super) written: Counter,
    pub(super) lost: Counter,
    /// Bytes that the thread has not written yet.
    pub(super) waiting_bytes: Value,
    /// The cell's time of the newest operation with events, and of the newest whose events are
    /// written.
    pub(super) recorded: Value,
    pub(super) kept: Value,
    /// The length of the thread's queue, in steps.
    pub(super) queue: Value,
}

impl Metrics {
    /// Registers the metrics that the threads update.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.register_core(registry);
        self.register_log(registry);
        self.register_kept(registry);
        self.estimates.register(registry);
        registry.register_collector(Box::new(self.starts.clone()));
        let restarts = self.restarts.clone();
        let help = "Restarts of the master of this data directory";
        registry.register("bourg_restarts", help, restarts);
    }

    fn register_core(&self, registry: &mut Registry) {
        let core = &self.core;
        let help = "Duration of a step of the core, including its outputs";
        registry.register("bourg_step_duration_seconds", help, core.step.clone());
        let help = "Operations that a step applied, for steps that applied any";
        registry.register("bourg_apply_batch_operations", help, core.applied.clone());
        let help = "Time from accepting a request until it is committed and applied";
        registry.register("bourg_commit_duration_seconds", help, core.commit.clone());
        let help = "Elections that this replica won";
        registry.register("bourg_elections_won", help, core.elections_won.clone());
        let help = "How often this replica stopped leading";
        registry.register("bourg_leaderships_lost", help, core.leaderships_lost.clone());
        let help = "The term of consensus that this replica is in";
        registry.register("bourg_term", help, core.term.clone());
        let help = "The newest operation that this replica knows to be committed";
        registry.register("bourg_commit_index", help, core.commit_index.clone());
        let help = "Rejections of a replica that was restored while this cell is alive";
        registry.register("bourg_restored_replicas_refused", help, core.restored_refused.clone());
        let help = "Records not known to be committed that were replaced by another leader's";
        registry.register("bourg_log_records_replaced", help, core.replaced.clone());
    }

    fn register_log(&self, registry: &mut Registry) {
        let log = &self.log;
        let help = "Duration of making appended log records durable";
        registry.register("bourg_fsync_duration_seconds", help, log.fsync.clone());
        let help = "Records appended to the log";
        registry.register("bourg_log_records", help, log.records.clone());
        let help = "Bytes of the records appended to the log, without their headers";
        registry.register("bourg_log_written_bytes", help, log.written_bytes.clone());
        let help = "Bytes of records in the segments of the log that are kept";
        registry.register("bourg_log_bytes", help, log.bytes.clone());
        let help = "Segments of the log that are kept";
        registry.register("bourg_log_segments", help, log.segments.clone());
    }

    /// What this replica has done since it started.
    pub(crate) fn work(&self) -> v1::MasterWork {
        v1::MasterWork {
            polls: self.polls.made.get(),
            polls_failed: self.polls.failed.get(),
            proposals: self.proposals.decided.get(),
            accepted: self.proposals.accepted.get(),
            rejected: self.proposals.rejected.get(),
        }
    }

    fn register_kept(&self, registry: &mut Registry) {
        let help = "Completed polls of machines, answered or failed";
        registry.register("bourg_polls", help, self.polls.made.clone());
        let help = "Polls of machines that failed";
        registry.register("bourg_polls_failed", help, self.polls.failed.clone());
        let help = "Proposals of schedulers that this replica decided";
        registry.register("bourg_proposals", help, self.proposals.decided.clone());
        let help = "Assignments in proposals that this replica accepted";
        registry.register("bourg_assignments_accepted", help, self.proposals.accepted.clone());
        let help = "Assignments in proposals that this replica rejected";
        registry.register("bourg_assignments_rejected", help, self.proposals.rejected.clone());
        let help = "Tasks of the batch queue that were enabled by proposals to this replica";
        registry.register("bourg_queue_enabled_tasks", help, self.proposals.enabled.clone());
        let help = "Jobs of the batch queue in proposals that this replica rejected";
        let rejected = self.proposals.enabled_rejected.clone();
        registry.register("bourg_queue_enabled_rejected", help, rejected);
        let help = "Checkpoints written since the start";
        registry.register("bourg_checkpoints_written", help, self.checkpoints.written.clone());
        let help = "Checkpoints that could not be written";
        registry.register("bourg_checkpoints_failed", help, self.checkpoints.failed.clone());
        let help = "Events written to their files";
        registry.register("bourg_events_written", help, self.events.written.clone());
        let help = "Events lost because the disk was too slow";
        registry.register("bourg_events_lost", help, self.events.lost.clone());
        let help = "Bytes of events that are not written yet";
        registry.register("bourg_events_waiting_bytes", help, self.events.waiting_bytes.clone());
    }
}
