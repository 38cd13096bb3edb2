//! The error of one operation on one file, used by every module here.

use std::io;
use std::path::{Path, PathBuf};

/// An operation on a file or directory that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// What was tried, as a verb phrase: `write`, `create directory`.
    pub action: &'static str,
    /// The file that it was tried on.
    pub path: PathBuf,
    /// The kernel's answer.
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_owned(), source }
    }

    /// True if the file was not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// True if the disk, or the caller's part of it, had no room.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        is_no_room(&self.source)
    }
}

/// Whether a disk, or the caller's part of it, had no room, for bytes or for files.
#[must_use]
pub fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds what was tried, and on what, to the error of a system call.
pub(crate) trait At<T> {
    /// `action` completes the sentence "cannot … `path`".
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T, FileError> {
        self.map_err(|error| FileError::new(action, path.as_ref(), error.into()))
    }
}
