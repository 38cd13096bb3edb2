//! Files by their paths below a directory, and never outside it.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

/// A path as the kernel is given it: that of the root is empty in trees.
pub(crate) fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }))
}

/// A path for an error.
pub(crate) fn shown(path: &[u8]) -> PathBuf {
    as_path(path).to_path_buf()
}

/// Opens what is at a path below a directory. No part of the path may be a symbolic link: the last
/// one can be opened with `O_PATH | O_NOFOLLOW`.
pub(crate) fn open(root: BorrowedFd<'_>, path: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    loop {
        // The kernel gives up if something outside is renamed at the same time.
        match openat2(root, as_path(path), how) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            opened => return opened,
        }
    }
}

/// The sorted names in a directory.
pub(crate) fn names(directory: OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::from_fd(directory)?.iter() {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The path of something in a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, name].join(&b'/') }
}

/// The path of the directory, empty for the root, and the name in it.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}
