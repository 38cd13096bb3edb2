//! Discards a task or its files: renamed at once, deleted later.
//!
//! Discarded directories are renamed beside the task directories, so that they are not taken for
//! tasks, and deleted when there is time ([`crate::tree::Removal`]): one task can have millions of
//! files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{TaskDirectory, TaskError};
use crate::error::At;
use crate::record::{HOME_DIRECTORY, IMAGE_DIRECTORY};
use crate::tree::remove_tree;

/// The prefix of the names of discarded directories.
const PREFIX: &str = ".removing-";

/// Numbers what this process discards.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl TaskDirectory {
    /// Deletes the directory with all files of the task, and a leftover cgroup.
    ///
    /// Takes as long as deleting the files takes. Succeeds if the directory does not exist.
    ///
    /// # Errors
    /// [`TaskError::InUse`] while a shim supervises the task.
    pub fn remove(&self) -> Result<(), TaskError> {
        match self.discarded()? {
            Some(discarded) => Ok(remove_tree(&discarded).at("remove", &discarded)?),
            None => Ok(()),
        }
    }

    /// Like [`Self::remove`], but returns at once; the files are deleted later, see [`discarded`].
    ///
    /// # Errors
    /// [`TaskError::InUse`] while a shim supervises the task.
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

    /// Discards the task's files, its home directory and what it has written to the root of an image; its
    /// records and logs stay. Returns whether there was a home.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn discard_home(&self) -> Result<bool, TaskError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let image = self.path.join(IMAGE_DIRECTORY);
        discard(&image, &self.path, &format!("{name}-image"))?;
        let home = self.path.join(HOME_DIRECTORY);
        Ok(discard(&home, &self.path, &format!("{name}-home"))?.is_some())
    }
}

/// Renames a directory, beside another one that [`super::scan`] lists; returns the new path, unless
/// the directory does not exist.
///
/// # Errors
/// When the kernel returns an error.
pub fn discard(path: &Path, beside: &Path, name: &str) -> Result<Option<PathBuf>, TaskError> {
    loop {
        // Another process may have had this one's id and left files behind.
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

/// The discarded directories in `base`, of any process, that are still to be deleted.
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
