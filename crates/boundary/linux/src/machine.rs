//! The resources of this machine, and whether it can run tasks at all.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::sys::utsname::uname;
use nix::unistd::geteuid;

use crate::cgroup::{CgroupError, Hierarchy};
use crate::error::At;
use crate::isolation::try_user_namespace;
use crate::process;
use crate::{FileError, Isolation};

/// The oldest kernel with every system call used here (`mount_setattr`).
const KERNEL_MIN: (u32, u32) = (5, 12);

/// A missing prerequisite of this machine.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// Not started by root, and user namespaces are not available.
    #[error("running tasks needs root or user namespaces, but this is uid {uid}, and {why}")]
    Root {
        /// The effective user id.
        uid: u32,
        /// Why there are no user namespaces, and what to do about it.
        why: &'static str,
    },
    /// No process could be forked to find out.
    #[error("cannot fork a process to try a user namespace: {0}")]
    Fork(io::Error),
    /// Root without root's capabilities, as in most containers.
    #[error(
        "root lacks the capability {name} here: give it to the container (docker run --privileged)"
    )]
    Capability {
        /// The first missing one.
        name: &'static str,
    },
    /// The kernel is too old.
    #[error("Linux {release} is too old: tasks need {}.{} or later", KERNEL_MIN.0, KERNEL_MIN.1)]
    Kernel {
        /// The output of `uname -r`.
        release: String,
    },
    /// Nothing can be created in a cgroup file system.
    #[error(
        "{} is read-only here, and tasks need cgroups of their own: in a container allow it (docker run \
         --privileged), or start it without root", path.display()
    )]
    ReadOnlyCgroups {
        /// Where it is mounted.
        path: PathBuf,
    },
    /// No usable cgroups.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The kernel does not provide required information.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The resources of a machine. Nothing is subtracted for the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineResources {
    /// CPU in thousandths of a core: the CPUs that this process may use, or its container's quota.
    pub cpu_milli: u64,
    /// Memory in bytes: the machine's, or its container's limit.
    pub memory_bytes: u64,
    /// The size in bytes of the file system with the data directory.
    pub disk_bytes: u64,
    /// The free bytes of that file system.
    pub disk_free_bytes: u64,
    /// Attributes for constraints: `arch`, `cgroup` (only with root), `cores`, `isolation`,
    /// `kernel`, `platform`.
    pub attributes: BTreeMap<String, String>,
    /// The first and last port of the kernel's range for outgoing connections, which tasks cannot
    /// have.
    pub ephemeral_ports: (u16, u16),
    /// Changes at every boot of the machine.
    pub boot_id: String,
}

impl MachineResources {
    /// Detects the machine's resources; `data_dir` must exist, `isolation` is the result of
    /// [`preflight`].
    ///
    /// # Errors
    /// When `/proc` or `/sys` lack the information.
    pub fn discover(data_dir: &Path, isolation: Isolation) -> Result<Self, Missing> {
        let hierarchy = match isolation {
            Isolation::Jail => Some(Hierarchy::detect()?),
            // Only used to detect the limits of an enclosing container.
            Isolation::Rootless => Hierarchy::detect().ok(),
        };
        let disk = statvfs(data_dir).at("measure the disk of", data_dir)?;
        let cores = cores()?;
        let names = uname().at("ask the kernel for", "its name")?;
        let attributes = [
            ("arch", names.machine().to_string_lossy().into_owned()),
            ("cores", cores.to_string()),
            ("isolation", isolation.name().to_owned()),
            ("kernel", names.release().to_string_lossy().into_owned()),
            ("platform", platform()),
        ];
        let mut attributes: BTreeMap<_, _> =
            attributes.map(|(name, value)| (name.to_owned(), value)).into();
        if let (Isolation::Jail, Some(hierarchy)) = (isolation, &hierarchy) {
            attributes.insert("cgroup".to_owned(), hierarchy.name().to_owned());
        }
        let (quota_milli, limit_bytes) = (
            hierarchy.as_ref().and_then(cpu_quota_milli),
            hierarchy.as_ref().and_then(memory_limit),
        );
        let boot_id = "/proc/sys/kernel/random/boot_id";
        Ok(Self {
            cpu_milli: quota_milli.unwrap_or(u64::MAX).min(cores * 1000),
            memory_bytes: memory_bytes()?.min(limit_bytes.unwrap_or(u64::MAX)),
            disk_bytes: disk.blocks().saturating_mul(disk.fragment_size()),
            disk_free_bytes: disk.blocks_available().saturating_mul(disk.fragment_size()),
            attributes,
            ephemeral_ports: ephemeral_ports()?,
            boot_id: process::boot_id().at("read", boot_id)?,
        })
    }
}

/// Determines how tasks are isolated on this machine: with root, or rootless.
///
/// Without root it forks a process that tests what the kernel allows.
///
/// # Errors
/// The first missing prerequisite in one line, with advice.
pub fn preflight() -> Result<Isolation, Missing> {
    let release = uname().at("ask the kernel for", "its name")?;
    let release = release.release().to_string_lossy().into_owned();
    if kernel_version(&release).is_some_and(|version| version < KERNEL_MIN) {
        return Err(Missing::Kernel { release });
    }
    let uid = geteuid();
    if !uid.is_root() {
        return match try_user_namespace().map_err(Missing::Fork)? {
            None => Ok(Isolation::Rootless),
            Some(refusal) => Err(Missing::Root { uid: uid.as_raw(), why: refusal.explain() }),
        };
    }
    let status = "/proc/self/status";
    let content = fs::read_to_string(status).at("read", status)?;
    let effective = content.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    for (name, bit) in [
        ("CAP_CHOWN", 0),
        ("CAP_KILL", 5),
        ("CAP_SETGID", 6),
        ("CAP_SETUID", 7),
        ("CAP_SETPCAP", 8),
        ("CAP_SYS_ADMIN", 21),
    ] {
        if effective.is_some_and(|bits| bits & (1 << bit) == 0) {
            return Err(Missing::Capability { name });
        }
    }
    for path in Hierarchy::detect()?.mount_points() {
        let flags = statvfs(path).at("look at", path)?.flags();
        if flags.contains(FsFlags::ST_RDONLY) {
            return Err(Missing::ReadOnlyCgroups { path: path.to_owned() });
        }
    }
    Ok(Isolation::Jail)
}

