//! Where the time of the starts of tasks went, as histograms: the core's thread counts the events of the
//! operations that it applies.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cell::{Applied, Cell, EventKind, Subject};
use model::{StartLatency, StartPart};
use process::metrics::Durations;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;

/// The starts that a replica has applied since it had caught up: not those that it reads again from its
/// log.
#[derive(Clone, Debug)]
pub(crate) struct StartMetrics(Arc<StartHistograms>);

#[derive(Debug)]
struct StartHistograms {
    parts: [Durations; StartPart::ALL.len()],
    counting: AtomicBool,
}

impl Default for StartMetrics {
    fn default() -> Self {
        let (parts, counting) =
            (std::array::from_fn(|_| Durations::of_starts()), AtomicBool::default());
        Self(Arc::new(StartHistograms { parts, counting }))
    }
}

impl StartMetrics {
    /// What is applied from now on counts.
    pub(crate) fn begin(&self) {
        self.0.counting.store(true, Ordering::Relaxed);
    }

    /// Counts the events of an operation, after which the cell is as given. The allocs of an alloc set run
    /// no program, and do not count.
    pub(crate) fn count(&self, cell: &Cell, applied: &Applied) {
        if !self.0.counting.load(Ordering::Relaxed) {
            return;
        }
        for event in &applied.events {
            let (EventKind::Start { latency, .. } | EventKind::Health { latency, .. }) = event.kind
            else {
                continue;
            };
            let Subject::Task(instance) = event.subject else { continue };
            let job = cell.job(instance.collection);
            if job.is_none_or(|job| !job.spec.kind.is_alloc_set()) {
                self.add(latency);
            }
        }
    }

    fn add(&self, latency: StartLatency) {
        for (part, histogram) in StartPart::ALL.into_iter().zip(&self.0.parts) {
            if let Some(took) = latency.part(part) {
                histogram.add(took.to_std());
            }
        }
    }
}

impl Collector for StartMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Time that a part of a task's start took, since this replica had applied its log.";
        let name = "bourg_start_part_duration_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (part, histogram) in StartPart::ALL.into_iter().zip(&self.0.parts) {
            histogram.encode(family.encode_family(&[("part", part.name())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cell::{Actor, Event, Outcome};
    use model::{FinalUsage, MachineId, Span};
    use prometheus_client::registry::Registry;

    use super::*;

    fn applied(kind: EventKind) -> Applied {
        let subject = Subject::Task("1-0-1".parse().expect("an instance"));
        Applied {
            outcome: Outcome::Done,
            by: Actor::Master,
            events: vec![Event { subject, kind, usage: FinalUsage::UNMEASURED }],
            reordered: Vec::new(),
        }
    }

    #[test]
    fn each_part_has_its_histogram_once_the_log_is_applied() {
        let (cell, metrics) = (Cell::empty(), StartMetrics::default());
        let latency = StartLatency::UNKNOWN
            .with(StartPart::Fetch, Span::from_secs(20))
            .with(StartPart::Start, Span::from_millis(80));
        let start = applied(EventKind::Start { machine: MachineId(1), latency });
        metrics.count(&cell, &start);
        metrics.begin();
        metrics.count(&cell, &start);
        let latency = StartLatency::UNKNOWN.with(StartPart::Healthy, Span::from_secs(2));
        let healthy = EventKind::Health { healthy: true, check: None, latency };
        metrics.count(&cell, &applied(healthy));

        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("it is written");
        for (part, sum, count) in
            [("queue", "0.0", 0), ("fetch", "20.0", 1), ("start", "0.08", 1), ("healthy", "2.0", 1)]
        {
            let name = "bourg_start_part_duration_seconds";
            for line in [
                format!("{name}_sum{{part=\"{part}\"}} {sum}\n"),
                format!("{name}_count{{part=\"{part}\"}} {count}\n"),
            ] {
                assert!(text.contains(&line), "{line}\n{text}");
            }
        }
    }
}
