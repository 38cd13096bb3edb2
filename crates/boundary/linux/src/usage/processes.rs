//! The usage of a task as the sum over its processes.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

use crate::cgroup::{CgroupError, TaskCgroup, keyed};

/// More processes than this are not asked one by one each second.
const PROCESSES_MAX: usize = 64;

/// The processes of a task; none if there are too many.
#[derive(Debug)]
pub(super) struct Processes(Option<Vec<i32>>);

/// CPU time and memory of processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TreeUsage {
    pub(super) cpu_ns: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
}

impl Processes {
    /// Those in a cgroup.
    pub(super) fn of_cgroup(cgroup: &TaskCgroup) -> Result<Self, CgroupError> {
        let all = cgroup.processes()?;
        Ok(Self((all.len() <= PROCESSES_MAX).then_some(all)))
    }

    /// A process and its descendants.
    pub(super) fn below(root: i32) -> Self {
        let mut all = vec![root];
        let mut next = 0;
        while let Some(pid) = all.get(next).copied() {
            next += 1;
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for thread in tasks {
                let children = fs::read_to_string(thread.path().join("children"));
                let children = children.unwrap_or_default();
                all.extend(
                    children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()),
                );
            }
            if all.len() > PROCESSES_MAX {
                return Self(None);
            }
        }
        Self(Some(all))
    }

    /// Bytes that they, and their ended children, have read from and written to disks. A process
    /// that ends meanwhile is left out: its parent has its bytes as soon as it has waited for it.
    pub(super) fn disk_bytes(&self) -> Option<u64> {
        let of_one = |pid: &i32| {
            let content = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
            keyed(&content, "read_bytes:")?.checked_add(keyed(&content, "write_bytes:")?)
        };
        let all = self.0.as_ref()?.iter().filter_map(of_one);
        all.fold(None, |sum: Option<u64>, bytes| Some(sum.unwrap_or(0).saturating_add(bytes)))
    }

    /// Their CPU time with that of their ended children, and their resident memory.
    pub(super) fn usage(&self) -> TreeUsage {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0);
        let tick_ns =
            1_000_000_000 / ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(100);
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page = page.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4_096);
        let mut found = TreeUsage::default();
        for pid in self.0.iter().flatten() {
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            let Some((used, pages)) = parse(&stat) else { continue };
            found.cpu_ns = Some(found.cpu_ns.unwrap_or(0) + used.saturating_mul(tick_ns));
            let memory = found.memory_bytes.unwrap_or(0);
            found.memory_bytes = Some(memory.saturating_add(pages.saturating_mul(page)));
        }
        found
    }
}

/// The ticks of CPU time of a process and of its ended children, and its resident pages, from
/// `/proc/<pid>/stat`.
fn parse(stat: &str) -> Option<(u64, u64)> {
    // The name may itself contain spaces and parentheses, so count from the last parenthesis.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
    let mut ticks: u64 = 0;
    for field in 14..=17 {
        ticks = ticks.saturating_add(u64::try_from(number(field)?).ok()?);
    }
    Some((ticks, u64::try_from(number(24)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_process_has_used_time_and_memory() {
        let me = i32::try_from(std::process::id()).unwrap();
        // However busy the machine is, the time that the process itself has used shows up.
        let mut used = Processes::below(me).usage();
        for _ in 0..1_000_000 {
            if used.cpu_ns >= Some(20_000_000) {
                break;
            }
            used = Processes::below(me).usage();
        }
        assert!(used.cpu_ns >= Some(20_000_000), "{used:?}");
        assert!(used.memory_bytes > Some(100_000), "{used:?}");
        assert_eq!(parse("1 (a) b) S 1 2"), None);
    }
}
