//! Checkpoints: one self-contained, checksummed file with opaque sections.
//!
//! A checkpoint is written under another name, synced, then renamed: what has a checkpoint's name
//! was whole once. Sections are streamed in the caller's order, so that a state larger than the
//! memory left can be written in pieces; what a section means is its `kind`, the caller's number.
//! Which checkpoint to use when the newest is damaged, and how many to keep, is the caller's
//! choice: [`list`] gives all, newest first.
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
//! | 32 | 8 | zero |
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

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

pub use format::MAX_SECTION_BYTES;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

use crate::{Error, Result, disk};

/// A checkpoint in a directory. That it is listed says nothing about its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file.
    pub path: PathBuf,
    /// Index of the last entry that the state includes.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The size of the file.
    pub bytes: u64,
}

/// The checkpoints in a directory, newest (highest index, then term) first. Other names are
/// passed over.
///
/// # Errors
/// [`Error::Io`].
pub fn list(directory: impl AsRef<Path>) -> Result<Vec<Checkpoint>> {
    let directory = directory.as_ref();
    let mut checkpoints = Vec::new();
    for name in disk::names(directory)? {
        let Some((index, term)) = format::parse_name(&name) else { continue };
        let path = directory.join(name);
        match fs::metadata(&path) {
            Ok(found) => checkpoints.push(Checkpoint { path, index, term, bytes: found.len() }),
            // Deleted since the directory was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("look at", &path, 0)(e)),
        }
    }
    checkpoints.sort_unstable_by_key(|c| std::cmp::Reverse((c.index, c.term)));
    Ok(checkpoints)
}

/// Deletes a checkpoint, durably.
///
/// # Errors
/// [`Error::Io`].
pub fn remove(checkpoint: &Checkpoint) -> Result<()> {
    fs::remove_file(&checkpoint.path).map_err(Error::io("delete", &checkpoint.path, 0))?;
    disk::sync_directory(disk::parent(&checkpoint.path))
}

/// Takes a checkpoint file from elsewhere, as another replica sends it: stored, verified in full,
/// and only then given its name.
///
/// # Errors
/// [`Error::DamagedCheckpoint`] if what came is not a whole checkpoint, [`Error::NewerFormat`],
/// [`Error::NoRoom`] and [`Error::Io`], that of reading `source` included. Nothing is left behind.
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
        Ok(Checkpoint { path, index, term, bytes: reader.bytes() })
    })();
    if imported.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    imported
}

/// Removes what a crash left of checkpoints that were being written.
pub(crate) fn remove_unfinished(directory: &Path) -> Result<()> {
    for name in disk::names(directory)? {
        if name.ends_with(".checkpoint.tmp") {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(Error::io("remove the unfinished", &path, 0))?;
        }
    }
    Ok(())
}
