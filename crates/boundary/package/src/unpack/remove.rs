//! Removes what a layer replaces.
//!
//! One directory is open at a time, at any depth.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, unlinkat};

use crate::sys::{Attempt as _, Failed, Parent, name, open_directory, stat, type_of};
use crate::tree::EntryPath;

/// Removes a path and everything below it. It may be missing.
pub(super) fn all(root: BorrowedFd<'_>, path: &EntryPath) -> Result<(), Failed> {
    let mut parent = None;
    let parent = match Parent::of(&mut parent, root, path) {
        Err((_, error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    let kind = match stat(parent, path.name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        stat => type_of(&stat.action("inspect")?),
    };
    let flags = match kind {
        FileType::Directory => {
            below(root, path.as_bytes())?;
            AtFlags::REMOVEDIR
        }
        _ => AtFlags::empty(),
    };
    unlinkat(parent, name(path.name()), flags).action("remove")
}

/// Removes everything below a directory.
pub(super) fn below(root: BorrowedFd<'_>, directory: &[u8]) -> Result<(), Failed> {
    // The directories on the way down, each with the names of its directories that are left.
    let mut path = directory.to_vec();
    let mut left = vec![empty(root, &path)?];
    while let Some(names) = left.last_mut() {
        if let Some(next) = names.pop() {
            path.push(b'/');
            path.extend_from_slice(&next);
            left.push(empty(root, &path)?);
            continue;
        }
        left.pop();
        if !left.is_empty() {
            let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
            let parent = open_directory(root, &path[..slash], OFlags::PATH).action("open")?;
            unlinkat(&parent, name(&path[slash + 1..]), AtFlags::REMOVEDIR).action("remove")?;
            path.truncate(slash);
        }
    }
    Ok(())
}

/// Removes what is no directory from a directory, and returns the names of the directories.
fn empty(root: BorrowedFd<'_>, path: &[u8]) -> Result<Vec<Vec<u8>>, Failed> {
    let directory = open_directory(root, path, OFlags::RDONLY).action("open a directory of")?;
    let mut directories = Vec::new();
    for entry in Dir::read_from(&directory).action("read a directory of")? {
        let entry = entry.action("read a directory of")?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => type_of(&stat(directory.as_fd(), bytes).action("inspect")?),
            kind => kind,
        };
        match kind {
            FileType::Directory => directories.push(bytes.to_vec()),
            _ => unlinkat(&directory, name(bytes), AtFlags::empty()).action("remove")?,
        }
    }
    Ok(directories)
}
