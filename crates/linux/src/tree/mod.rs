//! Directories as tasks leave them: of any size, nested as deep as they like, closed to everybody.
//!
//! [`Removal`] deletes one and [`Measure`] counts what is in one, so many entries at a time, because
//! one task can have millions of files. Neither follows a link or leaves its file system, and both
//! hold few descriptors open however deep it goes.
//!
//! Not here: which directories, when, and on which thread.

mod measure;
mod removal;

use std::os::fd::{AsFd, OwnedFd};

use nix::dir::{Dir, Entry, OwningIter, Type};
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::{NixPath, Result};

pub use measure::{Measure, Used};
pub use removal::{Removal, remove_tree};

/// How many directories are open at once, one below the other; each takes two descriptors.
const DEPTH_MAX: usize = 64;

/// Opens a directory, and nothing else.
fn open<P: ?Sized + NixPath>(above: impl AsFd, name: &P) -> Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

fn open_path<P: ?Sized + NixPath>(path: &P) -> Result<OwnedFd> {
    open(AT_FDCWD, path)
}

/// Whether an entry of a directory is one, and no link to one.
fn is_directory(above: impl AsFd, entry: &Entry) -> Result<bool> {
    match entry.file_type() {
        Some(kind) => Ok(kind == Type::Directory),
        // Not every file system says.
        None => {
            let found = fstatat(above, entry.file_name(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            Ok(SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR)
        }
    }
}

/// What is in a directory that has just been opened, but for itself and the one above.
struct Entries(OwningIter);

impl Entries {
    fn of(directory: &OwnedFd) -> std::io::Result<Self> {
        Ok(Self(Dir::from_fd(directory.try_clone()?)?.into_iter()))
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let own = |entry: &Entry| matches!(entry.file_name().to_bytes(), b"." | b"..");
        self.0.by_ref().find(|entry| !entry.as_ref().is_ok_and(own))
    }
}
