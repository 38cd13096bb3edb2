//! Hardware counters of a cgroup: cycles, instructions and misses of the last cache, in one group of
//! counters for each processor. Many machines, above all virtual ones, have none.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};

use crate::sys::{self, PerfEvent};

/// Counts of a cgroup since the counters were opened. While the processor shares its counters with
/// others, all three count a part of the time only, the same part: their ratios are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareCounts {
    /// CPU cycles.
    pub cycles: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Misses of the last cache: accesses to memory.
    pub memory_accesses: u64,
}

/// The open counters of one cgroup.
#[derive(Debug)]
pub(super) struct HardwareReader {
    /// For each processor the leader of its group, and the other counters, which only stay open.
    groups: Vec<(File, Vec<OwnedFd>)>,
}

impl HardwareReader {
    /// Opens the counters of the cgroup with a directory in the unified tree.
    ///
    /// # Errors
    /// When the machine has no such counters, or the kernel does not count them by cgroup.
    pub(super) fn open(cgroup: &Path) -> io::Result<Self> {
        Self::of(cgroup, PerfEvent::HARDWARE)
    }

    fn of(cgroup: &Path, events: [PerfEvent; 3]) -> io::Result<Self> {
        let cgroup = File::open(cgroup)?;
        let groups = (0..processors()).map(|processor| {
            let [leader, others @ ..] = events;
            let leader = sys::perf_event_open(leader, cgroup.as_fd(), processor, None)?;
            let others = others.map(|event| {
                sys::perf_event_open(event, cgroup.as_fd(), processor, Some(leader.as_fd()))
            });
            let others = others.into_iter().collect::<io::Result<_>>()?;
            Ok((File::from(leader), others))
        });
        Ok(Self { groups: groups.collect::<io::Result<_>>()? })
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub(super) fn read(&mut self) -> io::Result<HardwareCounts> {
        let mut sum = HardwareCounts::default();
        for (leader, _) in &mut self.groups {
            // The number of counters, then the counters.
            let mut bytes = [0; 32];
            leader.read_exact(&mut bytes)?;
            let number = |index: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
                u64::from_ne_bytes(word)
            };
            sum.cycles = sum.cycles.saturating_add(number(1));
            sum.instructions = sum.instructions.saturating_add(number(2));
            sum.memory_accesses = sum.memory_accesses.saturating_add(number(3));
        }
        Ok(sum)
    }
}

/// How many open files the counters of one task are.
#[must_use]
pub fn files_of_counters() -> u64 {
    3 * u64::from(processors().unsigned_abs())
}

fn processors() -> i32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|number| i32::try_from(number).ok()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real counters of the kernel, which every machine has: this test needs root, as the system
    /// tests do.
    #[test]
    fn counters_of_a_cgroup_count_what_runs_in_it() {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = root.into_iter().find(|root| root.join("cgroup.controllers").exists());
        let Some(root) = root else { return };
        let cgroup = root.join(format!("bourg-counters-{}", std::process::id()));
        std::fs::create_dir(&cgroup).unwrap();
        let mut counters = HardwareReader::of(&cgroup, PerfEvent::SOFTWARE).unwrap();
        assert_eq!(counters.read().unwrap(), HardwareCounts::default(), "nothing runs there");
        let busy = format!(
            "echo 0 > {}/cgroup.procs; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done",
            cgroup.display()
        );
        let ran = std::process::Command::new("sh").args(["-c", &busy]).status().unwrap();
        assert!(ran.success());
        let counted = counters.read().unwrap();
        assert!(counted.cycles > 10_000_000, "nanoseconds of CPU: {counted:?}");
        assert!(counted.instructions > 0, "page faults: {counted:?}");
        std::fs::remove_dir(&cgroup).unwrap();
    }
}
