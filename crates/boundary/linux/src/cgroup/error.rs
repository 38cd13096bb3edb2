//! What can go wrong with cgroups, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::empty::is_removed;
use crate::FileError;

/// Why a cgroup could not be made, changed or read.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A cgroup file or directory could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The machine offers no usable controller.
    #[error(
        "no cgroup controller `{controller}` is mounted: mount cgroup2 at /sys/fs/cgroup, or the \
         v1 controllers cpu, cpuacct, memory and pids below it"
    )]
    NoController {
        /// The name of the controller that was looked for.
        controller: &'static str,
    },
    /// A v2 parent group does not give a controller to its children.
    #[error(
        "cgroup {} cannot hand `{controllers}` to its children: {source}; it must hold no processes of \
         its own, and its own parent must hand them down", path.display()
    )]
    NotDelegated {
        /// The parent group.
        path: PathBuf,
        /// The controllers asked for, in the syntax of `cgroup.subtree_control`.
        controllers: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A name that is not a path of plain components.
    #[error(
        "`{}` cannot name a cgroup: use components of letters, digits, `-`, `_`, `.` and `:`, not beginning with `.`, separated by `/`",
        .name.escape_debug()
    )]
    BadName {
        /// The name as given.
        name: String,
    },
    /// A file of the kernel's had content that we do not understand.
    #[error("{} holds `{content}`, which is not {expected}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The beginning of its content.
        content: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// Memory in use is above the limit that it was to have, and cannot be reclaimed. The limit
    /// stays what it was.
    #[error("cgroup {} uses {used_bytes} bytes of memory, of which the kernel cannot reclaim enough for a limit of {limit_bytes}", path.display())]
    MemoryInUse {
        /// The group's directory.
        path: PathBuf,
        /// The limit that it was to have.
        limit_bytes: u64,
        /// What it used just now.
        used_bytes: u64,
    },
    /// Processes remain although they were killed.
    #[error("cgroup {} still holds processes {waited_ms} ms after they were killed: they may hang in a system call", path.display())]
    StillPopulated {
        /// The group.
        path: PathBuf,
        /// How long we waited.
        waited_ms: u64,
    },
}

impl CgroupError {
    /// True if the group was removed, before its use or in the middle of it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::File(error) if error.is_not_found() || is_removed(&error.source))
    }
}
