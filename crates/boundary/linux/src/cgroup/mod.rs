//! Control groups: what a task may use, what it does use, and the way to end all of it.
//!
//! Two back ends, v1 (with or without a unified tree beside it) and v2, behind one type,
//! [`TaskCgroup`]. A group is named by its path below the hierarchy's root, such as
//! `bourg/5f1c…/you-hello-3`; groups nest, which is how an alloc holds its tasks.
//!
//! Not here: any choice of limits, and any other controller than cpu, memory and pids.

mod empty;
mod error;
mod usage;
mod v1;
mod v2;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};

use crate::FileError;
use crate::error::At;
use empty::{is_removed, kill_one_by_one, remove_children};
pub use error::CgroupError;
pub use usage::{Usage, UsageReader};

/// How long [`TaskCgroup::remove`] waits for the kernel to let go of ended processes.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// What a group may use at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU in thousandths of a core: the share under contention, and with `cpu_hard_cap` the most.
    pub cpu_milli: u64,
    /// Whether CPU beyond `cpu_milli` is refused even when the machine idles.
    pub cpu_hard_cap: bool,
    /// Memory in bytes, page cache, `/tmp` and the small init included; swap is not given.
    /// The kernel rounds down to whole pages.
    pub memory_bytes: u64,
    /// Processes and threads, the small init included.
    pub pids_max: u64,
}

/// The cgroup file systems of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// One unified tree with every controller.
    V2 {
        /// Where it is mounted.
        root: PathBuf,
    },
    /// A tree per controller, and perhaps a unified tree without controllers beside them.
    V1(V1Mounts),
}

/// Where the v1 controllers are mounted; several may share one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Mounts {
    /// Shares and quotas.
    pub cpu: PathBuf,
    /// CPU time used.
    pub cpuacct: PathBuf,
    /// Memory limits, usage and the out-of-memory counter.
    pub memory: PathBuf,
    /// The number of processes.
    pub pids: PathBuf,
    /// The unified tree of a hybrid machine, for `cgroup.kill`.
    pub unified: Option<PathBuf>,
}

impl Hierarchy {
    /// Finds out what this machine has.
    ///
    /// # Errors
    /// [`CgroupError::NoController`] if one of the needed controllers is not there.
    pub fn detect() -> Result<Self, CgroupError> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let kind = statfs(&root).at("look at the cgroup file system", &root)?;
        if kind.filesystem_type() == CGROUP2_SUPER_MAGIC {
            v2::check_controllers(&root)?;
            return Ok(Self::V2 { root });
        }
        let mounts = "/proc/self/mounts";
        let mounts = fs::read_to_string(mounts).at("read", mounts)?;
        v1::parse_mounts(&mounts).map(Self::V1)
    }

    /// `v2`, `v1` or `hybrid`, as operators call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::V2 { .. } => "v2",
            Self::V1(mounts) if mounts.unified.is_some() => "hybrid",
            Self::V1(_) => "v1",
        }
    }
}

/// The parent group of all tasks of the Borglet that keeps its data in `data_dir`.
///
/// Two Borglets on one machine, as a dev cell may have, get different groups; the same Borglet
/// gets the same one after a restart.
#[must_use]
pub fn parent_name(data_dir: &Path) -> String {
    let path = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in path.as_os_str().as_encoded_bytes() {
        // FNV-1a: stable over releases, and nobody gains from a collision.
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("bourg/{hash:016x}")
}

/// Checks the name of a group without touching the machine.
///
/// # Errors
/// [`CgroupError::BadName`].
pub fn check_name(name: &str) -> Result<(), CgroupError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let good = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
    // cgroup files are named `controller.file`: a child of that name would collide.
    let file = |part: &str| {
        ["cgroup.", "cpu.", "cpuacct.", "memory.", "pids."].iter().any(|p| part.starts_with(p))
    };
    if name.len() <= 512
        && name.split('/').all(|part| good(part) && part.len() <= 200 && !file(part))
    {
        Ok(())
    } else {
        Err(CgroupError::BadName { name: name.to_owned() })
    }
}

/// One group: of a task, of an alloc, or the parent of them all.
#[derive(Clone, Debug)]
pub struct TaskCgroup {
    hierarchy: Hierarchy,
    name: String,
}

