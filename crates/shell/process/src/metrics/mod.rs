//! Metrics of a process, in Prometheus' text format.
//!
//! A registry belongs to an object, a master or a Borglet, and not to the process, since several
//! replicas may share one. Frequent events are counted in atomics; values derived from a view of
//! the cell are computed on each scrape. Names begin with `bourg_` and end in their base unit.
//! Except for usage, where their number is bounded, label values never include users, jobs, tasks or
//! machines, which keeps cardinality bounded.
//! docs/metrics.md lists all metrics.

mod histogram;
mod process;
mod text;

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

pub use histogram::{Durations, Sizes};
pub use process::Process;
pub use text::{CONTENT_TYPE, text};

/// A label name with its value.
pub type Label = (&'static str, &'static str);

/// Writes a gauge without labels.
pub fn gauge<T: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: T,
) -> fmt::Result {
    let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(gauge)
}

/// Writes a gauge with one value for each combination of labels.
pub fn gauges<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = ([Label; N], u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes a counter with one value for each combination of labels; `_total` is appended to its
/// name.
pub fn counters<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = ([Label; N], u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
