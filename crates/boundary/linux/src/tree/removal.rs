//! Deletes a directory in bounded steps.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::dir::{Entry, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmod, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{DEPTH_MAX, Entries, open, open_path};

/// The deletion of one directory with its contents, even if a task has removed the permissions for
/// that. Nothing may use the directory any more.
///
/// Root needs no permissions; rootless tasks have the caller's uid, so the caller can restore them.
#[derive(Debug)]
pub struct Removal {
    path: PathBuf,
    /// The number of directories that were too deep and have been moved to the top.
    moved: u64,
}

/// One step of a deletion.
struct Slice<'a> {
    top: &'a OwnedFd,
    moved: &'a mut u64,
    left: usize,
}

impl Removal {
    /// A deletion that has not started.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        Self { path, moved: 0 }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes up to this many entries; returns whether nothing is left, not even the directory. A
    /// missing directory counts as deleted.
    ///
    /// # Errors
    /// When the kernel returns an error; entries deleted before stay deleted.
    pub fn advance(&mut self, entries_max: usize) -> io::Result<bool> {
        let top = match open_path(&self.path) {
            Ok(top) => top,
            Err(Errno::ENOENT) => return Ok(true),
            Err(Errno::EACCES) => {
                fchmodat(AT_FDCWD, &self.path, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
                open_path(&self.path)?
            }
            Err(error) => return Err(error.into()),
        };
        let mut slice = Slice { top: &top, moved: &mut self.moved, left: entries_max.max(1) };
        loop {
            let moved = *slice.moved;
            if !slice.empty(open(&top, ".")?, 1)? {
                return Ok(false);
            }
            if moved == *slice.moved {
                break;
            }
        }
        std::fs::remove_dir(&self.path)?;
        Ok(true)
    }
}

/// Deletes a directory with its contents. Takes as long as that takes.
///
/// # Errors
/// When the kernel returns an error.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let mut removal = Removal::of(path.to_owned());
    while !removal.advance(usize::MAX)? {}
    Ok(())
}

impl Slice<'_> {
    /// Deletes the contents of a directory; returns whether it is empty now except for what was
    /// moved to the top.
    fn empty(&mut self, directory: OwnedFd, depth: usize) -> io::Result<bool> {
        let mut entries = Entries::of(directory)?;
        while let Some(entry) = entries.next() {
            if self.left == 0 {
                return Ok(false);
            }
            let (entry, directory) = (entry?, entries.as_fd());
            let name = entry.file_name();
            if !is_directory(directory, &entry)? {
                permitted(directory, || unlinkat(directory, name, UnlinkatFlags::NoRemoveDir))?;
                self.left -= 1;
                continue;
            }
            let remove = || unlinkat(directory, name, UnlinkatFlags::RemoveDir);
            match permitted(directory, remove) {
                Err(Errno::ENOTEMPTY | Errno::EEXIST) if depth < DEPTH_MAX => {
                    let below = opened(directory, &entry)?;
                    if !self.empty(below, depth + 1)? {
                        return Ok(false);
                    }
                    permitted(directory, remove)?;
                }
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => self.move_to_top(directory, &entry)?,
                removed => removed?,
            }
            self.left = self.left.saturating_sub(1);
        }
        Ok(true)
    }

    /// Moves a directory to where it is not too deep.
    fn move_to_top(&mut self, above: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        // Moving a directory needs write permission on it, because its `..` changes.
        fchmod(&opened(above, entry)?, Mode::S_IRWXU)?;
        loop {
            *self.moved += 1;
            let name = CString::new(format!(".deep-{}", self.moved))?;
            match permitted(above, || renameat(above, entry.file_name(), self.top, &*name)) {
                // A task's own file, or one moved by an interrupted deletion.
                Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {}
                moved => return Ok(moved?),
            }
        }
    }
}

/// Performs an action in a directory, if necessary after restoring the owner's permissions.
fn permitted(directory: BorrowedFd<'_>, act: impl Fn() -> nix::Result<()>) -> nix::Result<()> {
    match act() {
        Err(Errno::EACCES) => {
            fchmod(directory, Mode::S_IRWXU)?;
            act()
        }
        done => done,
    }
}

/// Opens a directory in another one, if necessary after restoring the owner's permissions.
fn opened(above: BorrowedFd<'_>, entry: &Entry) -> nix::Result<OwnedFd> {
    let name = entry.file_name();
    let open_up = || fchmodat(above, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink);
    match open(above, name) {
        Err(Errno::EACCES) => {
            permitted(above, open_up)?;
            open(above, name)
        }
        opened => opened,
    }
}

/// Whether an entry is a directory, and not a link to one.
fn is_directory(above: BorrowedFd<'_>, entry: &Entry) -> nix::Result<bool> {
    match entry.file_type() {
        Some(kind) => Ok(kind == Type::Directory),
        // Some file systems do not report the type.
        None => {
            let found = fstatat(above, entry.file_name(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            Ok(SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR)
        }
    }
}
