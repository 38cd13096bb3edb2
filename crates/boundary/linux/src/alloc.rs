//! Allocs on the machine (paper, section 2.4): a group that holds its tasks' groups to one limit
//! together, and a directory that all of them see.
//!
//! An alloc runs nothing, so it has no shim and no process: it is there for as long as its group and
//! its directory are, whoever made them. After a reboot only the directory is left, and making the
//! alloc again completes it.
//!
//! Not here: which tasks are in it, and any waiting for their end.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::Isolation;
use crate::cgroup::{CgroupError, Hierarchy, Limits, TaskCgroup};
use crate::error::At;
use crate::record::Bind;
use crate::task::{Resized, TaskDirectory, TaskError, discard};
use crate::tree::remove_tree;

/// Name of the directory that the alloc's tasks share, in its own.
pub const SHARED_DIRECTORY: &str = "shared";

/// One alloc, known by its directory and the name of its group.
#[derive(Clone, Debug)]
pub struct Alloc {
    directory: TaskDirectory,
    /// None without root.
    group: Option<TaskCgroup>,
}

impl Alloc {
    /// A handle on the alloc `name` in `base`, whose group is called `cgroup`. Neither need exist.
    ///
    /// # Errors
    /// When one of the names cannot be, or the machine has no cgroups.
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

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory that its tasks share.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        self.path().join(SHARED_DIRECTORY)
    }

    /// What shows the shared directory to a task, at `target` in its jail.
    #[must_use]
    pub fn bind(&self, target: &str) -> Bind {
        Bind { source: self.shared(), target: target.into(), writable: true }
    }

    /// Makes what is missing of it; what runs in it runs on.
    ///
    /// # Errors
    /// When the disk is full, or the kernel refuses the group or its limits.
    pub fn make(&self, limits: &Limits) -> Result<(), TaskError> {
        self.make_directory()?;
        if let Some(group) = &self.group {
            group.make_parent(limits)?;
        }
        Ok(())
    }

    /// Makes its directories, without its group.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn make_directory(&self) -> Result<(), TaskError> {
        let path = self.path();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.at("create directory", path)?;
        let shared = self.shared();
        fs::create_dir_all(&shared).at("create directory", &shared)?;
        // Everybody writes there, and removes what is there: a task's next life has another user id,
        // and its files of before are another's to the kernel.
        let everybody = fs::Permissions::from_mode(0o777);
        Ok(fs::set_permissions(&shared, everybody).at("open to its tasks", &shared)?)
    }

    /// Whether it is as it was made. After a reboot its group is missing.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.shared().is_dir() && self.group.as_ref().is_none_or(TaskCgroup::is_whole)
    }

    /// Holds its tasks together to other limits.
    ///
    /// # Errors
    /// When the kernel refuses anything else than memory.
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

    /// Removes it with all its files; whatever is still in its group is killed. Takes as long as the
    /// deletion of the files takes. What is not there is removed already.
    ///
    /// # Errors
    /// When processes remain though they were killed, or a file cannot be deleted. To be tried again.
    pub fn remove(&self) -> Result<(), TaskError> {
        match self.discard()? {
            Some(discarded) => Ok(remove_tree(&discarded).at("remove", &discarded)?),
            None => Ok(()),
        }
    }

    /// The same at once; its files are deleted later
    /// ([`crate::tree::Removal`]). Where they are now, if there are any.
    ///
    /// # Errors
    /// When processes remain though they were killed. To be tried again.
    pub fn discard(&self) -> Result<Option<PathBuf>, TaskError> {
        if let Some(group) = &self.group {
            group.kill_all()?;
            group.remove()?;
        }
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        discard(self.path(), self.path(), &name)
    }
}
