//! The back end for cgroup v2: one tree, with controllers delegated from parent to child.

use std::fs;
use std::path::{Path, PathBuf};

use super::usage::{CpuFormat, UsageReader, unexpected};
use super::v1::{CPU_PERIOD_US, make_idle, optional, pids, quota_us, shares};
use super::{CgroupError, Limits, write};
use crate::error::At;

/// The controllers that each parent delegates to its children.
const DELEGATED: &str = "+cpu +memory +pids";
/// Those that it delegates where they are available.
const OPTIONAL: [&str; 2] = ["+cpuset", "+io"];

/// Whether the kernel kills the whole cgroup when it is out of memory.
const GROUP_KILL: &str = "memory.oom.group";

/// Checks that the kernel has the controllers at all.
pub(super) fn check_controllers(root: &Path) -> Result<(), CgroupError> {
    let path = root.join("cgroup.controllers");
    let there = fs::read_to_string(&path).at("read", &path)?;
    for controller in ["cpu", "memory", "pids"] {
        if !there.split_ascii_whitespace().any(|name| name == controller) {
            return Err(CgroupError::NoController { controller });
        }
    }
    Ok(())
}

/// Creates the cgroup and its ancestors, each of which delegates the controllers.
pub(super) fn create(root: &Path, name: &str) -> Result<(), CgroupError> {
    let mut directory = root.to_owned();
    for part in name.split('/') {
        delegate(&directory)?;
        let group_kill = directory.join(GROUP_KILL);
        // A cgroup that contains cgroups is not a task: when its own limit is reached, one of its
        // tasks must end, not all. The root has no such file.
        optional(write(&group_kill, "0"), false)?;
        directory.push(part);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            result => result.at("create cgroup", &directory)?,
        }
    }
    Ok(())
}

/// Creates a cgroup that contains cgroups, and its ancestors.
pub(super) fn create_parent(root: &Path, name: &str) -> Result<(), CgroupError> {
    create(root, name)?;
    // Before it is limited, because otherwise it would be taken for a task's.
    delegate(&root.join(name))
}

/// Delegates the controllers to the children of `directory`.
fn delegate(directory: &Path) -> Result<(), CgroupError> {
    let path = directory.join("cgroup.subtree_control");
    let now = fs::read_to_string(&path).at("read", &path)?;
    let missing = |order: &str| !now.split_ascii_whitespace().any(|name| name == &order[1..]);
    // Writing takes a lock on the whole tree, so avoid it if possible.
    if DELEGATED.split(' ').any(missing) {
        write(&path, DELEGATED).map_err(|error| CgroupError::NotDelegated {
            path: directory.to_owned(),
            controllers: DELEGATED,
            source: error.source,
        })?;
    }
    if OPTIONAL.iter().copied().any(missing) {
        let available = directory.join("cgroup.controllers");
        let available = fs::read_to_string(&available).at("read", &available)?;
        let has = |order: &str| available.split_ascii_whitespace().any(|name| name == &order[1..]);
        for order in OPTIONAL.into_iter().filter(|order| missing(order) && has(order)) {
            // Without them some limits cannot be set, and machines say so.
            let _refused = write(&path, order);
        }
    }
    Ok(())
}

/// `cpu.weight` for a number of milli-cores: the kernel's own mapping from v1 shares.
fn weight(cpu_milli: u64) -> u64 {
    1 + (shares(cpu_milli) - 2) * 9999 / 262_142
}

pub(super) fn set_limits(directory: &Path, limits: &Limits) -> Result<(), CgroupError> {
    let sharing = &limits.sharing;
    if !sharing.batch || !make_idle(directory)? {
        let weight = if sharing.batch { 1 } else { weight(limits.cpu_milli) };
        write(&directory.join("cpu.weight"), &weight.to_string())?;
    }
    set_cpu_max(directory, limits.cpu_hard_cap.then_some(limits.cpu_milli))?;
    if !sharing.cpus.is_empty() {
        write(&directory.join("cpuset.cpus"), &super::sharing::list(&sharing.cpus))?;
    }
    if let Some(rate) = &sharing.disk_rate {
        let bytes = if rate.bytes == 0 { "max".to_owned() } else { rate.bytes.to_string() };
        let order = format!("{} rbps={bytes} wbps={bytes}", rate.device());
        write(&directory.join("io.max"), &order)?;
    }
    if !delegates(directory)? {
        // The whole task ends when one of its processes exceeds the limit: half a task is worse
        // than none.
        optional(write(&directory.join(GROUP_KILL), "1"), false)?;
    }
    // Missing in kernels without swap.
    optional(write(&directory.join("memory.swap.max"), "0"), false)?;
    write(&directory.join("pids.max"), &pids(limits.pids_max))?;
    // Last, because it may be rejected.
    set_memory(directory, limits.memory_bytes)
}

/// Caps the CPU usage, or lifts the cap.
pub(super) fn set_cpu_max(directory: &Path, cpu_milli: Option<u64>) -> Result<(), CgroupError> {
    let max = match cpu_milli {
        Some(cpu_milli) => format!("{} {CPU_PERIOD_US}", quota_us(cpu_milli)),
        None => format!("max {CPU_PERIOD_US}"),
    };
    Ok(optional(write(&directory.join("cpu.max"), &max), cpu_milli.is_some())?)
}

