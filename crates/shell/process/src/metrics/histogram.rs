//! Lock-free histograms of durations and sizes. The library's histogram takes a lock per value;
//! this one adds to three atomics, cheap enough for every step and fsync.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The upper bounds of the duration buckets, in microseconds: from an fsync on a fast disk to
/// beyond any timeout.
const DURATIONS: &[u64] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
/// The upper bounds of the buckets for starts of tasks, in microseconds: up to an hour, because packages
/// may be large and a queue long.
const STARTS: &[u64] = &[
    1_000,
    10_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    3_600_000_000,
];
/// The upper bounds of the size buckets.
const SIZES: &[u64] = &[1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000];

/// A histogram of durations, exported in seconds. Clones share their buckets.
#[derive(Clone, Debug)]
pub struct Durations(Arc<Buckets>);

/// A histogram of sizes. Clones share their buckets.
#[derive(Clone, Debug)]
pub struct Sizes(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [u64],
    /// How many recorded units make one exported unit.
    per_unit: f64,
    /// One more than there are bounds: the last bucket counts values above all of them.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Buckets {
    fn new(bounds: &'static [u64], per_unit: f64) -> Arc<Self> {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { bounds, per_unit, counts, sum: AtomicU64::new(0) })
    }

    fn add(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    #[expect(clippy::cast_precision_loss, reason = "the sum is for display only")]
    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / self.per_unit);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        let sum = self.sum.load(Ordering::Relaxed) as f64 / self.per_unit;
        // Derived from the buckets, to stay consistent with them under concurrent updates.
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

impl Default for Durations {
    fn default() -> Self {
        Self(Buckets::new(DURATIONS, 1_000_000.0))
    }
}

impl Durations {
    /// For the parts of the starts of tasks, which may take minutes.
    #[must_use]
    pub fn of_starts() -> Self {
        Self(Buckets::new(STARTS, 1_000_000.0))
    }

    /// Records a duration.
    pub fn add(&self, took: Duration) {
        self.0.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.0.count()
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self(Buckets::new(SIZES, 1.0))
    }
}

impl Sizes {
    /// Records a size.
    pub fn add(&self, size: usize) {
        self.0.add(size as u64);
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(&mut encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl EncodeMetric for Sizes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(&mut encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_whose_bound_includes_it() {
        let times = Durations::default();
        for micros in [0, 100, 101, 2_500, 10_000_000, 10_000_001] {
            times.add(Duration::from_micros(micros));
        }
        let sizes = Sizes::default();
        sizes.add(3);
        let mut registry = Registry::default();
        registry.register("bourg_times_seconds", "Times", times.clone());
        registry.register("bourg_sizes", "Sizes", sizes);
        let text = crate::metrics::text(&registry);
        for line in [
            "bourg_times_seconds_bucket{le=\"0.0001\"} 2",
            "bourg_times_seconds_bucket{le=\"0.00025\"} 3",
            "bourg_times_seconds_bucket{le=\"0.0025\"} 4",
            "bourg_times_seconds_bucket{le=\"5.0\"} 4",
            "bourg_times_seconds_bucket{le=\"10.0\"} 5",
            "bourg_times_seconds_bucket{le=\"+Inf\"} 6",
            "bourg_times_seconds_count 6",
            "bourg_times_seconds_sum 20.002702",
            "bourg_sizes_bucket{le=\"2.0\"} 0",
            "bourg_sizes_bucket{le=\"5.0\"} 1",
        ] {
            assert!(text.lines().any(|is| is == line), "{line} is not in\n{text}");
        }
        assert_eq!(times.count(), 6);
    }
}
