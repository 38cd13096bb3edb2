//! The shim's last phase: cleans up and summarises.

use crate::cgroup::{CgroupError, TaskCgroup, UsageReader};
use crate::process::unix_micros_now;
use crate::record::{Exit, ExitReason, Launch};
use crate::sys;

use super::message;
use super::supervise::Ended;

/// The nice value of a shim whose task has ended: where many end together, what still runs comes
/// first, the Borglet and its health checks included.
const NICE: i32 = 10;

/// Empties and removes the task's cgroup, and returns how the task ended. Without a cgroup nothing
/// was measured, and the end of the init has ended everything.
pub(super) fn end(launch: &Launch, cgroup: Option<&TaskCgroup>, ended: Ended) -> Exit {
    let ended_at_unix_us = unix_micros_now();
    sys::be_nice(NICE);
    // All its processes have ended with the init.
    if let Some(network) = launch.network.as_ref().filter(|network| network.of_alloc.is_none()) {
        network.remove();
    }
    let Some(cgroup) = cgroup else {
        let reason = ended.reason;
        return Exit { reason, ended_at_unix_us, cpu_ns: None, memory_peak_bytes: None };
    };
    report(launch, cgroup.kill_all());
    let reader = report(launch, cgroup.usage_reader());
    let keeps_peak = reader.as_ref().is_some_and(UsageReader::keeps_peak);
    let usage = reader.and_then(|mut reader| report(launch, reader.read()));
    let oom_kills = report(launch, cgroup.oom_kills()).unwrap_or(0);
    // It may have been changed since the launch.
    let limit_bytes = report(launch, cgroup.memory_limit_bytes());
    let full = if oom_kills > 0 { full(launch, cgroup, &ended) } else { None };
    let full_bytes = full.and_then(|full| report(launch, full.memory_limit_bytes()));
    report(launch, cgroup.remove());
    let reason = match ended.reason {
        // However the main process reacted to losing a part of the task.
        ExitReason::Exited { .. }
        | ExitReason::Signalled { .. }
        | ExitReason::NotStarted { .. }
        | ExitReason::NotSetUp { .. }
            if oom_kills > 0 =>
        {
            let peak_bytes = usage.map_or(0, |usage| usage.memory_peak_bytes);
            match full_bytes {
                Some(limit_bytes) => ExitReason::OutOfMemory { limit_bytes, peak_bytes },
                None => ExitReason::MachineOutOfMemory {
                    limit_bytes: limit_bytes.unwrap_or(launch.limits.memory_bytes),
                    peak_bytes,
                },
            }
        }
        reason => reason,
    };
    Exit {
        reason,
        ended_at_unix_us,
        cpu_ns: usage.map(|usage| usage.cpu_ns),
        // By now it has no memory any more: without a peak from the kernel there is none.
        memory_peak_bytes: usage.filter(|_| keeps_peak).map(|usage| usage.memory_peak_bytes),
    }
}

/// The cgroup whose limit was reached when the kernel killed a process of the task: its own or its
/// alloc's. `None` if the machine had no memory left, or all its tasks together had reached their limit.
fn full(launch: &Launch, cgroup: &TaskCgroup, ended: &Ended) -> Option<TaskCgroup> {
    let alloc = launch.in_alloc.then(|| cgroup.parent()).flatten();
    let ooms = |group: &TaskCgroup| report(launch, group.ooms()).flatten();
    let reached = |group: &TaskCgroup| report(launch, group.has_reached_limit()) == Some(true);
    if let Some(own) = ooms(cgroup) {
        return match own {
            0 => alloc.filter(|alloc| ooms(alloc).is_some_and(|ooms| ooms > 0)),
            _ => Some(cgroup.clone()),
        };
    }
    // On v1 a limit above them notifies them, too.
    match alloc {
        Some(alloc) if ended.alloc_was_full && reached(&alloc) => Some(alloc),
        _ => (ended.limit_was_reached && reached(cgroup)).then(|| cgroup.clone()),
    }
}

/// Logs an error that does not affect how the task ended.
fn report<T>(launch: &Launch, result: Result<T, CgroupError>) -> Option<T> {
    result.inspect_err(|error| message(&format_args!("{}: {error}", launch.label))).ok()
}
