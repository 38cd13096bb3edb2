//! What is left of a disk, room that is taken before it is needed, and files that have no name any
//! more.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, RenameFlags, fallocate, renameat2};
use nix::sys::statvfs::statvfs;

use crate::FileError;
use crate::cgroup::{CgroupError, TaskCgroup};
use crate::error::At;
pub use crate::error::is_no_room;
use crate::tree::Used;

/// A file that is replaced has a multiple of this length: of every file system whole blocks.
const REPLACED_BYTES: u16 = 4096;
/// How many open files of one task are looked at.
const OPEN_FILES_MAX: usize = 100_000;

/// The size of a file system, and what of it is free to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its size in bytes.
    pub bytes: u64,
    /// Of these, the free ones.
    pub free_bytes: u64,
    /// How many files it can have; none where there are as many as there is room for.
    pub files: Option<u64>,
    /// How many there can be beside those that are there.
    pub free_files: u64,
}

impl Disk {
    /// The one with a directory.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn of(directory: &Path) -> Result<Self, FileError> {
        let found = statvfs(directory).at("measure the disk of", directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        let files = Some(found.files()).filter(|files| *files > 0);
        Ok(Self {
            bytes: bytes(found.blocks()),
            free_bytes: bytes(found.blocks_available()),
            files,
            free_files: files.map_or(u64::MAX, |_| found.files_available()),
        })
    }
}

/// Makes a file, or takes one that is there, which has so much of the disk as its own: as much can be
/// written into it when the disk is full. Only its owner reads it.
///
/// A file system that copies what is written over cannot promise that.
///
/// # Errors
/// When there is no room for it.
pub fn reserve(path: &Path, bytes: u16) -> Result<File, FileError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).at("create", path)?;
    let reserved = match fallocate(&file, FallocateFlags::empty(), 0, bytes.into()) {
        // Not every file system can; a write takes it, too.
        Err(Errno::EOPNOTSUPP) => file.write_all(&vec![0; bytes.into()]),
        reserved => reserved.map_err(io::Error::from),
    };
    reserved.at("reserve room for", path)?;
    Ok(file)
}

/// Replaces the content of a text file atomically and durably: a reader sees all of the old text or all of
/// the new one. The file is padded with newlines to a multiple of 4 KiB.
///
/// After the first time this takes no room on the disk: the file that was replaced keeps its blocks and is
/// written next. It is called as the file is, with a dot in front and `.new` behind.
///
/// # Errors
/// When the disk is full the first time, or fails.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let next = path.with_file_name(format!(".{name}.new"));
    let mut file = reserve(&next, REPLACED_BYTES)?;
    let mut text = content.to_vec();
    text.resize(content.len().next_multiple_of(REPLACED_BYTES.into()), b'\n');
    file.write_all(&text).at("write", &next)?;
    file.set_len(text.len() as u64).at("write", &next)?;
    file.sync_all().at("sync", &next)?;
    let exchanged = renameat2(AT_FDCWD, &next, AT_FDCWD, path, RenameFlags::RENAME_EXCHANGE);
    match exchanged {
        Ok(()) => {}
        // The first time; or the file system cannot do it.
        Err(Errno::ENOENT | Errno::EINVAL | Errno::ENOSYS) => {
            fs::rename(&next, path).at("rename to", path)?;
            // Where there is no room for that, the next time may fail.
            let _no_room = reserve(&next, REPLACED_BYTES);
        }
        Err(error) => return Err(FileError::new("rename to", path, error.into())),
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).at("sync", directory)
}

/// What the processes of a task have open on the file system of a directory, and nobody can name any
/// more: it goes when they do.
///
/// # Errors
/// When its processes cannot be listed.
pub fn unnamed(cgroup: &TaskCgroup, directory: &Path) -> Result<Used, CgroupError> {
    let Ok(device) = fs::metadata(directory).map(|found| found.dev()) else {
        return Ok(Used::default());
    };
    let mut used = Used::default();
    let mut seen = BTreeSet::new();
    let mut left = OPEN_FILES_MAX;
    for pid in cgroup.processes()? {
        // Both have links that lead to the very file, whatever it is called.
        for place in ["fd", "map_files"] {
            let Ok(entries) = fs::read_dir(format!("/proc/{pid}/{place}")) else { continue };
            for entry in entries.flatten() {
                if left == 0 {
                    return Ok(Used { more: true, ..used });
                }
                left -= 1;
                let Ok(found) = fs::metadata(entry.path()) else { continue };
                if found.nlink() == 0 && found.dev() == device && seen.insert(found.ino()) {
                    let bytes = found.blocks().saturating_mul(512);
                    used = used.plus(Used { bytes, files: 1, more: false });
                }
            }
        }
    }
    Ok(used)
}
