//! Counts the contents of a directory in bounded steps.

use std::io;
use std::path::Path;

use libc::stat;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstat, fstatat};

use super::{DEPTH_MAX, Entries, open, open_path};

/// A file counts as this many units, shared equally by its names.
const FILE_PARTS: u64 = 1 << 16;

/// The disk usage of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Allocated bytes, whatever the files' length.
    pub bytes: u64,
    /// The number of files and directories.
    pub files: u64,
    /// Whether there is more, nested too deep to be counted.
    pub more: bool,
}

impl Used {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
            more: self.more || other.more,
        }
    }
}

/// The measurement of one directory with its contents, which may change meanwhile.
pub struct Measure {
    /// From the top to the current place.
    levels: Vec<Entries>,
    device: libc::dev_t,
    bytes: u64,
    parts: u64,
    more: bool,
}

impl Measure {
    /// A measurement that has not started. A missing directory is empty.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut measure = Self { levels: Vec::new(), device: 0, bytes: 0, parts: 0, more: false };
        match open_path(path) {
            Ok(top) => {
                let found = fstat(&top)?;
                measure.device = found.st_dev;
                measure.add(&found);
                measure.levels.push(Entries::of(top)?);
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(measure)
    }

    /// Counts up to this many more entries; returns whether all are counted.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn advance(&mut self, entries_max: usize) -> io::Result<bool> {
        for _ in 0..entries_max {
            let depth = self.levels.len();
            let Some(directory) = self.levels.last_mut() else { return Ok(true) };
            let Some(entry) = directory.next() else {
                self.levels.pop();
                continue;
            };
            let entry = entry?;
            let found = fstatat(&*directory, entry.file_name(), AtFlags::AT_SYMLINK_NOFOLLOW);
            let found = match found {
                Ok(found) if found.st_dev == self.device => found,
                // It was just removed, is on another file system, or is not readable without root.
                Ok(_) | Err(Errno::ENOENT | Errno::EACCES) => continue,
                Err(error) => return Err(error.into()),
            };
            let is_directory = is_directory(&found);
            let below =
                (is_directory && depth < DEPTH_MAX).then(|| open(&*directory, entry.file_name()));
            self.more |= is_directory && below.is_none();
            self.add(&found);
            match below {
                None | Some(Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES)) => {
                }
                Some(below) => self.levels.push(Entries::of(below?)?),
            }
        }
        Ok(self.levels.is_empty())
    }

    /// The usage counted so far.
    #[must_use]
    pub fn used(&self) -> Used {
        Used { bytes: self.bytes, files: self.parts.div_ceil(FILE_PARTS), more: self.more }
    }

    fn add(&mut self, file: &stat) {
        let bytes = u64::try_from(file.st_blocks).unwrap_or(0).saturating_mul(512);
        // A file with several names is visited once per name and counts once. The width of the link
        // count depends on the processor.
        let names = u64::try_from(u128::from(file.st_nlink)).unwrap_or(1).max(1);
        let names = if is_directory(file) { 1 } else { names };
        self.bytes = self.bytes.saturating_add(bytes / names);
        self.parts = self.parts.saturating_add(FILE_PARTS / names);
    }
}

fn is_directory(file: &stat) -> bool {
    file.st_mode & libc::S_IFMT == libc::S_IFDIR
}
