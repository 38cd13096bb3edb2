//! Control groups: limiting, measuring and killing tasks.
//!
//! Two back ends, v1 (with or without a unified tree beside it) and v2, behind one type,
//! [`TaskCgroup`]. A cgroup is named by its path below the hierarchy's root, such as
//! `bourg/5f1c…/you-hello-3`; cgroups nest, so that an alloc contains its tasks.
//!
//! Not here: the choice of limits, and controllers other than cpu, memory, pids and, where the machine
//! has them, cpuset and io.

mod details;
mod empty;
mod error;
mod memory;
mod processes;
mod sharing;
mod shown;
mod usage;
mod v1;
mod v2;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};

use crate::FileError;
use crate::error::At;
pub(crate) use details::StallReader;
pub use details::{DetailReader, Details, Stalls};
use empty::{is_removed, kill_one_by_one, remove_children};
pub use error::CgroupError;
pub use memory::PressureTrigger;
pub use processes::limit_all_processes;
pub use sharing::{
    CpuSharing, DiskRate, Sharing, Tier, make_tiers, set_shared_cpus, try_disk_rate,
};
pub(crate) use shown::Shown;
pub(crate) use usage::{Counter, keyed};
pub use usage::{Usage, UsageReader};

/// How long [`TaskCgroup::remove`] waits for the kernel to release ended processes.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// The limits of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU in thousandths of a core: the share under contention, and the maximum with
    /// `cpu_hard_cap`.
    pub cpu_milli: u64,
    /// Whether CPU usage beyond `cpu_milli` is denied even on an idle machine.
    pub cpu_hard_cap: bool,
    /// Memory in bytes, including page cache, `/tmp` and the init; there is no swap. The kernel
    /// rounds down to whole pages. `u64::MAX`: only the limits of the cgroups above it apply.
    pub memory_bytes: u64,
    /// Processes and threads, including the init.
    pub pids_max: u64,
    /// How it shares CPUs and disks.
    #[serde(default)]
    pub sharing: Sharing,
}

/// The cgroup file systems of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// One unified tree with every controller.
    V2 {
        /// The mount point.
        root: PathBuf,
    },
    /// A tree per controller, and possibly a unified tree without controllers beside them.
    V1(V1Mounts),
}

/// The mount points of the v1 controllers; several may share one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Mounts {
    /// CPU shares and quotas.
    pub cpu: PathBuf,
    /// CPU time used.
    pub cpuacct: PathBuf,
    /// Memory limits, usage and the out-of-memory counter.
    pub memory: PathBuf,
    /// The number of processes.
    pub pids: PathBuf,
    /// On which CPUs processes run, if the machine has it.
    pub cpuset: Option<PathBuf>,
    /// The rates of disks, if the machine has it.
    pub blkio: Option<PathBuf>,
    /// The unified tree of a hybrid machine, for `cgroup.kill`.
    pub unified: Option<PathBuf>,
}

impl Hierarchy {
    /// Detects the hierarchy of this machine; once found, it is remembered, also by forks.
    ///
    /// # Errors
    /// [`CgroupError::NoController`] if a required controller is missing.
    pub fn detect() -> Result<Self, CgroupError> {
        static DETECTED: OnceLock<Hierarchy> = OnceLock::new();
        if let Some(known) = DETECTED.get() {
            return Ok(known.clone());
        }
        let found = Self::look()?;
        Ok(DETECTED.get_or_init(|| found).clone())
    }

    fn look() -> Result<Self, CgroupError> {
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

    /// Where the trees are mounted in which tasks have cgroups.
    pub(crate) fn mount_points(&self) -> Vec<&Path> {
        match self {
            Self::V2 { root } => vec![root],
            Self::V1(mounts) => {
                let needed = [&mounts.cpu, &mounts.cpuacct, &mounts.memory, &mounts.pids];
                needed.into_iter().chain(&mounts.unified).map(PathBuf::as_path).collect()
            }
        }
    }

    /// `v2`, `v1` or `hybrid`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::V2 { .. } => "v2",
            Self::V1(mounts) if mounts.unified.is_some() => "hybrid",
            Self::V1(_) => "v1",
        }
    }
}

