//! The mount calls of the jail, each with its purpose in its error.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};

use crate::FileError;
use crate::error::At;
use crate::sys;

const NONE: Option<&str> = None;

/// Changes the flags of the mount at `target`.
pub(super) fn change(target: impl AsRef<Path>, flags: MsFlags) -> Result<(), FileError> {
    let target = target.as_ref();
    mount(NONE, target, NONE, flags, NONE).at("change the mount", target)
}

pub(super) fn tmpfs(target: &Path, options: &str, flags: MsFlags) -> Result<(), FileError> {
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(options)).at("mount a tmpfs on", target)
}

pub(super) fn proc(target: &Path) -> Result<(), FileError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), target, Some("proc"), flags, NONE).at("mount proc on", target)
}

pub(super) fn devpts(target: &Path) -> Result<(), FileError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    mount(Some("devpts"), target, Some("devpts"), flags, options).at("mount devpts on", target)
}

/// Mounts a read-only overlay of the directories of `lower`, the first one on top.
pub(super) fn overlay(lower: &str, target: &Path) -> Result<(), FileError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY;
    let options = format!("lowerdir={lower}");
    mount(Some("overlay"), target, Some("overlay"), flags, Some(options.as_str()))
        .at("mount an overlay on", target)
}

/// Mounts an overlay with these options for the layers of an image.
pub(super) fn image_overlay(options: &str, target: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("overlay"), target, Some("overlay"), flags, Some(options))?)
}

/// Binds `source`, with what is mounted below it, at `target`, with unchanged flags.
pub(super) fn bind(source: &Path, target: &Path) -> Result<(), FileError> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(source), target, NONE, flags, NONE).at("show in the jail", source)
}

/// Binds `source` at `target` without set-uid programs and devices, and read-only unless
/// `writable`.
pub(super) fn bind_at(source: &Path, target: &Path, writable: bool) -> Result<(), FileError> {
    let mount = sys::clone_mount(&c_path(source)?, true).at("show in the jail", source)?;
    restrict(mount.as_fd(), target, writable)?;
    sys::attach_mount(mount.as_fd(), &c_path(target)?).at("mount on", target)
}

/// Switches set-uid programs and devices off in a mount, and makes it read-only unless `writable`.
pub(super) fn restrict(
    mount: BorrowedFd<'_>,
    target: &Path,
    writable: bool,
) -> Result<(), FileError> {
    let read_only = if writable { 0 } else { libc::MOUNT_ATTR_RDONLY };
    let set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | read_only;
    sys::set_mount(mount, set, true).at("restrict the mount", target)
}

/// Makes the mount at an open directory read-only, but not those below it.
pub(super) fn make_read_only(directory: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_mount(directory, libc::MOUNT_ATTR_RDONLY, false)
}

/// A path as the kernel takes it.
pub(super) fn c_path(path: &Path) -> Result<CString, FileError> {
    CString::new(path.as_os_str().as_bytes()).at("name", path)
}
