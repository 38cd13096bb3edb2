//! Processes and threads as a resource of the machine: the kernel numbers only so many, and who has none left
//! cannot even log in. All tasks together get a part of them.

use std::fs;
use std::path::Path;

use super::{CgroupError, Hierarchy, write};
use crate::FileError;
use crate::error::At;

/// The part of the processes of a machine that stays for its system: one in so many.
const RESERVED: u64 = 8;

/// What the kernel numbers, and what it has memory for.
const KERNEL: [&str; 2] = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];

/// Limits the processes and threads of all tasks of this host together: of every Borglet whose cgroups are
/// below the same one as `parent`. Returns their maximum.
///
/// # Errors
/// When the cgroup does not exist, or the kernel returns an error.
pub fn limit_all_processes(hierarchy: &Hierarchy, parent: &str) -> Result<u64, CgroupError> {
    let root = match hierarchy {
        Hierarchy::V1(mounts) => &mounts.pids,
        Hierarchy::V2 { root } => root,
    };
    let mut all = u64::MAX;
    for file in KERNEL {
        all = all.min(number(Path::new(file))?.unwrap_or(u64::MAX));
    }
    // In a container, what that may have.
    let own = root.join("pids.max");
    if own.exists() {
        all = all.min(number(&own)?.unwrap_or(u64::MAX));
    }
    let max = of_tasks(all);
    let common = parent.split('/').next().unwrap_or(parent);
    write(&root.join(common).join("pids.max"), &max.to_string())?;
    Ok(max)
}

/// What tasks get of a number.
fn of_tasks(all: u64) -> u64 {
    (all - all / RESERVED).min(u32::MAX.into())
}

/// The number in a file; none if it says that there is no limit.
fn number(path: &Path) -> Result<Option<u64>, FileError> {
    let content = fs::read_to_string(path).at("read", path)?;
    Ok(content.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stays_for_the_system() {
        for (all, expected) in [(32_768, 28_672), (0, 0), (7, 7), (u64::MAX, u32::MAX.into())] {
            assert_eq!(of_tasks(all), expected, "{all}");
        }
    }
}