/// The parent cgroup of all tasks of the Borglet with the data directory `data_dir`.
///
/// Two Borglets on one machine, as in a dev cell, get different cgroups; a restarted Borglet gets
/// the same one.
#[must_use]
pub fn parent_name(data_dir: &Path) -> String {
    let path = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in path.as_os_str().as_encoded_bytes() {
        // FNV-1a: stable across releases, and collisions cannot be exploited.
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("bourg/{hash:016x}")
}

/// Checks the name of a cgroup without accessing the machine.
///
/// # Errors
/// [`CgroupError::BadName`].
pub fn check_name(name: &str) -> Result<(), CgroupError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let good = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
    // cgroup files are named `controller.file`: a child of that name would collide.
    let file = |part: &str| {
        ["cgroup.", "cpu.", "cpuacct.", "cpuset.", "memory.", "pids.", "io.", "blkio."]
            .iter()
            .any(|p| part.starts_with(p))
    };
    if name.len() <= 512
        && name.split('/').all(|part| good(part) && part.len() <= 200 && !file(part))
    {
        Ok(())
    } else {
        Err(CgroupError::BadName { name: name.to_owned() })
    }
}

/// A cgroup: of a task, of an alloc, or the parent of all of them.
#[derive(Clone, Debug)]
pub struct TaskCgroup {
    hierarchy: Hierarchy,
    name: String,
}

impl TaskCgroup {
    /// A handle to the cgroup `name`, which need not exist.
    ///
    /// # Errors
    /// [`CgroupError::BadName`].
    pub fn open(hierarchy: &Hierarchy, name: &str) -> Result<Self, CgroupError> {
        check_name(name)?;
        Ok(Self { hierarchy: hierarchy.clone(), name: name.to_owned() })
    }

    /// Creates the cgroup, and missing ancestors, and sets its limits.
    ///
    /// An earlier cgroup of that name is killed and removed first, so that counters start at zero.
    ///
    /// # Errors
    /// When a controller is missing or not delegated, or the old cgroup cannot be emptied.
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

    /// Creates what is missing of a cgroup that contains cgroups, such as an alloc's, and sets its
    /// limits. Its processes are not affected.
    ///
    /// # Errors
    /// When a controller is missing or not delegated, or memory usage exceeds the limit.
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

