//! Allocs on the machine (paper, section 2.4): a cgroup that limits its tasks together, and a
//! directory shared by all of them.
//!
//! An alloc runs no program, so it has no shim and no process: it exists while its cgroup and its
//! directory do, whoever created them. After a reboot only the directory is left; making the alloc
//! again completes it.
//!
//! Not here: which tasks run in it, and waiting for their end.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use crate::Isolation;
use crate::cgroup::{CgroupError, Hierarchy, Limits, TaskCgroup};
use crate::error::At;
use crate::network::{self, Network};
use crate::record::Bind;
use crate::task::{Resized, TaskDirectory, TaskError, discard};
use crate::tree::remove_tree;

/// The name of the directory shared by the alloc's tasks, in the alloc's directory.
pub const SHARED_DIRECTORY: &str = "shared";
/// The name of the file that holds the network of its tasks, if that is their own.
pub const NETWORK_FILE: &str = "network";

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

    /// The file that holds the network of its tasks, if that is their own.
    #[must_use]
    pub fn network_file(&self) -> PathBuf {
        self.path().join(NETWORK_FILE)
    }

    /// Creates what is missing of it; running tasks in it are not affected. A network needs a thread
    /// of its own, which this creates.
    ///
    /// # Errors
    /// When the disk is full, or the kernel rejects the cgroup or its limits, or the network.
    pub fn make(&self, limits: &Limits, network: Option<&Network>) -> Result<(), TaskError> {
        self.make_directory()?;
        if let Some(network) = network {
            let path = self.network_file();
            // A thread that fails in between may be left in the wrong network.
            let made = thread::scope(|scope| scope.spawn(|| network.mount(&path)).join());
            made.map_err(|_| io::Error::other("the thread that makes its network panicked"))
                .at("make the network at", &path)??;
        }
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

    /// Lets go of the network of its tasks, which have ended.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn release_network(&self) -> Result<(), TaskError> {
        let network = self.network_file();
        Ok(network::unmount(&network).at("let go of the network at", &network)?)
    }

    /// Whether it is complete. After a reboot its cgroup is missing.
    #[must_use]
    pub fn is_made(&self) -> bool {
        // After a reboot the file holds no network.
        let network = self.network_file();
        self.shared().is_dir()
            && self.group.as_ref().is_none_or(TaskCgroup::is_whole)
            && (!network.exists() || network::is_mounted(&network))
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
        self.release_network()?;
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        discard(self.path(), self.path(), &name)
    }
}
