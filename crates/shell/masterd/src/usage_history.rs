//! The cell over time: what it has, may use and uses, and what was evicted, as samples of equal
//! distance in a ring of a fixed size. In memory only: after a restart it begins anew.
//!
//! Pure: [`crate::service`] has the timer, and gives what to record.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::v1;
use clap::Args;
use model::{Span, Time};
use process::arguments::duration;
use prost::Message as _;

/// The most samples that are kept: a day at one a minute.
const SAMPLES_MAX: usize = 1_440;

/// Flags for the history of what the cell uses.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "History of usage")]
pub struct UsageHistoryArgs {
    /// How often to record what the cell uses. The newest 1,440 samples are kept in memory: a day at
    /// one a minute.
    #[arg(long, default_value = "60s", value_parser = interval, value_name = "TIME")]
    usage_history_interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    match (Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&given) {
        true => Ok(given),
        false => Err("an interval of the history of usage is 100ms to 1h".to_owned()),
    }
}

impl UsageHistoryArgs {
    /// The time between two samples.
    pub(crate) fn interval(&self) -> Span {
        Span(u64::try_from(self.usage_history_interval.as_micros()).unwrap_or(u64::MAX))
    }

    /// The same as flags of another process.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let millis = self.usage_history_interval.as_millis();
        vec![("usage-history-interval", format!("{millis}ms"))]
    }
}

/// When the next sample is due: the next multiple of the interval, so that the replicas record at the
/// same times.
pub(crate) fn due(now: Time, interval: Span) -> Time {
    let interval = interval.0.max(1);
    Time((now.0 / interval).saturating_add(1).saturating_mul(interval))
}

/// A sample of a cell: of amounts, CPU and memory.
pub(crate) fn sample(
    at: Time,
    cell: &v1::CellUsage,
    evictions: v1::EvictionCounts,
    work: Option<v1::MasterWork>,
    missing: Vec<u64>,
) -> v1::CellSample {
    v1::CellSample {
        time: at.0,
        machines_up: cell.machines_up,
        capacity: cell.capacity.as_ref().map(amount),
        used: cell.used.as_ref().map(measured),
        pending: cell.pending,
        bands: cell.bands.iter().map(band).collect(),
        evictions: Some(evictions),
        missing,
        work,
    }
}

fn band(band: &v1::cell_usage::Band) -> v1::cell_sample::Band {
    let total = band.total.unwrap_or_default();
    v1::cell_sample::Band {
        band: band.band,
        running: total.running,
        measured: total.measured,
        limit: total.limit.as_ref().map(amount),
        reservation: total.reservation.as_ref().map(amount),
        used: total.used.as_ref().map(measured),
    }
}

fn amount(resources: &v1::Resources) -> v1::CpuMemory {
    v1::CpuMemory { cpu_milli: Some(resources.cpu_milli), memory_bytes: Some(resources.ram_bytes) }
}

fn measured(measured: &v1::Measured) -> v1::CpuMemory {
    v1::CpuMemory { cpu_milli: measured.cpu_milli, memory_bytes: measured.memory_bytes }
}

/// The newest samples of a replica.
#[derive(Debug, Default)]
pub(crate) struct UsageHistory(Mutex<Ring>);

impl UsageHistory {
    /// Keeps a sample. Returns false, and does not keep it, unless it is newer than all others.
    pub(crate) fn record(&self, sample: &v1::CellSample) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sample, SAMPLES_MAX)
    }

    /// The samples after a time, oldest first.
    pub(crate) fn since(&self, since: Time) -> Vec<v1::CellSample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).since(since)
    }
}

/// Samples by their time. Encoded: in this form one has about 300 bytes.
#[derive(Debug, Default)]
struct Ring(VecDeque<(Time, Box<[u8]>)>);

impl Ring {
    fn push(&mut self, sample: &v1::CellSample, most: usize) -> bool {
        let at = Time(sample.time);
        if self.0.back().is_some_and(|(newest, _)| *newest >= at) {
            return false;
        }
        while self.0.len() >= most.max(1) {
            self.0.pop_front();
        }
        self.0.push_back((at, sample.encode_to_vec().into_boxed_slice()));
        true
    }