impl TaskCgroup {
    /// A handle on the group `name`, which need not exist.
    ///
    /// # Errors
    /// [`CgroupError::BadName`].
    pub fn open(hierarchy: &Hierarchy, name: &str) -> Result<Self, CgroupError> {
        check_name(name)?;
        Ok(Self { hierarchy: hierarchy.clone(), name: name.to_owned() })
    }

    /// Makes the group, and the groups above it where they are missing, and limits it.
    ///
    /// What an earlier group of that name left behind is killed and removed first, so that counters
    /// begin at zero.
    ///
    /// # Errors
    /// When a controller is missing or not delegated, or the old group cannot be emptied.
    pub fn create(hierarchy: &Hierarchy, name: &str, limits: &Limits) -> Result<Self, CgroupError> {
        let group = Self::open(hierarchy, name)?;
        if group.exists() {
            group.kill_all()?;
            group.remove()?;
        }
        match hierarchy {
            Hierarchy::V1(mounts) => v1::create(mounts, name)?,
            Hierarchy::V2 { root } => v2::create(root, name)?,
        }
        group.set_limits(limits)?;
        Ok(group)
    }

    /// Makes what is missing of a group that holds groups, such as an alloc's, and limits it. What is in
    /// it stays.
    ///
    /// # Errors
    /// When a controller is missing or not delegated, or memory in use is above the limit.
    pub fn make_parent(&self, limits: &Limits) -> Result<(), CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::create(mounts, &self.name)?,
            Hierarchy::V2 { root } => v2::create_parent(root, &self.name)?,
        }
        self.set_limits(limits)
    }

    /// The path below the hierarchy's root.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The group above, where there is one.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.name.rsplit_once('/')?;
        Some(Self { hierarchy: self.hierarchy.clone(), name: parent.to_owned() })
    }

    /// Whether any part of the group is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.directories().iter().any(|directory| directory.is_dir())
    }

    /// Whether every part of the group is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.directories().iter().all(|directory| directory.is_dir())
    }

    /// The group's directory in each tree, the one that can kill first.
    fn directories(&self) -> Vec<PathBuf> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::directories(mounts, &self.name),
            Hierarchy::V2 { root } => vec![root.join(&self.name)],
        }
    }

    /// Changes the limits of a group that exists; its processes go on running.
    ///
    /// # Errors
    /// [`CgroupError::MemoryInUse`] when memory in use is above the new limit and cannot be
    /// reclaimed. Memory then keeps its limit; the others are changed.
    pub fn set_limits(&self, limits: &Limits) -> Result<(), CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::set_limits(mounts, &self.name, limits),
            Hierarchy::V2 { root } => v2::set_limits(&root.join(&self.name), limits),
        }
    }

    /// Moves process `pid`, with all its threads, into the group.
    ///
    /// # Errors
    /// When the process or the group is gone.
    pub fn add_process(&self, pid: i32) -> Result<(), CgroupError> {
        for directory in self.directories() {
            write(&directory.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// Files through which a process can join later, when it no longer sees the cgroup file system:
    /// it writes `0` to each.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn join_files(&self) -> Result<Vec<File>, CgroupError> {
        let open = |directory: PathBuf| {
            let path = directory.join("cgroup.procs");
            Ok(File::options().write(true).open(&path).at("open", &path)?)
        };
        self.directories().into_iter().map(open).collect()
    }

    /// Kills every process in the group and in the groups below it. Returns before they are gone.
    ///
    /// A group that does not exist has nothing to kill.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill_all(&self) -> Result<(), CgroupError> {
        let directories = self.directories();
        for directory in &directories {
            // On a hybrid machine the unified tree, which comes first, has every process, too.
            match write(&directory.join("cgroup.kill"), "1") {
                Ok(()) => return Ok(()),
                Err(error) if error.is_not_found() || is_removed(&error.source) => {}
                Err(error) => return Err(error.into()),
            }
        }
        directories.iter().try_for_each(|directory| kill_one_by_one(directory))
    }

    /// The ids of its processes and of those in groups below it, as they are now; none where it is gone.
    ///
    /// # Errors
    /// When the kernel does not list them.
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        let mut pids = Vec::new();
        // On a hybrid machine every process is in each tree.
        if let Some(directory) = self.directories().first() {
            empty::collect(directory, &mut pids)?;
        }
        Ok(pids)
    }

    /// Removes the group, which must have been killed; waits a bounded time for its processes to go.
    ///
    /// A group that does not exist is removed already.
    ///
    /// # Errors
    /// [`CgroupError::StillPopulated`] when processes remain, for instance in a hung file system.
    pub fn remove(&self) -> Result<(), CgroupError> {
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        for directory in self.directories() {
            loop {
                match fs::remove_dir(&directory) {
                    Ok(()) => break,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                    Err(error) => return Err(FileError::new("remove", &directory, error).into()),
                }
                remove_children(&directory);
                if begin.elapsed() > REMOVE_PATIENCE {
                    let waited_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
                    return Err(CgroupError::StillPopulated { path: directory, waited_ms });
                }
                // The kernel has no notification that covers both trees; this is short and rare.
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Opens the counters of the group, to be read again and again.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn usage_reader(&self) -> Result<UsageReader, CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::usage_reader(mounts, &self.name),
            Hierarchy::V2 { root } => v2::usage_reader(&root.join(&self.name)),
        }
    }

    /// One reading of the counters; use [`usage_reader`](Self::usage_reader) to read often.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn usage(&self) -> Result<Usage, CgroupError> {
        self.usage_reader()?.read()
    }

    /// The most memory that the group may use now, in bytes; `u64::MAX` where nothing limits it.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn memory_limit_bytes(&self) -> Result<u64, CgroupError> {
        let path = match &self.hierarchy {
            Hierarchy::V1(mounts) => mounts.memory.join(&self.name).join("memory.limit_in_bytes"),
            Hierarchy::V2 { root } => root.join(&self.name).join("memory.max"),
        };
        let content = fs::read_to_string(&path).at("read", &path)?;
        match content.trim() {
            "max" => Ok(u64::MAX),
            number => number.parse().map_err(|_| usage::unexpected(&path, &content, "a number")),
        }
    }

    /// How many processes the kernel has killed because the group was out of memory.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn oom_kills(&self) -> Result<u64, CgroupError> {
        let path = match &self.hierarchy {
            Hierarchy::V1(mounts) => mounts.memory.join(&self.name).join("memory.oom_control"),
            Hierarchy::V2 { root } => root.join(&self.name).join("memory.events"),
        };
        let content = fs::read_to_string(&path).at("read", &path)?;
        usage::keyed(&content, "oom_kill")
            .ok_or_else(|| usage::unexpected(&path, &content, "a list with `oom_kill`"))
    }

    /// How often the group reached its own limit of memory, or one below it did, so that a process had to
    /// be killed: not when the limit of a group above was reached. `None` on v1, which does not count that.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn ooms(&self) -> Result<Option<u64>, CgroupError> {
        let Hierarchy::V2 { root } = &self.hierarchy else { return Ok(None) };
        let path = root.join(&self.name).join("memory.events");
        let content = fs::read_to_string(&path).at("read", &path)?;
        let count = usage::keyed(&content, "oom");
        count.map(Some).ok_or_else(|| usage::unexpected(&path, &content, "a list with `oom`"))
    }

    /// A descriptor that becomes readable when the group runs out of memory and the kernel will kill
    /// only one of its processes. `None` on v2, where the kernel kills the whole group by itself.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn oom_watch(&self) -> Result<Option<OwnedFd>, CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::oom_watch(&mounts.memory.join(&self.name)).map(Some),
            Hierarchy::V2 { .. } => Ok(None),
        }
    }
}

/// Writes one value to a file of the kernel's.
fn write(path: &Path, value: &str) -> Result<(), FileError> {
    use std::io::Write;
    let mut file = File::options().write(true).open(path).at("open", path)?;
    file.write_all(value.as_bytes()).at("write", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_of_plain_components() {
        for good in ["bourg", "bourg/0f/you-hello-3", "a.b/c_d", "bourg/x/alloc:1"] {
            check_name(good).unwrap();
        }
        for bad in ["", "/", "a/", "/a", "a//b", "..", "a/../b", ".a", "a b", "memory.max", "é"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_borglet_keeps_its_parent_group() {
        let one = tempfile::tempdir().unwrap();
        let two = tempfile::tempdir().unwrap();
        assert_eq!(parent_name(one.path()), parent_name(&one.path().join(".")));
        assert_ne!(parent_name(one.path()), parent_name(two.path()));
        check_name(&parent_name(one.path())).unwrap();
    }
}
