//! What the kernel says about the usage of a cgroup beyond CPU time and memory: each part is absent
//! where the kernel does not have it.

use std::path::{Path, PathBuf};

use super::usage::{Counter, keyed};
use super::{CgroupError, V1Mounts};

/// Details of the usage of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The page cache charged to it, in bytes.
    pub page_cache_bytes: Option<u64>,
    /// Its memory limit, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// The time for which it was throttled at its CPU limit, in nanoseconds: a counter.
    pub throttled_ns: Option<u64>,
    /// The time for which its threads were stalled.
    pub stalls: Stalls,
}

/// The time, in microseconds, for which at least one thread was stalled (the kernel's pressure stall
/// information, "some"): counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Waiting for CPU.
    pub cpu_us: Option<u64>,
    /// Waiting for memory.
    pub memory_us: Option<u64>,
    /// Waiting for disks.
    pub io_us: Option<u64>,
}

/// The open files with the details of one cgroup.
#[derive(Debug)]
pub struct DetailReader {
    memory: Option<Counter>,
    cache_key: &'static str,
    limit: Option<Counter>,
    cpu: Option<Counter>,
    /// The key of the throttled time, and its unit in nanoseconds.
    throttled: (&'static str, u64),
    stalls: StallReader,
}

/// The open pressure files of a cgroup, or of the machine.
#[derive(Debug)]
pub(crate) struct StallReader {
    cpu: Option<Counter>,
    memory: Option<Counter>,
    io: Option<Counter>,
}

impl StallReader {
    pub(crate) fn open(paths: [PathBuf; 3]) -> Self {
        let [cpu, memory, io] = paths.map(|path| Counter::open(path).ok());
        Self { cpu, memory, io }
    }

    pub(crate) fn read(&mut self) -> Stalls {
        Stalls {
            cpu_us: or_never_again(&mut self.cpu, stalled),
            memory_us: or_never_again(&mut self.memory, stalled),
            io_us: or_never_again(&mut self.io, stalled),
        }
    }
}

impl DetailReader {
    pub(super) fn v1(mounts: &V1Mounts, name: &str) -> Self {
        let (memory, cpu) = (mounts.memory.join(name), mounts.cpu.join(name));
        let unified = mounts.unified.as_ref().map(|tree| tree.join(name)).unwrap_or_default();
        Self {
            memory: Counter::open(memory.join("memory.stat")).ok(),
            cache_key: "total_cache",
            limit: Counter::open(memory.join("memory.limit_in_bytes")).ok(),
            cpu: Counter::open(cpu.join("cpu.stat")).ok(),
            throttled: ("throttled_time", 1),
            stalls: StallReader::open(pressure_files(&unified)),
        }
    }

    pub(super) fn v2(directory: &Path) -> Self {
        Self {
            memory: Counter::open(directory.join("memory.stat")).ok(),
            cache_key: "file",
            limit: Counter::open(directory.join("memory.max")).ok(),
            cpu: Counter::open(directory.join("cpu.stat")).ok(),
            throttled: ("throttled_usec", 1_000),
            stalls: StallReader::open(pressure_files(directory)),
        }
    }

    /// Reads the details; those that the kernel does not have, or not any more, are absent.
    pub fn read(&mut self) -> Details {
        let (cache, (throttled, unit)) = (self.cache_key, self.throttled);
        let throttled = |content: &str| keyed(content, throttled);
        Details {
            page_cache_bytes: or_never_again(&mut self.memory, |content| keyed(content, cache)),
            // "max", and on v1 nearly 2^63, mean that there is none.
            memory_limit_bytes: or_never_again(&mut self.limit, |content| {
                Some(content.trim().parse::<u64>().unwrap_or(u64::MAX))
            })
            .filter(|limit| *limit < 1 << 62),
            throttled_ns: or_never_again(&mut self.cpu, throttled)
                .map(|time| time.saturating_mul(unit)),
            stalls: self.stalls.read(),
        }
    }
}

fn pressure_files(directory: &Path) -> [PathBuf; 3] {
    ["cpu.pressure", "memory.pressure", "io.pressure"].map(|name| directory.join(name))
}

/// Reads a file; one that the kernel does not support is not read again.
fn or_never_again(
    counter: &mut Option<Counter>,
    parse: impl FnOnce(&str) -> Option<u64>,
) -> Option<u64> {
    let read: Result<u64, CgroupError> = counter.as_ref()?.read("a known key", parse);
    if read.is_err() {
        *counter = None;
    }
    read.ok()
}

/// The total of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=N`.
fn stalled(content: &str) -> Option<u64> {
    let line = content.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn values_missing_from_the_kernel_are_absent() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("memory.stat", "anon 10\nfile 4096\nfile_mapped 1\n"),
            ("memory.max", "max\n"),
            ("cpu.stat", "usage_usec 9\nthrottled_usec 7\n"),
            ("cpu.pressure", "some avg10=0.00 avg60=0.10 avg300=1.00 total=31415\nfull total=1\n"),
            ("io.pressure", "what"),
        ];
        for (name, content) in files {
            fs::write(root.path().join(name), content).unwrap();
        }
        let mut reader = DetailReader::v2(root.path());
        let expected = Details {
            page_cache_bytes: Some(4096),
            memory_limit_bytes: None,
            throttled_ns: Some(7_000),
            stalls: Stalls { cpu_us: Some(31_415), memory_us: None, io_us: None },
        };
        assert_eq!(reader.read(), expected);
        fs::write(root.path().join("memory.max"), "65536\n").unwrap();
        assert_eq!(reader.read().memory_limit_bytes, Some(65_536));
        assert_eq!(DetailReader::v2(Path::new("/nowhere")).read(), Details::default());
    }
}
