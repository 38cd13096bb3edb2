//! Putting away what nobody needs any more: at once by its name, later by its files.
//!
//! What is discarded is renamed beside the task directories, so that it never looks like a task, and
//! deleted by whoever has the time ([`crate::tree::Removal`]): one task can have millions of files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{TaskDirectory, TaskError};
use crate::error::At;
use crate::record::HOME_DIRECTORY;
use crate::tree::remove_tree;

/// How the names of what is discarded begin.
const PREFIX: &str = ".removing-";

/// Keeps apart what this process discards.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl TaskDirectory {
    /// Deletes the directory with all that the task left in it, and a left-over cgroup.
    ///
    /// Takes as long as the deletion of the task's files takes. A directory that is not there is
    /// removed already.
    ///
    /// # Errors
    /// [`TaskError::InUse`] while a shim looks after it.
    pub fn remove(&self) -> Result<(), TaskError> {
        match self.discarded()? {
            Some(discarded) => Ok(remove_tree(&discarded).at("remove", &discarded)?),
            None => Ok(()),
        }
    }

    /// The same at once; the files are deleted later, see [`discarded`].
    ///
    /// # Errors
    /// [`TaskError::InUse`] while a shim looks after it.
    pub fn discard(&self) -> Result<(), TaskError> {
        self.discarded().map(drop)
    }

    fn discarded(&self) -> Result<Option<PathBuf>, TaskError> {
        if let Some(shim_pid) = self.shim_pid()? {
            return Err(TaskError::InUse { dir: self.path.clone(), shim_pid });
        }
        self.remove_cgroup()?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        discard(&self.path, &self.path, &name)
    }

    /// Discards what the task wrote into its home; its records and its logs stay. Whether there was a
    /// home.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn discard_home(&self) -> Result<bool, TaskError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let discarded =
            discard(&self.path.join(HOME_DIRECTORY), &self.path, &format!("{name}-home"))?;
        Ok(discarded.is_some())
    }
}

/// Renames a directory, beside another one that [`super::scan`] lists; to what, unless it is not there.
pub(crate) fn discard(
    path: &Path,
    beside: &Path,
    name: &str,
) -> Result<Option<PathBuf>, TaskError> {
    loop {
        // Another process may have had this one's id, and have left something.
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let discarded = beside.with_file_name(format!("{PREFIX}{process}-{number}-{name}"));
        match fs::rename(path, &discarded) {
            Ok(()) => return Ok(Some(discarded)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(crate::FileError::new("rename", path, error).into()),
        }
    }
}

/// What was discarded in `base`, by whatever process, and is still to be deleted.
///
/// # Errors
/// When `base` cannot be read.
pub fn discarded(base: &Path) -> Result<Vec<PathBuf>, TaskError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(base).at("list", base)? {
        let entry = entry.at("list", base)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}