/// The kernel accepts every limit and kills processes until usage is below it. To avoid that,
/// reclaim first, with a limit that throttles and never kills.
pub(super) fn set_memory(directory: &Path, limit_bytes: u64) -> Result<(), CgroupError> {
    let max = directory.join("memory.max");
    if limit_bytes == u64::MAX {
        return Ok(write(&max, "max")?);
    }
    if used_bytes(directory)? <= limit_bytes {
        return Ok(write(&max, &limit_bytes.to_string())?);
    }
    let high = directory.join("memory.high");
    // Returns when the kernel has reclaimed what it could.
    write(&high, &limit_bytes.to_string())?;
    let set = match used_bytes(directory) {
        Ok(used_bytes) if used_bytes > limit_bytes => {
            Err(CgroupError::MemoryInUse { path: directory.to_owned(), limit_bytes, used_bytes })
        }
        Ok(_) => write(&max, &limit_bytes.to_string()).map_err(CgroupError::from),
        Err(error) => Err(error),
    };
    write(&high, "max")?;
    set
}

/// The cgroup's current memory usage.
fn used_bytes(directory: &Path) -> Result<u64, CgroupError> {
    let path = directory.join("memory.current");
    let content = fs::read_to_string(&path).at("read", &path)?;
    content.trim().parse().map_err(|_| unexpected(&path, &content, "a number"))
}

/// Whether the cgroup contains cgroups.
fn delegates(directory: &Path) -> Result<bool, CgroupError> {
    let path = directory.join("cgroup.subtree_control");
    let controllers = fs::read_to_string(&path).at("read", &path)?;
    Ok(!controllers.trim().is_empty())
}

pub(super) fn usage_reader(directory: &Path) -> Result<UsageReader, CgroupError> {
    let file = |name: &str| -> PathBuf { directory.join(name) };
    UsageReader::open(
        file("cpu.stat"),
        CpuFormat::Stat,
        file("memory.current"),
        file("memory.peak"),
    )
}

/// These use a directory that looks like cgroupfs; the tests in the emulated machine use the real
/// one.
#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 11] = [
        ("cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("cgroup.subtree_control", "cpu\n"),
        ("cpu.weight", ""),
        ("cpu.max", ""),
        ("cpu.stat", "usage_usec 1234\nuser_usec 1000\n"),
        ("memory.oom.group", ""),
        ("memory.max", ""),
        ("memory.high", ""),
        ("memory.current", "4096\n"),
        ("memory.peak", "8192\n"),
        ("pids.max", ""),
    ];

    fn group(directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        for (name, content) in FILES {
            fs::write(directory.join(name), content).unwrap();
        }
    }

    #[test]
    fn weight_follows_the_kernels_mapping() {
        let table: Vec<_> = [1, 100, 1000, 8000, 1_000_000].map(weight).into();
        assert_eq!(table, [1, 4, 39, 313, 10_000]);
    }

    #[test]
    fn limits_are_written_except_where_the_kernel_lacks_them() {
        let root = tempfile::tempdir().unwrap();
        group(root.path());
        let mut limits = Limits {
            cpu_milli: 1500,
            cpu_hard_cap: true,
            memory_bytes: 64 << 20,
            pids_max: 32,
            sharing: super::super::Sharing::default(),
        };
        fs::write(root.path().join("cgroup.subtree_control"), "\n").unwrap();
        set_limits(root.path(), &limits).unwrap();
        let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
        assert_eq!(read("cpu.max"), "150000 100000");
        assert_eq!(read("cpu.weight"), "59");
        assert_eq!(read("memory.max"), "67108864");
        assert_eq!(read("memory.oom.group"), "1");
        assert_eq!(read("pids.max"), "32");
        limits.cpu_hard_cap = false;
        fs::write(root.path().join("cpu.max"), "").unwrap();
        set_limits(root.path(), &limits).unwrap();
        assert_eq!(read("cpu.max"), "max 100000");
        assert!(!root.path().join("memory.swap.max").exists());
        // Nothing reclaims memory here.
        limits.memory_bytes = 999;
        let error = set_limits(root.path(), &limits).unwrap_err().to_string();
        assert!(error.contains(" uses 4096 bytes of memory"), "{error}");
        assert_eq!((&*read("memory.max"), &*read("memory.high")), ("67108864", "max"));
    }

    #[test]
    fn every_ancestor_hands_the_controllers_down() {
        let root = tempfile::tempdir().unwrap();
        group(root.path());
        group(&root.path().join("bourg"));
        for parent in ["", "bourg"] {
            // What is optional is written after that, over it in these files.
            let available = root.path().join(parent).join("cgroup.controllers");
            fs::write(available, "cpu memory pids\n").unwrap();
        }
        check_controllers(root.path()).unwrap();
        create(root.path(), "bourg/task").unwrap();
        for parent in ["", "bourg"] {
            let path = root.path().join(parent).join("cgroup.subtree_control");
            assert!(fs::read_to_string(path).unwrap().starts_with(DELEGATED));
        }
        assert!(root.path().join("bourg/task").is_dir());
    }

    #[test]
    fn usage_is_read_from_the_files_of_a_group() {
        let root = tempfile::tempdir().unwrap();
        group(root.path());
        let usage = usage_reader(root.path()).unwrap().read().unwrap();
        assert_eq!(
            (usage.cpu_ns, usage.memory_bytes, usage.memory_peak_bytes),
            (1_234_000, 4096, 8192)
        );
        fs::write(root.path().join("memory.current"), "what").unwrap();
        let error = usage_reader(root.path()).unwrap().read().unwrap_err();
        assert!(error.to_string().ends_with("holds `what`, which is not a number"), "{error}");
    }
}
