//! The error of one operation on one file, used by all modules.

use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on a file or directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// The attempted action, as a verb phrase: `write`, `create directory`.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_owned(), source }
    }

    /// Whether the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether the disk, or the caller's quota, was full.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        is_no_room(&self.source)
    }
}

/// Whether the disk, or the caller's quota, has no room for bytes or for files.
#[must_use]
pub fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds the action and the file to the error of a system call.
pub(crate) trait At<T> {
    /// `action` completes the sentence "cannot … `path`".
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T, FileError> {
        self.map_err(|error| FileError::new(action, path.as_ref(), error.into()))
    }
}
