//! Allocs on the machine (paper, section 2.4): a cgroup that limits its tasks together, and a
//! directory shared by all of them.
//!
//! An alloc runs no program, so it has no shim and no process: it exists while its cgroup and its
//! directory do, whoever created them. After a reboot only the directory is left; making the alloc
//! again completes it.
//!
//! Not here: which tasks run in it, and waiting for their end.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::Isolation;
use crate::cgroup::{CgroupError, Hierarchy, Limits, TaskCgroup};
use crate::error::At;
use crate::record::Bind;
use crate::task::{Resized, TaskDirectory, TaskError, discard};
use crate::tree::remove_tree;

/// The name of the directory shared by the alloc's tasks, in the alloc's directory.
pub const SHARED_DIRECTORY: &str = "shared";

/// An alloc, identified by its directory and the name of its cgroup.
#[derive(Clone, Debug)]
pub struct Alloc {
    directory: TaskDirectory,
    /// `None` without root.
    group: Option<TaskCgroup>,
}

impl Alloc {
    /// A handle to the alloc `name` in `base` with the cgroup `cgroup`. Neither need exist.
    ///
    /// # Errors
    /// When one of the names is invalid, or the machine has no cgroups.
    pub fn open(
        base: &Path,
        name: &str,
        cgroup: &str,
        isolation: Isolation,
    ) -> Result<Self, TaskError> {
        let directory = TaskDirectory::open(base, name)?;
        let group = match isolation {
            Isolation::Jail => Some(TaskCgroup::open(&Hierarchy::detect()?, cgroup)?),
            Isolation::Rootless => None,
        };
        Ok(Self { directory, group })
    }

    /// The alloc's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory shared by its tasks.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        self.path().join(SHARED_DIRECTORY)
    }

    /// The bind mount of the shared directory at `target` in a task's jail.
    #[must_use]
    pub fn bind(&self, target: &str) -> Bind {
        Bind { source: self.shared(), target: target.into(), writable: true }
    }

    /// Creates what is missing of it; running tasks in it are not affected.
    ///
    /// # Errors
    /// When the disk is full, or the kernel rejects the cgroup or its limits.
    pub fn make(&self, limits: &Limits) -> Result<(), TaskError> {
        self.make_directory()?;
        if let Some(group) = &self.group {
            group.make_parent(limits)?;
        }
        Ok(())
    }

    /// Creates its directories without its cgroup.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn make_directory(&self) -> Result<(), TaskError> {
        let path = self.path();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.at("create directory", path)?;
        let shared = self.shared();
        fs::create_dir_all(&shared).at("create directory", &shared)?;
        // All tasks may write and delete there: a task's next incarnation has another user id, so
        // to the kernel the files of the previous one belong to someone else.
        let everybody = fs::Permissions::from_mode(0o777);
        Ok(fs::set_permissions(&shared, everybody).at("open to its tasks", &shared)?)
    }

    /// Whether it is complete. After a reboot its cgroup is missing.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.shared().is_dir() && self.group.as_ref().is_none_or(TaskCgroup::is_whole)
    }

    /// Changes the limits of its tasks together.
    ///
    /// # Errors
    /// When the kernel rejects anything other than memory.
    pub fn resize(&self, limits: &Limits) -> Result<Resized, TaskError> {
        let Some(group) = &self.group else { return Ok(Resized::Done) };
        match group.set_limits(limits) {
            Ok(()) => Ok(Resized::Done),
            Err(CgroupError::MemoryInUse { .. }) => {
                Ok(Resized::Refused { memory_bytes: group.memory_limit_bytes()? })
            }
            Err(error) if error.is_gone() => Ok(Resized::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes it with all its files and kills all processes left in its cgroup. Takes as long as
    /// deleting the files takes. Succeeds if it does not exist.
    ///
    /// # Errors
    /// When processes remain although they were killed, or a file cannot be deleted. Retry later.
    pub fn remove(&self) -> Result<(), TaskError> {
        match self.discard()? {
            Some(discarded) => Ok(remove_tree(&discarded).at("remove", &discarded)?),
            None => Ok(()),
        }
    }

    /// Like [`Self::remove`], but returns at once; the files are deleted later
    /// ([`crate::tree::Removal`]). Returns where they are now, if there are any.
    ///
    /// # Errors
    /// When processes remain although they were killed. Retry later.
    pub fn discard(&self) -> Result<Option<PathBuf>, TaskError> {
        if let Some(group) = &self.group {
            group.kill_all()?;
            group.remove()?;
        }
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        discard(self.path(), self.path(), &name)
    }
}
