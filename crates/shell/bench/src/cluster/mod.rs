//! Benchmarks of whole masters: processes of this program, one replica or several, on local
//! sockets, with clients that use the normal protocol.

pub(super) mod agents;
pub(super) mod arrivals;
pub(super) mod borglets;
pub(super) mod commit;
pub(super) mod failover;
mod latencies;
mod masters;
mod process;
pub(super) mod reads;
pub(super) mod resolver;
pub(super) mod sigma;
mod waiting;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use command::Failure;
use command::output::Format;
use serde::Serialize;
use store::measure::FsyncTimes;

/// The size of a write in the fsync measurement.
const FSYNC_BYTES: usize = 4_096;
/// The number of such writes.
const FSYNC_RUNS: usize = 500;

/// The latency of the disk itself, in the directory of the masters.
#[derive(Clone, Copy, Debug, Serialize)]
struct Disk {
    fsync_p50_ms: f64,
    fsync_p99_ms: f64,
}

impl Disk {
    fn measure(masters: &masters::Masters) -> anyhow::Result<Self> {
        let FsyncTimes { p50, p99 } =
            store::measure::measure_fsync(masters.directory(), FSYNC_BYTES, FSYNC_RUNS)?;
        Ok(Self { fsync_p50_ms: milliseconds(p50), fsync_p99_ms: milliseconds(p99) })
    }
}

/// The options that all of these benchmarks share.
#[derive(Clone, Debug, Args)]
struct CommonOptions {
    /// The parent of the masters' directory. Default: the directory for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CommonOptions {
    /// The parent of the benchmark's temporary directory, which is removed at the end.
    fn below(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The output format.
    fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Table }
    }
}

/// Runs a benchmark on this thread.
fn run<T>(benchmark: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    ::process::block_on(&runtime.map_err(anyhow::Error::from)?, benchmark)
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a rate, rounded")]
fn rate(count: u64, time: Duration) -> f64 {
    (count as f64 / time.as_secs_f64().max(1e-9) * 10.0).round() / 10.0
}

/// Rounds to a number of decimal places.
fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

/// The time per item, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "a time, rounded")]
fn micros_each(time: Duration, count: u64) -> f64 {
    rounded(time.as_secs_f64() * 1e6 / count.max(1) as f64, 1)
}