    /// The parent cgroup, if any.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.name.rsplit_once('/')?;
        Some(Self { hierarchy: self.hierarchy.clone(), name: parent.to_owned() })
    }

    /// Whether the cgroup exists in any tree.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.directories().iter().any(|directory| directory.is_dir())
    }

    /// Whether the cgroup exists in every tree.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.directories().iter().all(|directory| directory.is_dir())
    }

    /// The cgroup's directory in each tree, starting with the one that has `cgroup.kill`.
    fn directories(&self) -> Vec<PathBuf> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::directories(mounts, &self.name),
            Hierarchy::V2 { root } => vec![root.join(&self.name)],
        }
    }

    /// The directories that its processes are in.
    fn joined(&self) -> Vec<PathBuf> {
        let mut all = self.directories();
        if let Hierarchy::V1(mounts) = &self.hierarchy {
            all.extend(v1::nearest(mounts, &self.name));
        }
        all
    }

    /// The cgroup's directory in the unified tree, if the machine has one.
    pub(crate) fn unified_directory(&self) -> Option<PathBuf> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => Some(mounts.unified.as_ref()?.join(&self.name)),
            Hierarchy::V2 { root } => Some(root.join(&self.name)),
        }
    }

    /// Changes the limits of an existing cgroup; its processes keep running.
    ///
    /// # Errors
    /// [`CgroupError::MemoryInUse`] when memory usage exceeds the new limit and cannot be
    /// reclaimed. The memory limit is then unchanged; the others are changed.
    pub fn set_limits(&self, limits: &Limits) -> Result<(), CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => {
                if v1::set_sharing(mounts, &self.name, &limits.sharing)? {
                    // Those that are in it already.
                    for pid in self.processes()? {
                        let _gone = self.add_process(pid);
                    }
                }
                v1::set_limits(mounts, &self.name, limits)
            }
            Hierarchy::V2 { root } => v2::set_limits(&root.join(&self.name), limits),
        }
    }

    /// Caps the CPU usage, in thousandths of a core, or lifts the cap. Limits that are set later replace
    /// it.
    ///
    /// # Errors
    /// When the cgroup no longer exists, or the kernel has no CFS bandwidth control.
    pub fn set_cpu_max(&self, cpu_milli: Option<u64>) -> Result<(), CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::set_cpu_max(&mounts.cpu.join(&self.name), cpu_milli),
            Hierarchy::V2 { root } => v2::set_cpu_max(&root.join(&self.name), cpu_milli),
        }
    }

    /// Moves process `pid`, with all its threads, into the cgroup.
    ///
    /// # Errors
    /// When the process or the cgroup no longer exists.
    pub fn add_process(&self, pid: i32) -> Result<(), CgroupError> {
        for directory in self.joined() {
            write(&directory.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// Files through which a process can join later, when it no longer sees the cgroup file system:
    /// it writes `0` to each.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn join_files(&self) -> Result<Vec<File>, CgroupError> {
        let open = |directory: PathBuf| {
            let path = directory.join("cgroup.procs");
            Ok(File::options().write(true).open(&path).at("open", &path)?)
        };
        self.joined().into_iter().map(open).collect()
    }

    /// Kills every process in the cgroup and its descendants. Returns before they are gone.
    ///
    /// Succeeds if the cgroup does not exist.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn kill_all(&self) -> Result<(), CgroupError> {
        let directories = self.directories();
        for directory in &directories {
            // On a hybrid machine the unified tree, which comes first, contains every process, too.
            match write(&directory.join("cgroup.kill"), "1") {
                Ok(()) => return Ok(()),
                Err(error) if error.is_not_found() || is_removed(&error.source) => {}
                Err(error) => return Err(error.into()),
            }
        }
        directories.iter().try_for_each(|directory| kill_one_by_one(directory))
    }

    /// The current process ids in the cgroup and its descendants; empty if it no longer exists.
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

    /// Removes the cgroup, which must have been killed; waits a bounded time for its processes to
    /// end.
    ///
    /// Succeeds if the cgroup does not exist.
    ///
    /// # Errors
    /// [`CgroupError::StillPopulated`] when processes remain, for example in a hung file system.
    pub fn remove(&self) -> Result<(), CgroupError> {
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        let mut all = self.directories();
        if let Hierarchy::V1(mounts) = &self.hierarchy {
            all.extend(v1::optional_directories(mounts, &self.name));
        }
        for directory in all {
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
                // No kernel notification covers both trees; this wait is short and rare.
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Opens the counters of the cgroup for repeated reading.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn usage_reader(&self) -> Result<UsageReader, CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::usage_reader(mounts, &self.name),
            Hierarchy::V2 { root } => v2::usage_reader(&root.join(&self.name)),
        }
    }

    /// Opens what else the kernel says about the usage of the cgroup; what it does not say is absent.
    #[must_use]
    pub fn detail_reader(&self) -> DetailReader {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => DetailReader::v1(mounts, &self.name),
            Hierarchy::V2 { root } => DetailReader::v2(&root.join(&self.name)),
        }
    }

    /// Reads the counters once; use [`usage_reader`](Self::usage_reader) for repeated reading.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn usage(&self) -> Result<Usage, CgroupError> {
        self.usage_reader()?.read()
    }

    /// The current memory limit, in bytes; `u64::MAX` if there is none.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
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

    /// Creates what is missing of a cgroup that contains cgroups, and limits their memory together;
    /// its other limits stay as they are.
    ///
    /// # Errors
    /// [`CgroupError::MemoryInUse`] when memory usage exceeds the limit and cannot be reclaimed; the
    /// memory limit is then unchanged.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => {
                v1::create(mounts, &self.name)?;
                v1::set_memory(&mounts.memory.join(&self.name), bytes)
            }
            Hierarchy::V2 { root } => {
                v2::create_parent(root, &self.name)?;
                v2::set_memory(&root.join(&self.name), bytes)
            }
        }
    }

    /// How many processes the kernel has killed because the cgroup was out of memory.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn oom_kills(&self) -> Result<u64, CgroupError> {
        let path = match &self.hierarchy {
            Hierarchy::V1(mounts) => mounts.memory.join(&self.name).join("memory.oom_control"),
            Hierarchy::V2 { root } => root.join(&self.name).join("memory.events"),
        };
        let content = fs::read_to_string(&path).at("read", &path)?;
        keyed(&content, "oom_kill")
            .ok_or_else(|| usage::unexpected(&path, &content, "a list with `oom_kill`"))
    }

    /// How often the cgroup, or one below it, reached its own memory limit so that a process had to
    /// be killed; the limits of ancestors do not count. `None` on v1, which has no such counter.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn ooms(&self) -> Result<Option<u64>, CgroupError> {
        let Hierarchy::V2 { root } = &self.hierarchy else { return Ok(None) };
        let path = root.join(&self.name).join("memory.events");
        let content = fs::read_to_string(&path).at("read", &path)?;
        let count = keyed(&content, "oom");
        count.map(Some).ok_or_else(|| usage::unexpected(&path, &content, "a list with `oom`"))
    }

    /// A descriptor that becomes readable when the cgroup runs out of memory and the kernel will
    /// kill only one of its processes. `None` on v2, where the kernel kills the whole cgroup by
    /// itself.
    ///
    /// # Errors
    /// When the cgroup no longer exists.
    pub fn oom_watch(&self) -> Result<Option<OwnedFd>, CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => v1::oom_watch(&mounts.memory.join(&self.name)).map(Some),
            Hierarchy::V2 { .. } => Ok(None),
        }
    }
}

/// Writes one value to a kernel file.
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
