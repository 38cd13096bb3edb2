//! Opening files below a directory, so that no symbolic link leads out of it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, statat};

use crate::tree::EntryPath;

/// The attempted action and the kernel's error.
pub(crate) type Failed = (&'static str, io::Error);

/// Adds the action to the error of a system call: it completes "cannot … PATH".
pub(crate) trait Attempt<T> {
    fn action(self, action: &'static str) -> Result<T, Failed>;
}

impl<T, E: Into<io::Error>> Attempt<T> for Result<T, E> {
    fn action(self, action: &'static str) -> Result<T, Failed> {
        self.map_err(|error| (action, error.into()))
    }
}

/// Bytes as an argument of a system call.
pub(crate) fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Opens a directory below `root`, or `root` itself for the empty path. No component may be a
/// symbolic link.
pub(crate) fn open_directory(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    open_below(root, path, flags | OFlags::DIRECTORY)
}

/// Opens something below `root`. No component may be a symbolic link.
pub(crate) fn open_below(root: impl AsFd, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(root, name(path), flags, Mode::empty(), resolve)?)
}

/// What has this name in a directory; a symbolic link is not followed.
pub(crate) fn stat(directory: impl AsFd, at: &[u8]) -> io::Result<Stat> {
    Ok(statat(directory, name(at), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Its type.
pub(crate) fn type_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A directory that stays open while consecutive entries are in it.
#[derive(Debug)]
pub(crate) struct Parent {
    path: Vec<u8>,
    directory: OwnedFd,
}

impl Parent {
    /// The directory above an entry, from `last` if it is the same.
    pub(crate) fn of<'a>(
        last: &'a mut Option<Self>,
        root: BorrowedFd<'_>,
        path: &EntryPath,
    ) -> Result<BorrowedFd<'a>, Failed> {
        let parent = path.parent().unwrap_or_default();
        if last.as_ref().is_none_or(|last| last.path != parent) {
            let directory =
                open_directory(root, parent, OFlags::PATH).action("open the directory above")?;
            *last = Some(Self { path: parent.to_vec(), directory });
        }
        let open = last.as_ref().map(|last| last.directory.as_fd());
        open.ok_or_else(|| ("open the directory above", io::ErrorKind::NotFound.into()))
    }
}
