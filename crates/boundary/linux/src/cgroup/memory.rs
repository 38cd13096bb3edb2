//! The memory of a cgroup that the kernel cannot reclaim, whether its limit was reached, and a trigger
//! that tells that its tasks wait for memory.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::usage::{keyed, unexpected};
use super::{CgroupError, Hierarchy, TaskCgroup};
use crate::error::At;

/// A cgroup that had less than this below its limit has reached it: the kernel charges memory in
/// batches.
const REACHED_WITHIN: u64 = 1 << 20;
/// The trigger fires when tasks waited for this long, in microseconds, within the window.
const TRIGGER: &str = "some 100000 1000000";

impl TaskCgroup {
    /// The memory in bytes that the cgroup and those below it use, without what the kernel can reclaim
    /// from them: the page cache of files, and on v2 caches of the kernel. Content of tmpfs counts as
    /// used.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn unreclaimable_bytes(&self) -> Result<u64, CgroupError> {
        let (directory, used, keys): (_, _, &[&str]) = match &self.hierarchy {
            Hierarchy::V1(mounts) => (
                mounts.memory.join(&self.name),
                "memory.usage_in_bytes",
                &["total_inactive_file", "total_active_file"],
            ),
            Hierarchy::V2 { root } => (
                root.join(&self.name),
                "memory.current",
                &["inactive_file", "active_file", "slab_reclaimable"],
            ),
        };
        let (used, stat) = (directory.join(used), directory.join("memory.stat"));
        let content = fs::read_to_string(&used).at("read", &used)?;
        let bytes: u64 =
            content.trim().parse().map_err(|_| unexpected(&used, &content, "a number"))?;
        let content = fs::read_to_string(&stat).at("read", &stat)?;
        let cached = keys.iter().filter_map(|key| keyed(&content, key));
        Ok(bytes.saturating_sub(cached.fold(0, u64::saturating_add)))
    }

    /// Whether its memory usage has ever reached its own limit.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn has_reached_limit(&self) -> Result<bool, CgroupError> {
        let peak = self.usage()?.memory_peak_bytes;
        Ok(peak.saturating_add(REACHED_WITHIN) >= self.memory_limit_bytes()?)
    }

    /// The names of the cgroups directly below it, without its own path; none if it does not exist.
    #[must_use]
    pub fn children(&self) -> Vec<String> {
        let directory = match &self.hierarchy {
            Hierarchy::V1(mounts) => mounts.memory.join(&self.name),
            Hierarchy::V2 { root } => root.join(&self.name),
        };
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let directories = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            is_directory.then(|| entry.file_name().to_string_lossy().into_owned())
        });
        directories.collect()
    }

    /// The cgroup `name` below it.
    ///
    /// # Errors
    /// [`CgroupError::BadName`].
    pub fn child(&self, name: &str) -> Result<Self, CgroupError> {
        Self::open(&self.hierarchy, &format!("{}/{name}", self.name))
    }

    /// A trigger for memory pressure in the cgroup; `None` where the kernel has no pressure stall
    /// information for cgroups.
    #[must_use]
    pub fn pressure_trigger(&self) -> Option<PressureTrigger> {
        PressureTrigger::open(self.unified_directory()?.join("memory.pressure"))
    }
}

/// The kernel's notification that tasks of a cgroup wait for memory: for 100 ms within a second.
#[derive(Debug)]
pub struct PressureTrigger {
    file: File,
}

impl PressureTrigger {
    fn open(path: PathBuf) -> Option<Self> {
        let mut file = File::options().read(true).write(true).open(path).ok()?;
        file.write_all(TRIGGER.as_bytes()).ok()?;
        Some(Self { file })
    }

    /// Waits for pressure, at most for so long. `None` when the trigger is of no use any more, as when
    /// its cgroup was removed.
    #[must_use]
    pub fn wait(&self, most: Duration) -> Option<bool> {
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLPRI)];
        match poll(&mut fds, most) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => Some(false),
            Ok(_) => {
                let events = fds[0].revents().unwrap_or(PollFlags::POLLERR);
                (!events.contains(PollFlags::POLLERR)).then_some(true)
            }
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::V1Mounts;

    #[test]
    fn the_page_cache_of_files_can_be_reclaimed() {
        let root = tempfile::tempdir().unwrap();
        let all = root.path().to_owned();
        let unified = None;
        let (cpu, cpuacct, memory, pids) = (all.clone(), all.clone(), all.clone(), all.clone());
        let v1 = Hierarchy::V1(V1Mounts {
            cpu,
            cpuacct,
            memory,
            pids,
            unified,
            blkio: None,
            cpuset: None,
        });
        let v2 = Hierarchy::V2 { root: all };
        fs::create_dir(root.path().join("task")).unwrap();
        let files = [
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.current", "1000\n"),
            (
                "memory.stat",
                "anon 500\nfile 400\ninactive_file 30\nactive_file 200\nslab_reclaimable 50\n\
                 total_inactive_file 100\ntotal_active_file 20\n",
            ),
        ];
        for (name, content) in files {
            fs::write(root.path().join("task").join(name), content).unwrap();
        }
        let used =
            |hierarchy| TaskCgroup::open(hierarchy, "task").unwrap().unreclaimable_bytes().unwrap();
        assert_eq!((used(&v1), used(&v2)), (880, 720));
        // The two files are not read at the same moment.
        fs::write(root.path().join("task/memory.current"), "100\n").unwrap();
        assert_eq!(used(&v2), 0);
        let gone = TaskCgroup::open(&v2, "none").unwrap().unreclaimable_bytes().unwrap_err();
        assert!(gone.is_gone(), "{gone}");
    }
}
