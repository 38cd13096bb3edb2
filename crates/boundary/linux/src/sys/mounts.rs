//! Mounts that are prepared before anybody can see them, and then attached (`open_tree(2)`,
//! `mount_setattr(2)`, `move_mount(2)`).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// A copy of the mount at `path`, of its directory `path` only, and of every mount below it if
/// `recursive`; attached nowhere.
pub(crate) fn clone_mount(path: &CStr, recursive: bool) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | at_recursive(recursive)?;
    // SAFETY: `path` outlives the call.
    let fd =
        check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the attributes (`MOUNT_ATTR_*`) `set` on a mount, and on every mount below it if `recursive`.
pub(crate) fn set_mount(mount: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    set_attributes(mount, &attributes, recursive)
}

/// Shows the files of a mount, which is attached nowhere, with the owners to which the user namespace
/// `owners` maps theirs.
pub(crate) fn map_owners(mount: BorrowedFd<'_>, owners: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::try_from(owners.as_raw_fd()).map_err(io::Error::other)?;
    let attr_set = libc::MOUNT_ATTR_IDMAP;
    let attributes = libc::mount_attr { attr_set, attr_clr: 0, propagation: 0, userns_fd };
    set_attributes(mount, &attributes, false)
}

fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: &libc::mount_attr,
    recursive: bool,
) -> io::Result<()> {
    let empty = libc::c_uint::try_from(libc::AT_EMPTY_PATH).map_err(io::Error::other)?;
    // SAFETY: `attributes` outlives the call, and the size passed is the size of the struct.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            empty | at_recursive(recursive)?,
            &raw const *attributes,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Attaches a mount that [`clone_mount`] made at `target`, on top of what is mounted there.
pub(crate) fn attach_mount(mount: BorrowedFd<'_>, target: &CStr) -> io::Result<()> {
    // Links in the target are followed, as those of /proc/self/fd must be.
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_SYMLINKS;
    // SAFETY: `target` outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            flags,
        )
    })?;
    Ok(())
}

fn at_recursive(recursive: bool) -> io::Result<libc::c_uint> {
    let flag = if recursive { libc::AT_RECURSIVE } else { 0 };
    libc::c_uint::try_from(flag).map_err(io::Error::other)
}