    fn since(&self, since: Time) -> Vec<v1::CellSample> {
        let from = self.0.partition_point(|(at, _)| *at <= since);
        // They were encoded here.
        let decoded = |(_, bytes): &(Time, Box<[u8]>)| v1::CellSample::decode(&**bytes).ok();
        self.0.range(from..).filter_map(decoded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_due_at_multiples_of_the_interval() {
        for (now, interval, expected) in [
            (0, 60, 60),
            (1, 60, 60),
            (59, 60, 60),
            (60, 60, 120),
            (61, 60, 120),
            (7, 1, 8),
            (7, 0, 8),
            (u64::MAX, 60, u64::MAX),
        ] {
            assert_eq!(due(Time(now), Span(interval)), Time(expected), "{now} by {interval}");
        }
    }

    #[test]
    fn the_bounds_of_the_interval() {
        for (text, is_one) in
            [("60s", true), ("100ms", true), ("1h", true), ("99ms", false), ("2h", false)]
        {
            assert_eq!(interval(text).is_ok(), is_one, "{text}");
        }
        let args = UsageHistoryArgs { usage_history_interval: Duration::from_millis(1_500) };
        assert_eq!(args.interval(), Span::from_millis(1_500));
        assert_eq!(args.flags(), [("usage-history-interval", "1500ms".to_owned())]);
    }

    #[test]
    fn the_newest_samples_are_kept_in_order_and_read_after_a_time() {
        let mut ring = Ring::default();
        let at = |time| v1::CellSample { time, pending: 7, ..v1::CellSample::default() };
        let since = |ring: &Ring, time| {
            let samples = ring.since(Time(time));
            assert!(samples.iter().all(|sample| sample.pending == 7));
            samples.iter().map(|sample| sample.time).collect::<Vec<_>>()
        };
        assert!(since(&ring, 0).is_empty());
        for (time, is_newer) in [(60, true), (60, false), (120, true), (90, false), (240, true)] {
            assert_eq!(ring.push(&at(time), 3), is_newer, "{time}");
        }
        for (after, expected) in [
            (0, &[60, 120, 240][..]),
            (59, &[60, 120, 240]),
            (60, &[120, 240]),
            (121, &[240]),
            (240, &[]),
            (u64::MAX, &[]),
        ] {
            assert_eq!(since(&ring, after), expected, "after {after}");
        }
        ring.push(&at(300), 3);
        assert_eq!(since(&ring, 0), [120, 240, 300]);
    }

    /// As much as happens in no minute.
    const WORK: v1::MasterWork = v1::MasterWork {
        polls: 1 << 40,
        polls_failed: 1 << 40,
        proposals: 1 << 40,
        accepted: 1 << 40,
        rejected: 1 << 40,
    };

    /// A cell that uses all that a sample can have.
    fn large() -> v1::CellUsage {
        let cpu_milli = 1_000_000_000;
        let ram_bytes = 1 << 54;
        let resources = v1::Resources { cpu_milli, ram_bytes, disk_bytes: 7, disk_rate_bytes: 7 };
        let used = v1::Measured {
            cpu_milli: Some(cpu_milli / 2),
            memory_bytes: Some(ram_bytes / 2),
            disk_bytes: Some(7),
            ..v1::Measured::default()
        };
        let total = v1::UsageTotal {
            running: 1_000_000,
            measured: 999_999,
            limit: Some(resources),
            reservation: Some(resources),
            used: Some(used),
        };
        let band = |band| v1::cell_usage::Band { band, total: Some(total) };
        v1::CellUsage {
            machines: 50_000,
            machines_up: 49_999,
            capacity: Some(resources),
            used: Some(used),
            system: Some(used),
            tasks: Some(total),
            bands: (1..=5).map(band).collect(),
            pending: 100_000,
            work: None,
        }
    }

    #[test]
    fn a_sample_has_cpu_and_memory_and_unmeasured_values_stay_absent() {
        let evictions = v1::EvictionCounts { preempted: 3, ..v1::EvictionCounts::default() };
        let mut cell = large();
        cell.bands.truncate(1);
        cell.used = None;
        let of =
            |cpu, memory| Some(v1::CpuMemory { cpu_milli: Some(cpu), memory_bytes: Some(memory) });
        let whole = of(1_000_000_000, 1 << 54);
        let expected = v1::CellSample {
            time: 60,
            machines_up: 49_999,
            capacity: whole,
            used: None,
            pending: 100_000,
            bands: vec![v1::cell_sample::Band {
                band: 1,
                running: 1_000_000,
                measured: 999_999,
                limit: whole,
                reservation: whole,
                used: of(500_000_000, 1 << 53),
            }],
            evictions: Some(evictions),
            missing: vec![2],
            work: Some(WORK),
        };
        assert_eq!(sample(Time(60), &cell, evictions, Some(WORK), vec![2]), expected);
        cell.used = Some(v1::Measured::default());
        let sample = sample(Time(60), &cell, evictions, None, Vec::new());
        assert_eq!(sample.used, Some(v1::CpuMemory::default()), "nothing is measured yet");
    }

    #[test]
    fn a_day_of_the_largest_cell_has_a_few_hundred_kilobytes() {
        let history = UsageHistory::default();
        let count = u32::MAX;
        let evictions = v1::EvictionCounts {
            preempted: count,
            out_of_resources: count,
            machine_failure: count,
            machine_shutdown: count,
            other: count,
            updated: count,
            moved: count,
            gang_restarts: count,
        };
        for minute in 1..=2_000 {
            let at = Time(1 << 51) + Span::from_secs(60 * minute);
            assert!(history.record(&sample(at, &large(), evictions, Some(WORK), vec![2, 3, 4, 5])));
        }
        let ring = history.0.lock().expect("unlocked");
        let bytes: usize = ring.0.iter().map(|(_, bytes)| bytes.len() + 24).sum();
        assert_eq!(ring.0.len(), SAMPLES_MAX);
        assert!(bytes < 700 << 10, "{bytes} B");
    }
}
