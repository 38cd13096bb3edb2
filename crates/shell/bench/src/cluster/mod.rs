//! Benchmarks of whole masters: processes of this program, of one replica or several, on sockets of
//! this machine, with clients that speak to them as every client does.

pub(super) mod agents;
pub(super) mod arrivals;
pub(super) mod borglets;
pub(super) mod commit;
pub(super) mod failover;
mod latencies;
mod masters;
mod process;
pub(super) mod reads;
mod waiting;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cli::Failure;
use cli::output::Format;
use serde::Serialize;
use store::measure::FsyncTimes;

/// How large a write is of which it is measured how long it takes to be durable.
const FSYNC_BYTES: usize = 4_096;
/// How often that is done.
const FSYNC_RUNS: usize = 500;

/// What the disk does by itself, in the directory in which the masters have theirs.
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

/// What all of these benchmarks are told.
#[derive(Clone, Debug, Args)]
struct AsAll {
    /// Below which directory the masters have theirs. Default: where temporary files are.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl AsAll {
    /// Where the directory of a benchmark is: a temporary one below this, which is removed at its end.
    fn below(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// How what was found is printed.
    fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Table }
    }
}

/// Runs a benchmark on this thread, with everything that its connections need.
fn run<T>(benchmark: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(anyhow::Error::from)?.block_on(benchmark)
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a rate, which is rounded")]
fn rate(count: u64, time: Duration) -> f64 {
    (count as f64 / time.as_secs_f64().max(1e-9) * 10.0).round() / 10.0
}

/// Rounded to so many digits after the point.
fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

/// So much time for each of so many, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "a time, which is rounded")]
fn micros_each(time: Duration, count: u64) -> f64 {
    rounded(time.as_secs_f64() * 1e6 / count.max(1) as f64, 1)
}
