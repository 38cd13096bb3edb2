//! Directories as tasks leave them: of any size, nested arbitrarily deep, and possibly without
//! permissions.
//!
//! [`Removal`] deletes one and [`Measure`] counts its contents, both in bounded steps, because one
//! task can have millions of files. Neither follows links or leaves the file system, and both hold
//! few descriptors open at any depth.
//!
//! Not here: which directories, when, and on which thread.

mod beneath;
mod measure;
mod removal;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::dir::{Dir, Entry, OwningIter};
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::{NixPath, Result};

use crate::sys;
pub use beneath::move_beneath;
pub use measure::{Measure, Used};
pub use removal::{Removal, remove_tree};

/// The maximum number of nested directories that are open at once.
const DEPTH_MAX: usize = 64;

/// Opens a directory, and nothing else.
fn open<P: ?Sized + NixPath>(above: impl AsFd, name: &P) -> Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

fn open_path<P: ?Sized + NixPath>(path: &P) -> Result<OwnedFd> {
    open(AT_FDCWD, path)
}

/// The entries of a directory, without `.` and `..`.
struct Entries(OwningIter);

impl Entries {
    fn of(directory: OwnedFd) -> Result<Self> {
        Ok(Self(Dir::from_fd(directory)?.into_iter()))
    }
}

impl AsFd for Entries {
    fn as_fd(&self) -> BorrowedFd<'_> {
        sys::directory_of(&self.0)
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let own = |entry: &Entry| matches!(entry.file_name().to_bytes(), b"." | b"..");
        self.0.by_ref().find(|entry| !entry.as_ref().is_ok_and(own))
    }
}
