//! The back end for cgroup v1, and for hybrid machines, where a unified tree without controllers
//! exists beside the v1 trees and provides `cgroup.kill`.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::usage::{CpuFormat, UsageReader};
use super::{CgroupError, Limits, Sharing, V1Mounts, write};
use crate::FileError;
use crate::error::At;

/// The period of a hard CPU cap, in microseconds: the kernel's default.
pub(super) const CPU_PERIOD_US: u64 = 100_000;

/// The maximum process limit that the kernel accepts.
const PIDS_MAX: u64 = 4 << 20;

/// Finds the controllers' mount points in the text of `/proc/self/mounts`.
pub(super) fn parse_mounts(mounts: &str) -> Result<V1Mounts, CgroupError> {
    let names = ["cpu", "cpuacct", "memory", "pids", "cpuset", "blkio"];
    let mut found: [(&'static str, Option<PathBuf>); 6] = names.map(|name| (name, None));
    let mut unified = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(at), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if kind == "cgroup2" && unified.is_none() {
            unified = Some(PathBuf::from(at));
        }
        if kind == "cgroup" {
            for (controller, place) in &mut found {
                if place.is_none() && options.split(',').any(|option| option == *controller) {
                    *place = Some(PathBuf::from(at));
                }
            }
        }
    }
    let [.., (_, cpuset), (_, blkio)] = found.clone();
    let [cpu, cpuacct, memory, pids, ..] =
        found.map(|(controller, place)| place.ok_or(CgroupError::NoController { controller }));
    let (cpu, cpuacct, memory, pids) = (cpu?, cpuacct?, memory?, pids?);
    Ok(V1Mounts { cpu, cpuacct, memory, pids, cpuset, blkio, unified })
}

/// The cgroup's directory in each tree, the unified one first; each tree once.
pub(super) fn directories(mounts: &V1Mounts, name: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::with_capacity(5);
    let trees = [&mounts.cpu, &mounts.cpuacct, &mounts.memory, &mounts.pids];
    for tree in mounts.unified.iter().chain(trees) {
        // One tree often has two names (`cpu` links to `cpu,cpuacct`); the mount table has the real
        // name for both.
        let directory = tree.join(name);
        if !all.contains(&directory) {
            all.push(directory);
        }
    }
    all
}

pub(super) fn create(mounts: &V1Mounts, name: &str) -> Result<(), CgroupError> {
    for directory in directories(mounts, name) {
        fs::create_dir_all(&directory).at("create cgroup", &directory)?;
    }
    Ok(())
}

/// `cpu.shares` for a number of milli-cores: 1024 is one core; clamped to what the kernel accepts.
pub(super) fn shares(cpu_milli: u64) -> u64 {
    (cpu_milli.saturating_mul(1024) / 1000).clamp(2, 262_144)
}

/// Microseconds of CPU per period for a number of milli-cores, clamped to what the kernel accepts.
pub(super) fn quota_us(cpu_milli: u64) -> u64 {
    (cpu_milli.saturating_mul(CPU_PERIOD_US) / 1000).clamp(1000, 1 << 43)
}

/// `pids.max` for a number of processes; no limit if it exceeds what the kernel can number.
pub(super) fn pids(pids_max: u64) -> String {
    if pids_max > PIDS_MAX { "max".to_owned() } else { pids_max.to_string() }
}

pub(super) fn set_limits(
    mounts: &V1Mounts,
    name: &str,
    limits: &Limits,
) -> Result<(), CgroupError> {
    let cpu = mounts.cpu.join(name);
    if !limits.sharing.batch || !make_idle(&cpu)? {
        let shares = if limits.sharing.batch { 2 } else { shares(limits.cpu_milli) };
        write(&cpu.join("cpu.shares"), &shares.to_string())?;
    }
    set_cpu_max(&cpu, limits.cpu_hard_cap.then_some(limits.cpu_milli))?;
    write(&mounts.pids.join(name).join("pids.max"), &pids(limits.pids_max))?;
    // Last, because it may be rejected.
    set_memory(&mounts.memory.join(name), limits.memory_bytes)
}

/// Caps the CPU usage, or lifts the cap.
pub(super) fn set_cpu_max(cpu: &Path, cpu_milli: Option<u64>) -> Result<(), CgroupError> {
    let quota = match cpu_milli {
        Some(cpu_milli) => {
            write(&cpu.join("cpu.cfs_period_us"), &CPU_PERIOD_US.to_string())?;
            quota_us(cpu_milli).to_string()
        }
        None => "-1".to_owned(),
    };
    Ok(optional(write(&cpu.join("cpu.cfs_quota_us"), &quota), cpu_milli.is_some())?)
}

/// Has a cgroup run only while others leave CPUs idle (`SCHED_IDLE`); `false` if the kernel cannot: it is
/// older than 5.15.
pub(super) fn make_idle(directory: &Path) -> Result<bool, CgroupError> {
    match write(&directory.join("cpu.idle"), "1") {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The cgroup's directories in the trees in which only some cgroups are.
pub(super) fn optional_directories(mounts: &V1Mounts, name: &str) -> Vec<PathBuf> {
    [&mounts.cpuset, &mounts.blkio].into_iter().flatten().map(|tree| tree.join(name)).collect()
}

/// The directory of the cgroup, or of its nearest ancestor, in each of these trees; none if only the
/// root is there.
pub(super) fn nearest(mounts: &V1Mounts, name: &str) -> Vec<PathBuf> {
    let trees = [&mounts.cpuset, &mounts.blkio].into_iter().flatten();
    trees.filter_map(|tree| nearest_in(tree, name)).collect()
}

/// The directory of the cgroup, or of its nearest ancestor, in one tree; `None` if only the root is
/// there.
pub(super) fn nearest_in(tree: &Path, name: &str) -> Option<PathBuf> {
    let above = Path::new(name).ancestors().filter(|path| !path.as_os_str().is_empty());
    above.map(|path| tree.join(path)).find(|directory| directory.is_dir())
}

/// Sets the CPUs and the disk rate; returns whether a directory was created for that, which processes of
/// the cgroup have to join.
pub(super) fn set_sharing(
    mounts: &V1Mounts,
    name: &str,
    sharing: &Sharing,
) -> Result<bool, CgroupError> {
    let mut created = false;
    if !sharing.cpus.is_empty() {
        let tree = mounts.cpuset.as_ref();
        let tree = tree.ok_or(CgroupError::NoController { controller: "cpuset" })?;
        created |= !tree.join(name).exists();
        create_cpuset(tree, name)?;
        write(&tree.join(name).join("cpuset.cpus"), &super::sharing::list(&sharing.cpus))?;
    }
    if let Some(rate) = &sharing.disk_rate {
        let tree = mounts.blkio.as_ref();
        let tree = tree.ok_or(CgroupError::NoController { controller: "blkio" })?;
        let directory = tree.join(name);
        let exists = directory.exists();
        if rate.bytes > 0 && !exists {
            fs::create_dir_all(&directory).at("create cgroup", &directory)?;
            created = true;
        }
        if rate.bytes > 0 || exists {
            // 0 is no limit.
            let order = format!("{} {}", rate.device(), rate.bytes);
            write(&directory.join("blkio.throttle.read_bps_device"), &order)?;
            write(&directory.join("blkio.throttle.write_bps_device"), &order)?;
        }
    }
    Ok(created)
}

/// Creates a cgroup and its ancestors in the cpuset tree. A new one has neither CPUs nor memory nodes, and
/// nothing can join it: it gets those of its parent.
pub(super) fn create_cpuset(tree: &Path, name: &str) -> Result<(), CgroupError> {
    let mut directory = tree.to_owned();
    for part in name.split('/') {
        let parent = directory.clone();
        directory.push(part);
        fs::create_dir_all(&directory).at("create cgroup", &directory)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (own, above) = (directory.join(file), parent.join(file));
            if fs::read_to_string(&own).at("read", &own)?.trim().is_empty() {
                let inherited = fs::read_to_string(&above).at("read", &above)?;
                write(&own, inherited.trim())?;
            }
        }
    }
    Ok(())
}

/// Memory and memory-with-swap get the same limit, so that there is no swap.
pub(super) fn set_memory(directory: &Path, bytes: u64) -> Result<(), CgroupError> {
    let memory = directory.join("memory.limit_in_bytes");
    let with_swap = directory.join("memory.memsw.limit_in_bytes");
    let before = fs::read_to_string(&memory).at("read", &memory)?;
    let rising = before.trim().parse::<u64>().is_ok_and(|before| bytes > before);
    let limit = bytes.to_string();
    let in_use = |error: FileError| {
        let used = directory.join("memory.usage_in_bytes");
        refused_as_in_use(directory, bytes, &used, error)
    };
    // The kernel requires the limit with swap to be at least the other, so the order depends on the
    // direction. Without swap accounting the second file does not exist and is not needed.
    if rising {
        optional(write(&with_swap, &limit), false).map_err(in_use)?;
        write(&memory, &limit)?;
    } else {
        write(&memory, &limit).map_err(in_use)?;
        if let Err(error) = optional(write(&with_swap, &limit), false) {
            // What was reclaimed went to swap, so nothing was gained.
            write(&memory, before.trim())?;
            return Err(in_use(error));
        }
    }
    Ok(())
}

/// Interprets "busy" as the answer to setting a memory limit.
fn refused_as_in_use(
    directory: &Path,
    limit_bytes: u64,
    used: &Path,
    error: FileError,
) -> CgroupError {
    if error.source.kind() != std::io::ErrorKind::ResourceBusy {
        return error.into();
    }
    let used = fs::read_to_string(used).unwrap_or_default();
    let used_bytes = used.trim().parse().unwrap_or(limit_bytes);
    CgroupError::MemoryInUse { path: directory.to_owned(), limit_bytes, used_bytes }
}

/// Turns "no such file" into success unless the file is `required`.
pub(super) fn optional(result: Result<(), FileError>, required: bool) -> Result<(), FileError> {
    match result {
        Err(error) if error.is_not_found() && !required => Ok(()),
        other => other,
    }
}

pub(super) fn usage_reader(mounts: &V1Mounts, name: &str) -> Result<UsageReader, CgroupError> {
    let memory = mounts.memory.join(name);
    UsageReader::open(
        mounts.cpuacct.join(name).join("cpuacct.usage"),
        CpuFormat::Nanoseconds,
        memory.join("memory.usage_in_bytes"),
        memory.join("memory.max_usage_in_bytes"),
    )
}

/// An eventfd that counts the cgroup's out-of-memory events.
pub(super) fn oom_watch(directory: &Path) -> Result<OwnedFd, CgroupError> {
    let path = directory.join("memory.oom_control");
    let control = File::open(&path).at("open", &path)?;
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let event = EventFd::from_flags(flags).at("make an eventfd for", &path)?;
    let order = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
    write(&directory.join("cgroup.event_control"), &order)?;
    Ok(event.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milli_cores_become_shares_and_quota() {
        let table: Vec<_> =
            [0, 1, 100, 1000, 8000, 1_000_000].map(|m| (shares(m), quota_us(m))).into();
        assert_eq!(
            table,
            [
                (2, 1000),
                (2, 1000),
                (102, 10_000),
                (1024, 100_000),
                (8192, 800_000),
                (262_144, 100_000_000),
            ]
        );
        assert_eq!(shares(u64::MAX), 262_144);
    }

    #[test]
    fn controllers_that_share_a_tree_are_found() {
        let mounts = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
            cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n";
        let found = parse_mounts(mounts).unwrap();
        assert_eq!(found.cpu, found.cpuacct);
        let names: Vec<_> =
            directories(&found, "a/b").iter().map(|d| d.display().to_string()).collect();
        assert_eq!(
            names,
            [
                "/sys/fs/cgroup/unified/a/b",
                "/sys/fs/cgroup/cpu,cpuacct/a/b",
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/pids/a/b",
            ]
        );
    }

    #[test]
    fn a_missing_controller_is_named() {
        let error = parse_mounts("cgroup /c cgroup rw,cpu,cpuacct 0 0").unwrap_err();
        assert!(
            error.to_string().starts_with("no cgroup controller `memory` is mounted"),
            "{error}"
        );
    }
}
