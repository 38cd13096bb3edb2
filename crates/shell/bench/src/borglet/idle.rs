//! A Borglet whose tasks only run: their usage is measured and their health is checked every second.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use super::driven::{Driven, checked, count, is_healthy};
use super::rounded;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    tasks: u32,
    seconds: u64,
    /// The Borglet's process: resident, its share of shared pages, and what is its own.
    resident_mib: f64,
    proportional_mib: f64,
    private_mib: f64,
    /// CPU time of the Borglet's process, as a part of one core.
    core_percent: f64,
    polls: u64,
}

const JOB: u64 = 1;
/// Before this much time has passed, tasks are new.
const SETTLE: Duration = Duration::from_secs(3);

/// Runs the section.
pub(super) async fn measure(place: &Path, tasks: u32, seconds: u64) -> anyhow::Result<Figures> {
    let mut driven = Driven::start(place).await?;
    driven.order(checked(JOB, tasks)?);
    let all = usize::try_from(tasks)?;
    driven.until("all are healthy", |report| count(report, JOB, is_healthy) == all).await?;
    driven.during(SETTLE).await?;
    let (cpu, begun, polls) = (driven.own_cpu_time()?, Instant::now(), driven.polls());
    driven.during(Duration::from_secs(seconds)).await?;
    let (cpu, time) = (driven.own_cpu_time()? - cpu, begun.elapsed());
    let healthy = count(driven.report(), JOB, is_healthy);
    anyhow::ensure!(healthy == all, "only {healthy} of {all} tasks are healthy");
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", driven.pid()))?;
    let mib = |keys: &[&str]| -> anyhow::Result<f64> {
        let kib = keys.iter().map(|key| kib(&rollup, key)).sum::<anyhow::Result<u32>>()?;
        Ok(rounded(f64::from(kib) / 1_024.0, 1))
    };
    Ok(Figures {
        tasks,
        seconds,
        resident_mib: mib(&["Rss"])?,
        proportional_mib: mib(&["Pss"])?,
        private_mib: mib(&["Private_Clean", "Private_Dirty"])?,
        core_percent: rounded(cpu.as_secs_f64() / time.as_secs_f64() * 100.0, 2),
        polls: driven.polls() - polls,
    })
}

/// A line of `smaps_rollup`.
fn kib(rollup: &str, key: &str) -> anyhow::Result<u32> {
    let value = |line: &str| {
        line.strip_prefix(key)?.strip_prefix(':')?.trim().strip_suffix(" kB")?.parse().ok()
    };
    rollup.lines().find_map(value).with_context(|| format!("no {key} in smaps_rollup"))
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "idle: {} tasks, sampled and checked every second, for {} s: {} MiB resident ({} MiB \
         proportional, {} MiB private), {} % of a core\n",
        figures.tasks,
        figures.seconds,
        figures.resident_mib,
        figures.proportional_mib,
        figures.private_mib,
        figures.core_percent
    )
}
