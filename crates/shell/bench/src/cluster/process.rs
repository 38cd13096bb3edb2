//! Resource usage of other processes, from the kernel.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::unistd::{SysconfVar, sysconf};

/// The CPU time of a process so far, with the kernel's resolution of a hundredth of a second.
pub(super) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    // The name, in parentheses, may contain anything. The state and other fields follow it.
    let (_, rest) = stat.rsplit_once(") ").context("cannot parse /proc/PID/stat")?;
    let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let ticks =
        ticks.sum::<Result<u64, _>>().context("cannot parse CPU times in /proc/PID/stat")?;
    let per_second = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100).try_into().unwrap_or(100_u64);
    Ok(Duration::from_millis(ticks.saturating_mul(1_000) / per_second.max(1)))
}

/// The resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("cannot find the resident memory of a process")? << 10)
}

/// The CPU time of this process so far.
pub(super) fn own_cpu_time() -> anyhow::Result<Duration> {
    cpu_time(std::process::id())
}
