//! Metrics of the rounds of estimates: their thread updates them, and a scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use master::{Estimated, Rejected, Rejection};
use process::metrics::Durations;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::Value;

/// Metrics of the rounds of estimates.
#[derive(Debug, Default)]
pub(crate) struct EstimateMetrics {
    duration: Durations,
    recorded: Counter,
    left: Value,
    tasks: Value,
    silent: Value,
    rejected: [AtomicU64; Rejection::ALL.len()],
}

impl EstimateMetrics {
    /// A round has ended. `rejected` are the samples since the start.
    pub(crate) fn round(&self, duration: Duration, round: &Estimated, rejected: &Rejected) {
        self.duration.add(duration);
        self.recorded.inc_by(round.reservations.len() as u64);
        self.left.set(round.left as u64);
        self.tasks.set(round.tasks as u64);
        self.silent.set(round.silent as u64);
        for (count, reason) in self.rejected.iter().zip(Rejection::ALL) {
            count.store(rejected.count(reason), Ordering::Relaxed);
        }
    }

    /// The rejected samples since the start, by the name of the reason.
    pub(crate) fn rejected(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.rejected.iter().map(|count| count.load(Ordering::Relaxed));
        Rejection::ALL.into_iter().map(Rejection::name).zip(counts)
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Duration of a round of estimates of what tasks need";
        registry.register("bourg_estimate_duration_seconds", help, self.duration.clone());
        let help = "Reservations that this replica proposed to record";
        registry.register("bourg_reservations_proposed", help, self.recorded.clone());
        let help = "Changed reservations that the last round left for the next ones";
        registry.register("bourg_reservations_left", help, self.left.clone());
        let help = "Tasks that this replica estimated in the last round";
        registry.register("bourg_estimated_tasks", help, self.tasks.clone());
        let help =
            "Those of them without usage for too long: their reservations rise to the limits";
        registry.register("bourg_estimated_tasks_silent", help, self.silent.clone());
    }
}
