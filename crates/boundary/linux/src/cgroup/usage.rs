//! Reads a cgroup's counters cheaply: files stay open and are read from the start each time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::CgroupError;
use crate::FileError;
use crate::error::At;

/// The usage of a cgroup. Counters start at the creation of the cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all processes, including ended ones, in nanoseconds (v2 counts in microseconds).
    pub cpu_ns: u64,
    /// Current memory in bytes, including page cache.
    pub memory_bytes: u64,
    /// Peak memory in bytes. Before kernel 5.19, v2 has no such counter, and this is the maximum
    /// that the reader has seen.
    pub memory_peak_bytes: u64,
}

/// The open counters of one cgroup.
#[derive(Debug)]
pub struct UsageReader {
    cpu: Counter,
    cpu_format: CpuFormat,
    memory: Counter,
    peak: Option<Counter>,
    peak_seen_bytes: u64,
}

/// The format of the CPU counter.
#[derive(Clone, Copy, Debug)]
pub(super) enum CpuFormat {
    /// One number of nanoseconds: `cpuacct.usage`.
    Nanoseconds,
    /// A list with `usage_usec`: `cpu.stat`.
    Stat,
}

/// An open file of the kernel that is read again and again.
#[derive(Debug)]
pub(crate) struct Counter {
    file: File,
    path: PathBuf,
}

impl Counter {
    pub(crate) fn open(path: PathBuf) -> Result<Self, FileError> {
        Ok(Self { file: File::open(&path).at("open", &path)?, path })
    }

    /// Parses the start of the file, which is long enough for what we need of any counter.
    pub(crate) fn read<T>(
        &self,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, CgroupError> {
        let mut buffer = [0; 4_096];
        let length = self.file.read_at(&mut buffer, 0).at("read", &self.path)?;
        let content = String::from_utf8_lossy(&buffer[..length]);
        parse(&content).ok_or_else(|| unexpected(&self.path, &content, expected))
    }

    pub(crate) fn number(&self) -> Result<u64, CgroupError> {
        self.read("a number", |content| content.trim().parse().ok())
    }
}

impl UsageReader {
    pub(super) fn open(
        cpu: PathBuf,
        cpu_format: CpuFormat,
        memory: PathBuf,
        peak: PathBuf,
    ) -> Result<Self, CgroupError> {
        let peak = match Counter::open(peak) {
            Ok(peak) => Some(peak),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let (cpu, memory) = (Counter::open(cpu)?, Counter::open(memory)?);
        Ok(Self { cpu, cpu_format, memory, peak, peak_seen_bytes: 0 })
    }

    /// Whether the kernel keeps the peak. Where it does not, the peak is that of the readings alone.
    #[must_use]
    pub fn keeps_peak(&self) -> bool {
        self.peak.is_some()
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// When the cgroup has been removed.
    pub fn read(&mut self) -> Result<Usage, CgroupError> {
        let cpu_ns = match self.cpu_format {
            CpuFormat::Nanoseconds => self.cpu.number()?,
            CpuFormat::Stat => {
                let micros = |content: &str| keyed(content, "usage_usec");
                self.cpu.read("a list with `usage_usec`", micros)?.saturating_mul(1000)
            }
        };
        let memory_bytes = self.memory.number()?;
        self.peak_seen_bytes = self.peak_seen_bytes.max(memory_bytes);
        let memory_peak_bytes = match &self.peak {
            Some(peak) => peak.number()?,
            None => self.peak_seen_bytes,
        };
        Ok(Usage { cpu_ns, memory_bytes, memory_peak_bytes })
    }
}

/// The number after `key` in a list of `key number` lines.
pub(crate) fn keyed(content: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    content.lines().find_map(value)
}

pub(super) fn unexpected(path: &Path, content: &str, expected: &'static str) -> CgroupError {
    let content = content.chars().take(60).collect();
    CgroupError::Unexpected { path: path.to_owned(), content, expected }
}

#[cfg(test)]
mod tests {
    use super::keyed;

    #[test]
    fn only_whole_keys_are_found() {
        let events = "low 0\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(keyed(events, "oom_kill"), Some(2));
        assert_eq!(keyed(events, "oom"), Some(3));
        assert_eq!(keyed(events, "oom_group"), None);
        assert_eq!(keyed("oom_kill x", "oom_kill"), None);
    }
}