/// The major and minor number at the start of `6.1.0-13-cloud`.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The number of CPUs on which this process may run.
fn cores() -> Result<u64, FileError> {
    Ok(crate::cpus::usable()?.len().max(1) as u64)
}

/// The memory of the machine, in bytes. A container's limit does not count.
///
/// # Errors
/// When the kernel does not say it.
pub fn memory_bytes() -> Result<u64, FileError> {
    meminfo("MemTotal:", "no MemTotal in it")
}

/// The memory in bytes that the kernel could still give to processes: what is free, and what it can
/// reclaim. A container's limit does not count.
///
/// # Errors
/// When the kernel does not say it.
pub fn available_memory_bytes() -> Result<u64, FileError> {
    meminfo("MemAvailable:", "no MemAvailable in it")
}

fn meminfo(key: &str, missing: &str) -> Result<u64, FileError> {
    let path = "/proc/meminfo";
    let content = fs::read_to_string(path).at("read", path)?;
    let found = content.lines().find_map(|line| line.strip_prefix(key));
    let kib = found.and_then(|found| found.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib.saturating_mul(1024)).ok_or_else(|| unknown(path, missing))
}

fn unknown(path: &str, why: &str) -> FileError {
    FileError::new("understand", Path::new(path), io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The limit at the visible root: in a container it is the container's, otherwise there is none.
fn memory_limit(hierarchy: &Hierarchy) -> Option<u64> {
    let path = match hierarchy {
        Hierarchy::V1(mounts) => mounts.memory.join("memory.limit_in_bytes"),
        Hierarchy::V2 { root } => root.join("memory.max"),
    };
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn cpu_quota_milli(hierarchy: &Hierarchy) -> Option<u64> {
    let read = |path: PathBuf| fs::read_to_string(path).ok();
    let (quota, period): (u64, u64) = match hierarchy {
        Hierarchy::V1(mounts) => {
            let quota = read(mounts.cpu.join("cpu.cfs_quota_us"))?.trim().parse().ok()?;
            (quota, read(mounts.cpu.join("cpu.cfs_period_us"))?.trim().parse().ok()?)
        }
        Hierarchy::V2 { root } => {
            let content = read(root.join("cpu.max"))?;
            let (quota, period) = content.trim().split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        }
    };
    (quota.checked_mul(1000)?).checked_div(period)
}

/// The CPU's model, as far as the kernel knows it.
fn platform() -> String {
    let content = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "model name" | "CPU part").then(|| value.trim().to_owned())
    };
    content.lines().find_map(value).unwrap_or_else(|| "unknown".to_owned())
}

/// The first and last port of the kernel's range for outgoing connections.
pub(crate) fn ephemeral_ports() -> Result<(u16, u16), FileError> {
    let path = "/proc/sys/net/ipv4/ip_local_port_range";
    let content = fs::read_to_string(path).at("read", path)?;
    let mut ports = content.split_ascii_whitespace().map(str::parse::<u16>);
    match (ports.next(), ports.next()) {
        (Some(Ok(first)), Some(Ok(last))) => Ok((first, last)),
        _ => Err(unknown(path, "not two port numbers")),
    }
}

/// Has the kernel give this process small pages only: a process that does little takes less memory
/// so. The server of shims, and so every task, has huge pages all the same; see
/// [`with_huge_pages`] for other children.
pub fn without_huge_pages() {
    // Where the kernel refuses, it only takes more memory.
    let _as_before = crate::sys::allow_huge_pages(false);
}

/// Asks the kernel to kill this process after all tasks if the machine runs out of memory; a container
/// may forbid it. What this process starts inherits it, except tasks, which have their own order
/// ([`crate::record::Launch::oom_score_adj`]), and shims.
pub fn protect_from_oom_killer() {
    let _hint = fs::write("/proc/self/oom_score_adj", "-998");
}

/// Undoes [`without_huge_pages`] in a child.
pub fn with_huge_pages() {
    let _as_before = crate::sys::allow_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_read() {
        assert_eq!(kernel_version("6.1.0-13-cloud-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("5.12-rc1"), Some((5, 12)));
        assert_eq!(kernel_version("what"), None);
    }

    #[test]
    fn the_local_machine_is_discovered() {
        let isolation = preflight().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let machine = MachineResources::discover(dir.path(), isolation).unwrap();
        assert!(machine.cpu_milli >= 100 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(machine.disk_bytes >= machine.disk_free_bytes && machine.disk_bytes > 0);
        assert!(machine.ephemeral_ports.0 < machine.ephemeral_ports.1);
        assert_eq!(machine.boot_id.len(), 36);
        let names: Vec<_> = machine.attributes.keys().map(String::as_str).collect();
        assert_eq!(names, ["arch", "cgroup", "cores", "isolation", "kernel", "platform"]);
    }
}
