//! `bourg bench recovery`: how long a master takes to read and apply its log when it starts.
//!
//! First writes the log, unmeasured: jobs of one task each that are submitted, assigned, started
//! and ended, and forgotten in batches as a master does. There is no checkpoint to shorten it.
//! Measures a master's startup until it leads: opening the log, checking every record, decoding and
//! applying every operation.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::Context;
use command::Done;
use command::output::{self, Format};
use masterd::{Records, recover};
use model::{Bytes, Time};
use replica::{Input, Output, Replica};
use serde::Serialize;
use store::DataDirectory;

use super::history::write_history;

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    operations: u64,
    log_bytes: u64,
    seconds: f64,
    /// CPU time of the process, unaffected by other load on the machine.
    cpu_seconds: f64,
    operations_per_second: f64,
    read_seconds: f64,
    apply_seconds: f64,
    state_hash: String,
}

/// Writes a log with this many operations, then measures a master's start on it.
pub(crate) fn recovery(operations: u64, json: bool) -> Done {
    let figures = measure(operations)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "recovery", || {
        format!(
            "{} operations, {}: {:.2} s to read and apply, {:.2} s of CPU ({:.0} operations per second)\n",
            figures.operations,
            Bytes(figures.log_bytes),
            figures.seconds,
            figures.cpu_seconds,
            figures.operations_per_second
        )
    })
}

fn measure(operations: u64) -> anyhow::Result<Figures> {
    let path = std::env::temp_dir().join(format!("bourg-bench-recovery-{}", std::process::id()));
    let measured =
        DataDirectory::create(&path).map_err(anyhow::Error::from).and_then(|directory| {
            let log_bytes = write_history(&directory, operations, None)?;
            start(&directory, operations, log_bytes)
        });
    std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    measured
}

/// The CPU time of this process so far.
fn cpu_time() -> anyhow::Result<Duration> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let time: nix::sys::time::TimeVal = usage.user_time() + usage.system_time();
    Ok(Duration::from_micros(
        u64::try_from(nix::sys::time::TimeValLike::num_microseconds(&time)).unwrap_or(0),
    ))
}

/// A master's startup until it leads.
fn start(directory: &DataDirectory, operations: u64, log_bytes: u64) -> anyhow::Result<Figures> {
    let (begun, cpu_before) = (Instant::now(), cpu_time()?);
    let (_log, recovered) = recover::recover(directory)?;
    let read = begun.elapsed();
    let now = Time::ZERO;
    let mut replica = Replica::new(replica::Settings::default(), Records, now, recovered, None)?;
    let mut inputs = Vec::new();
    let mut leads = false;
    while !leads {
        let mut outputs = Vec::new();
        replica.step(now, inputs.drain(..), &mut outputs)?;
        for output in outputs {
            match output {
                Output::Persist(persist) => inputs.push(Input::Persisted(persist.number)),
                Output::Leads(_) => leads = true,
                _ => {}
            }
        }
        let goes_on = leads || !inputs.is_empty() || replica.next_step() <= now;
        anyhow::ensure!(goes_on, "the replica did not become the leader");
    }
    let all = begun.elapsed();
    let cell = replica.cell();
    anyhow::ensure!(cell.index().0 > operations, "only {} records were applied", cell.index());
    let seconds = |time: Duration| (time.as_secs_f64() * 1e4).round() / 1e4;
    #[expect(clippy::cast_precision_loss, reason = "a rate, rounded for display")]
    let rate = operations as f64 / all.as_secs_f64();
    Ok(Figures {
        operations,
        log_bytes,
        seconds: seconds(all),
        cpu_seconds: seconds(cpu_time()?.saturating_sub(cpu_before)),
        operations_per_second: rate.round(),
        read_seconds: seconds(read),
        apply_seconds: seconds(all.saturating_sub(read)),
        state_hash: formats::image::state_hash(cell).to_string(),
    })
}
