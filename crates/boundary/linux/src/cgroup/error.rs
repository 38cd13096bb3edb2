//! Errors of cgroups, with advice.

use std::io;
use std::path::PathBuf;

use super::empty::is_removed;
use crate::FileError;

/// A cgroup could not be created, changed or read.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A cgroup file or directory could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The machine has no usable controller.
    #[error(
        "no cgroup controller `{controller}` is mounted: mount cgroup2 at /sys/fs/cgroup, or the \
         v1 controllers cpu, cpuacct, memory and pids below it"
    )]
    NoController {
        /// The name of the missing controller.
        controller: &'static str,
    },
    /// A v2 parent cgroup does not delegate a controller to its children.
    #[error(
        "cgroup {} cannot delegate `{controllers}` to its children: {source}; it must hold no processes of \
         its own, and its own parent must hand them down", path.display()
    )]
    NotDelegated {
        /// The parent cgroup.
        path: PathBuf,
        /// The controllers, in the syntax of `cgroup.subtree_control`.
        controllers: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The name is not a path of plain components.
    #[error(
        "`{}` cannot name a cgroup: use components of letters, digits, `-`, `_`, `.` and `:`, not beginning with `.`, separated by `/`",
        .name.escape_debug()
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// A kernel file has unexpected content.
    #[error("{} holds `{content}`, which is not {expected}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The start of its content.
        content: String,
        /// The expected content.
        expected: &'static str,
    },
    /// Memory usage exceeds the new limit and cannot be reclaimed. The limit is unchanged.
    #[error("cgroup {} uses {used_bytes} bytes of memory, of which the kernel cannot reclaim enough for a limit of {limit_bytes}", path.display())]
    MemoryInUse {
        /// The cgroup's directory.
        path: PathBuf,
        /// The requested limit.
        limit_bytes: u64,
        /// The current usage.
        used_bytes: u64,
    },
    /// Processes remain although they were killed.
    #[error("cgroup {} still holds processes {waited_ms} ms after they were killed: they may hang in a system call", path.display())]
    StillPopulated {
        /// The cgroup.
        path: PathBuf,
        /// How long the caller waited.
        waited_ms: u64,
    },
}

impl CgroupError {
    /// Whether the cgroup was removed, before or during its use.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::File(error) if error.is_not_found() || is_removed(&error.source))
    }
}
