//! A directory for the files of one run, in memory where there is such a file system.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// An empty directory, removed with its content when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// Makes one.
    ///
    /// # Panics
    /// Where it cannot be made.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Self(made.expect("a directory can be made"))
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file into it.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.path().join(name), content).expect("a file can be written");
    }
}
