//! What the whole machine uses.

use std::path::{Path, PathBuf};

use nix::unistd::{SysconfVar, sysconf};

use crate::cgroup::{Counter, StallReader, Stalls};
use crate::disk::Disk;

/// A sector of `/proc/diskstats`, whatever the disk's own.
const SECTOR_BYTES: u64 = 512;

/// What the machine has used, and uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineUsage {
    /// CPU time of everything, in nanoseconds, with the resolution of the kernel's ticks: a counter.
    pub cpu_ns: Option<u64>,
    /// Memory in use, including the page cache.
    pub memory_bytes: Option<u64>,
    /// The part of it that is page cache.
    pub page_cache_bytes: Option<u64>,
    /// What is taken of the file system with the Borglet's data.
    pub disk_bytes: Option<u64>,
    /// Bytes read from and written to all disks: a counter.
    pub disk_io_bytes: Option<u64>,
    /// The time for which threads were stalled.
    pub stalls: Stalls,
}

/// Reads the usage of the machine.
#[derive(Debug)]
pub struct MachineReader {
    directory: PathBuf,
    stat: Option<Counter>,
    memory: Option<Counter>,
    stalls: StallReader,
    tick_ns: u64,
}

impl MachineReader {
    /// Opens the counters. `directory` is on the file system whose usage is read.
    #[must_use]
    pub fn open(directory: &Path) -> Self {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0);
        let ticks = ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(100);
        let pressure = ["cpu", "memory", "io"].map(|what| Path::new("/proc/pressure").join(what));
        Self {
            directory: directory.to_owned(),
            stat: Counter::open("/proc/stat".into()).ok(),
            memory: Counter::open("/proc/meminfo".into()).ok(),
            stalls: StallReader::open(pressure),
            tick_ns: 1_000_000_000 / ticks,
        }
    }

    /// Reads the counters; what cannot be read is absent.
    pub fn read(&mut self) -> MachineUsage {
        let memory = self.memory.as_ref().and_then(|file| file.read("sizes", memory).ok());
        let disk = Disk::of(&self.directory).ok();
        MachineUsage {
            cpu_ns: (self.stat.as_ref())
                .and_then(|file| file.read("CPU times", busy_ticks).ok())
                .map(|ticks| ticks.saturating_mul(self.tick_ns)),
            memory_bytes: memory.map(|(used, _)| used),
            page_cache_bytes: memory.map(|(_, cache)| cache),
            disk_bytes: disk.map(|disk| disk.used_bytes),
            disk_io_bytes: disk_io_bytes(),
            stalls: self.stalls.read(),
        }
    }
}

/// The ticks in which a processor did not idle, from `/proc/stat`: user, nice, system, interrupts.
fn busy_ticks(content: &str) -> Option<u64> {
    let line = content.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, interrupts, soft, ..] = ticks[..] else {
        return None;
    };
    Some(user + nice + system + interrupts + soft)
}

/// The memory in use, and the page cache, from `/proc/meminfo`.
fn memory(content: &str) -> Option<(u64, u64)> {
    let kib = |key: &str| {
        let line = content.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let cache = kib("Cached:")? + kib("Buffers:")? + kib("SReclaimable:").unwrap_or(0);
    let used = kib("MemTotal:")?.saturating_sub(kib("MemFree:")?);
    Some((used << 10, cache << 10))
}

/// What the machine's disks have read and written. Partitions, and devices on top of others, would
/// count twice.
fn disk_io_bytes() -> Option<u64> {
    let content = std::fs::read_to_string("/proc/diskstats").ok()?;
    let is_disk = |name: &str| {
        let virtual_ones = ["loop", "ram", "zram", "dm-", "md"];
        !virtual_ones.iter().any(|prefix| name.starts_with(prefix))
            && Path::new("/sys/block").join(name).exists()
    };
    let of_one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, read, written) = (fields.get(2)?, fields.get(5)?, fields.get(9)?);
        let sectors = read.parse::<u64>().ok()?.checked_add(written.parse().ok()?)?;
        is_disk(name).then(|| sectors.saturating_mul(SECTOR_BYTES))
    };
    let all = content.lines().filter_map(of_one);
    all.fold(None, |sum: Option<u64>, bytes| Some(sum.unwrap_or(0).saturating_add(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_machine_uses_time_and_memory() {
        let mut reader = MachineReader::open(Path::new("/"));
        let first = reader.read();
        assert!(first.cpu_ns > Some(0) && first.memory_bytes > Some(1 << 20), "{first:?}");
        assert!(first.disk_bytes > Some(0), "{first:?}");
        assert!(reader.read().cpu_ns >= first.cpu_ns);
    }

    #[test]
    fn the_kernels_pages_are_read() {
        let stat = "cpu  10 2 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(busy_ticks(stat), Some(55));
        assert_eq!(busy_ticks("cpu 1 2"), None);
        let meminfo = "MemTotal: 100 kB\nMemFree: 30 kB\nBuffers: 1 kB\nCached: 20 kB\n";
        assert_eq!(memory(meminfo), Some((70 << 10, 21 << 10)));
        assert_eq!(memory("MemTotal: 100 kB"), None);
    }
}
