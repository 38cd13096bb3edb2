//! Checkpoints: self-contained, checksummed files of opaque sections.
//!
//! A checkpoint is written under a temporary name, synced, then renamed: a file with a checkpoint's
//! name was complete once. Sections are streamed in the caller's order, so that a state larger than
//! the free memory can be written in chunks; the caller numbers the kinds of sections. The caller
//! also decides which checkpoint to use when the newest one is damaged, and how many to keep:
//! [`list`] returns all of them, newest first.
//!
//! File name: `<index, 20 digits>-<term, 20 digits>.checkpoint`. Integers are little-endian.
//!
//! | offset | bytes | header (40 bytes) |
//! |---|---|---|
//! | 0 | 8 | magic `BOURGCKP` |
//! | 8 | 4 | version of the format, 1 |
//! | 12 | 4 | crc32c of the bytes 8–12 and 16–40 |
//! | 16 | 8 | index of the last entry that the state includes |
//! | 24 | 8 | its term |
//! | 32 | 8 | when the state was so, in microseconds since 1970; 0 if that is not said |
//!
//! | offset | bytes | section, one behind the other |
//! |---|---|---|
//! | 0 | 4 | kind |
//! | 4 | 4 | crc32c of the payload |
//! | 8 | 8 | length of the payload |
//! | 16 | 4 | zero |
//! | 20 | 4 | crc32c of the bytes 0–20 |
//! | 24 | … | payload, not padded |
//!
//! | offset | bytes | trailer, the last 64 bytes |
//! |---|---|---|
//! | 0 | 8 | magic `BOURGEND` |
//! | 8 | 8 | number of sections |
//! | 16 | 8 | size of the file |
//! | 24 | 32 | blake3 of everything before the trailer |
//! | 56 | 4 | crc32c of the bytes 0–56 |
//! | 60 | 4 | zero |

mod format;
mod reader;
mod writer;

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

pub use format::MAX_SECTION_BYTES;
use format::Stated;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

use crate::{Error, Result, disk};

/// A checkpoint in a directory. Listing it does not verify its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file.
    pub path: PathBuf,
    /// The index of the last entry included in the state.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The time of the state, in microseconds since 1970; the file's modification time if the file
    /// does not contain it.
    pub time_us: u64,
    /// The file's size.
    pub bytes: u64,
}

impl Checkpoint {
    fn at(path: PathBuf, stated: Stated, file: &File) -> Result<Self> {
        let found = file.metadata().map_err(Error::io("look at", &path, 0))?;
        let Stated { index, term, mut time_us } = stated;
        if time_us == 0 {
            let since = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            time_us = since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
        }
        Ok(Self { path, index, term, time_us, bytes: found.len() })
    }

    /// Describes a checkpoint without reading its content.
    fn look(path: PathBuf, index: u64, term: u64) -> Result<Self> {
        let mut file = File::open(&path).map_err(|e| Error::reading(&path, e))?;
        let mut header = [0; format::HEADER_BYTES];
        let stated = file.read_exact(&mut header).ok().and_then(|()| {
            format::parse_header(&header).ok().filter(|s| (s.index, s.term) == (index, term))
        });
        Self::at(path, stated.unwrap_or(Stated { index, term, time_us: 0 }), &file)
    }
}

/// The checkpoints in a directory, newest (highest index, then term) first. Files with other names
/// are ignored.
///
/// # Errors
/// [`Error::Io`].
pub fn list(directory: impl AsRef<Path>) -> Result<Vec<Checkpoint>> {
    let directory = directory.as_ref();
    let mut checkpoints = Vec::new();
    for name in disk::names(directory)? {
        let Some((index, term)) = format::parse_name(&name) else { continue };
        let path = directory.join(name);
        match Checkpoint::look(path, index, term) {
            Ok(checkpoint) => checkpoints.push(checkpoint),
            // Deleted since the directory was listed.
            Err(Error::Deleted { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    checkpoints.sort_unstable_by_key(|c| std::cmp::Reverse((c.index, c.term)));
    Ok(checkpoints)
}

/// Deletes a checkpoint durably.
///
/// # Errors
/// [`Error::Deleted`] if it no longer exists, and [`Error::Io`].
pub fn remove(checkpoint: &Checkpoint) -> Result<()> {
    let path = &checkpoint.path;
    fs::remove_file(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::Deleted { path: path.clone() },
        _ => Error::io("delete", path, 0)(e),
    })?;
    disk::sync_directory(disk::parent(&checkpoint.path))
}

/// Receives a checkpoint file, for example from another replica: stores it, verifies it in full,
/// and only then renames it into place.
///
/// # Errors
/// [`Error::DamagedCheckpoint`] if the received data is not a complete checkpoint,
/// [`Error::NewerFormat`], [`Error::NoRoom`] and [`Error::Io`], including errors of reading
/// `source`. Nothing is left behind.
pub fn import(directory: impl AsRef<Path>, source: &mut impl Read) -> Result<Checkpoint> {
    let directory = directory.as_ref();
    let unfinished = disk::unfinished(&directory.join("incoming.checkpoint"));
    let mut file = disk::create_unfinished(&unfinished)?;
    let imported = (|| {
        io::copy(source, &mut file)
            .and_then(|_| file.flush())
            .and_then(|()| file.sync_all())
            .map_err(Error::io("receive", &unfinished, 0))?;
        let mut reader = CheckpointReader::open(&unfinished)?;
        reader.verify()?;
        let (index, term) = (reader.index(), reader.term());
        let path = directory.join(format::name(index, term));
        disk::publish(&unfinished, &path)?;
        Checkpoint::look(path, index, term)
    })();
    if imported.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    imported
}

/// Removes unfinished checkpoints that a crash left behind.
pub(crate) fn remove_unfinished(directory: &Path) -> Result<()> {
    for name in disk::names(directory)? {
        if name.ends_with(".checkpoint.tmp") {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(Error::io("remove the unfinished", &path, 0))?;
        }
    }
    Ok(())
}
