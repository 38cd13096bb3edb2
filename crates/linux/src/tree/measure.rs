//! Counting what is in a directory, so many entries at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use libc::stat;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstat, fstatat};

use super::{DEPTH_MAX, Entries, is_directory, open, open_path};

/// A file counts as so many parts, of which each of its names has its share.
const FILE_PARTS: u64 = 1 << 16;

/// What files take up of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes that are allocated to them, whatever their length.
    pub bytes: u64,
    /// How many files and directories there are.
    pub files: u64,
    /// Whether there is more, which could not be looked into or is nested too deep.
    pub more: bool,
}

impl Used {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
            more: self.more || other.more,
        }
    }
}

/// The count of one directory and all that is in it, while others may change it.
pub struct Measure {
    /// From the top to where it is now.
    levels: Vec<(OwnedFd, Entries)>,
    device: libc::dev_t,
    bytes: u64,
    parts: u64,
    more: bool,
}

impl Measure {
    /// A count that has not begun. What is not there has nothing in it.
    ///
    /// # Errors
    /// When the kernel does not show the directory.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut measure = Self { levels: Vec::new(), device: 0, bytes: 0, parts: 0, more: false };
        match open_path(path) {
            Ok(top) => {
                let found = fstat(&top)?;
                measure.device = found.st_dev;
                measure.add(&found);
                measure.levels.push((top.try_clone()?, Entries::of(&top)?));
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(measure)
    }

    /// Counts up to so many entries more; whether all are counted.
    ///
    /// # Errors
    /// When the kernel cannot read a directory.
    pub fn go_on(&mut self, entries_max: usize) -> io::Result<bool> {
        for _ in 0..entries_max {
            let depth = self.levels.len();
            let Some((directory, entries)) = self.levels.last_mut() else { return Ok(true) };
            let Some(entry) = entries.next() else {
                self.levels.pop();
                continue;
            };
            let entry = entry?;
            let found = fstatat(&*directory, entry.file_name(), AtFlags::AT_SYMLINK_NOFOLLOW);
            let found = match found {
                Ok(found) if found.st_dev == self.device => found,
                // It has just been removed, or is of another file system.
                Ok(_) | Err(Errno::ENOENT) => continue,
                Err(Errno::EACCES) => {
                    self.more = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let below = match is_directory(&*directory, &entry) {
                Ok(true) if depth < DEPTH_MAX => open(&*directory, entry.file_name()),
                Ok(true) => Err(Errno::ENAMETOOLONG),
                Ok(false) | Err(_) => Err(Errno::ENOENT),
            };
            self.add(&found);
            match below {
                Ok(below) => {
                    let entries = Entries::of(&below)?;
                    self.levels.push((below, entries));
                }
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
                Err(_closed_or_too_deep) => self.more = true,
            }
        }
        Ok(self.levels.is_empty())
    }

    /// What has been counted so far.
    #[must_use]
    pub fn used(&self) -> Used {
        Used { bytes: self.bytes, files: self.parts.div_ceil(FILE_PARTS), more: self.more }
    }

    fn add(&mut self, file: &stat) {
        let bytes = u64::try_from(file.st_blocks).unwrap_or(0).saturating_mul(512);
        let is_directory = file.st_mode & libc::S_IFMT == libc::S_IFDIR;
        // One that has several names is met as often, and counts once.
        let names = if is_directory { 1 } else { u64::from(file.st_nlink).max(1) };
        self.bytes = self.bytes.saturating_add(bytes / names);
        self.parts = self.parts.saturating_add(FILE_PARTS / names);
    }
}
