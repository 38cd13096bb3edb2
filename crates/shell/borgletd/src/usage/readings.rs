//! Converts the kernel's numbers to the core's types.

use borglet::{Counters, Reading};
use linux::cgroup::Stalls;
use linux::usage::{MachineUsage, TaskUsage};
use model::{Bytes, Span};

/// The reading of a task; `disk` is what its files take, if they have been counted.
pub(super) fn of_task(usage: &TaskUsage, disk: Option<Bytes>) -> Reading {
    let TaskUsage { details, .. } = usage;
    Reading {
        cpu_time: usage.cpu_ns.map(nanoseconds),
        memory: usage.memory_bytes.map(Bytes),
        memory_peak: usage.memory_peak_bytes.map(Bytes),
        page_cache: details.page_cache_bytes.map(Bytes),
        memory_assigned: details.memory_limit_bytes.map(Bytes),
        disk,
        disk_bytes: usage.disk_bytes.map(Bytes),
        throttled: details.throttled_ns.map(nanoseconds),
        counters: usage.hardware.map(|counts| Counters {
            cycles: counts.cycles,
            instructions: counts.instructions,
            memory_accesses: counts.memory_accesses,
        }),
        ..of_stalls(&details.stalls)
    }
}

/// The reading of the machine.
pub(super) fn of_machine(usage: &MachineUsage) -> Reading {
    Reading {
        cpu_time: usage.cpu_ns.map(nanoseconds),
        memory: usage.memory_bytes.map(Bytes),
        page_cache: usage.page_cache_bytes.map(Bytes),
        disk: usage.disk_bytes.map(Bytes),
        disk_bytes: usage.disk_io_bytes.map(Bytes),
        ..of_stalls(&usage.stalls)
    }
}

fn of_stalls(stalls: &Stalls) -> Reading {
    Reading {
        cpu_stall: stalls.cpu_us.map(Span),
        memory_stall: stalls.memory_us.map(Span),
        io_stall: stalls.io_us.map(Span),
        ..Reading::default()
    }
}

fn nanoseconds(time: u64) -> Span {
    Span(time / 1_000)
}
