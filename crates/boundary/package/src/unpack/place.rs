//! Where an entry goes, and the removal of what is there.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fstatat, makedev, mknodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{UnpackError, io_error};
use crate::beneath::{self, as_path};

/// Where an entry goes.
pub(super) struct EntryPlace<'a> {
    pub(super) parent: BorrowedFd<'a>,
    pub(super) name: &'a [u8],
    /// From the root, for errors.
    pub(super) path: &'a [u8],
}

impl EntryPlace<'_> {
    pub(super) fn error(&self, action: &'static str) -> impl Fn(Errno) -> UnpackError {
        io_error(action, self.path)
    }

    pub(super) fn shown(&self) -> PathBuf {
        beneath::shown(self.path)
    }

    /// What is there.
    pub(super) fn kind(&self) -> Result<Option<SFlag>, UnpackError> {
        match fstatat(self.parent, as_path(self.name), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.error("examine")(errno)),
        }
    }

    /// Makes a device or a pipe there.
    pub(super) fn node(&self, kind: SFlag, major: u32, minor: u32) -> Result<(), Errno> {
        let number = makedev(major.into(), minor.into());
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        mknodat(self.parent, as_path(self.name), kind, mode, number)
    }

    /// Removes what is at a place, if there is something.
    pub(super) fn remove(&self, root: BorrowedFd<'_>) -> Result<(), UnpackError> {
        let name = as_path(self.name);
        match unlinkat(self.parent, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(Errno::EISDIR) => {
                remove_content(root, self.path)?;
                unlinkat(self.parent, name, UnlinkatFlags::RemoveDir).map_err(self.error("remove"))
            }
            Err(errno) => Err(self.error("remove")(errno)),
        }
    }
}

/// Removes what is in a directory, however deep.
pub(super) fn remove_content(root: BorrowedFd<'_>, path: &[u8]) -> Result<(), UnpackError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let open = |path: &[u8]| beneath::open(root, path, flags).map_err(io_error("open", path));
    // Whether a directory was emptied, in front of what is in it.
    let mut left = vec![(path.to_vec(), false)];
    while let Some((path, emptied)) = left.pop() {
        let (parent, name) = beneath::split(&path);
        if emptied {
            if !left.is_empty() {
                unlinkat(open(parent)?, as_path(name), UnlinkatFlags::RemoveDir)
                    .map_err(io_error("remove", &path))?;
            }
            continue;
        }
        let directory = open(&path)?;
        let names = beneath::names(open(&path)?).map_err(io_error("list", &path))?;
        left.push((path.clone(), true));
        for name in names {
            let path = beneath::join(&path, &name);
            match unlinkat(&directory, as_path(&name), UnlinkatFlags::NoRemoveDir) {
                Err(Errno::EISDIR) => left.push((path, false)),
                removed => removed.map_err(io_error("remove", &path))?,
            }
        }
    }
    Ok(())
}
