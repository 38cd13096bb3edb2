//! The interface for the Borglet: starts, inspects, resizes, stops and removes tasks, each
//! identified by its directory.
//!
//! All functions block, but only for milliseconds unless stated otherwise. No state is kept in
//! memory: after a restart the Borglet calls [`scan`] and [`TaskDirectory::inspect`] and has all
//! its knowledge back.

mod discard;
mod inspect;
mod resize;
mod shims;
mod start;
mod stop;
mod sweep;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::FileError;
use crate::cgroup::CgroupError;
use crate::error::At;
use crate::network::NetworkError;
use crate::record::{Invalid, RecordError};
pub use discard::{discard, discarded};
pub use inspect::{Inspection, LostReason};
pub use resize::Resized;
pub use shims::ShimServer;
pub use start::ShimChild;
pub use stop::Delivery;
pub use sweep::{Swept, sweep};

/// An operation on a task failed.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A record of the task could not be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The task's cgroup could not be used.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The network of an alloc could not be made.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The launch record is invalid.
    #[error("{label} cannot be launched: {source}")]
    Invalid {
        /// The task.
        label: String,
        /// The problem.
        source: Invalid,
    },
    /// The shim did not start, or reported an error.
    #[error("{label} has no shim: {reason}; see {}", log.display())]
    NoShim {
        /// The task.
        label: String,
        /// The message of the shim or the kernel.
        reason: String,
        /// The shim's own log.
        log: PathBuf,
    },
    /// A shim still supervises the task.
    #[error("{} is in use by its shim, process {shim_pid}: kill the task first", dir.display())]
    InUse {
        /// The task's directory.
        dir: PathBuf,
        /// The shim's process id.
        shim_pid: i32,
    },
    /// The name is not a single path component.
    #[error(
        "`{name}` cannot name a task directory: it must be one plain component not beginning with `.`"
    )]
    BadName {
        /// As given.
        name: String,
    },
    /// A process could not be signalled.
    #[error("cannot signal process {pid}, the init of {}: {source}", dir.display())]
    Signal {
        /// The process.
        pid: i32,
        /// The task's directory.
        dir: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl TaskError {
    /// Whether the disk was full.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        match self {
            Self::File(error) | Self::Record(RecordError::File(error)) => error.is_no_room(),
            _ => false,
        }
    }
}

/// The directory of one generation of one task; used once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDirectory {
    path: PathBuf,
}

impl TaskDirectory {
    /// Creates the directory `name` in `base`, which must exist.
    ///
    /// # Errors
    /// When it exists already, or `name` is not one plain path component.
    pub fn create(base: &Path, name: &str) -> Result<Self, TaskError> {
        let directory = Self::open(base, name)?;
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory.path).at("create directory", &directory.path)?;
        Ok(directory)
    }

    /// A handle to the directory `name` in `base`, which need not exist.
    ///
    /// # Errors
    /// [`TaskError::BadName`].
    pub fn open(base: &Path, name: &str) -> Result<Self, TaskError> {
        let plain = !name.is_empty() && name.len() <= 200 && !name.starts_with('.');
        if !plain || name.contains(['/', '\0']) {
            return Err(TaskError::BadName { name: name.to_owned() });
        }
        Ok(Self { path: base.join(name) })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The names of the task or alloc directories in `base`, sorted.
///
/// # Errors
/// When `base` cannot be read.
pub fn scan(base: &Path) -> Result<Vec<String>, TaskError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(base).at("list", base)? {
        let entry = entry.at("list", base)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
