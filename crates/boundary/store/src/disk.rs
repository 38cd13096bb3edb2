//! File operations that the whole crate needs done in the same durable way.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The suffix of a file that is being written and has no final name yet.
pub(crate) const UNFINISHED: &str = "tmp";

/// Makes the names in a directory durable: without this, a synced file may be lost together with
/// its name.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    // Never "no room", whatever the cause: after a failed sync the durable state is unknown.
    let failed = |source| Error::Io { action: "sync the directory", path: path.into(), source };
    File::open(path).and_then(|d| d.sync_all()).map_err(failed)
}

/// Creates a file of mode 0600 for reading and writing, replacing one that a crash left behind.
pub(crate) fn create_unfinished(path: &Path) -> Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove the unfinished", path, 0)(e));
        }
        _ => {}
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(Error::io("create", path, 0))
}

/// Renames a finished and synced file into place, durably.
pub(crate) fn publish(unfinished: &Path, path: &Path) -> Result<()> {
    fs::rename(unfinished, path).map_err(Error::io("rename into place", path, 0))?;
    sync_directory(parent(path))
}

/// Replaces a small file atomically: its name always refers to the old or the new content.
pub(crate) fn write_atomic(path: &Path, content: &[u8]) -> Result<()> {
    let unfinished = unfinished(path);
    let mut file = create_unfinished(&unfinished)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(Error::io(
        "write",
        &unfinished,
        content.len() as u64,
    ))?;
    publish(&unfinished, path)
}

/// The temporary name of a file.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    PathBuf::from(name)
}

/// The directory that holds `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The UTF-8 names in a directory, sorted. Other names cannot be ours.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory, 0))? {
        let entry = entry.map_err(Error::io("list", directory, 0))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Little-endian fields of a fixed-size header.
pub(crate) trait Fields {
    /// The four bytes at `at`.
    fn u32_at(&self, at: usize) -> u32;
    /// The eight bytes at `at`.
    fn u64_at(&self, at: usize) -> u64;
}

impl<const N: usize> Fields for [u8; N] {
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self[at + i]))
    }

    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self[at + i]))
    }
}
