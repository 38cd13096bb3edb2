//! What other processes have used, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::unistd::{SysconfVar, sysconf};

/// The CPU time of a process so far: in steps of a hundredth of a second, as the kernel shows it.
pub(super) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    // The name, in parentheses, may have anything in it. After it come the state and others.
    let (_, rest) = stat.rsplit_once(") ").context("the kernel says too little of a process")?;
    let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("the kernel counts otherwise")?;
    let per_second = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100).try_into().unwrap_or(100_u64);
    Ok(Duration::from_millis(ticks.saturating_mul(1_000) / per_second.max(1)))
}

/// The memory of a process that is resident, in bytes.
pub(super) fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("the kernel does not say how much memory a process has")? << 10)
}

/// The CPU time of this process so far.
pub(super) fn own_cpu_time() -> anyhow::Result<Duration> {
    cpu_time(std::process::id())
}
