//! Sets owner, mode, extended attributes and time, in this order: a change of the owner clears
//! set-uid bits and capabilities.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown,
    flistxattr, fremovexattr, fsetxattr, fstat, futimens, lsetxattr, utimensat,
};

use crate::sys::{Attempt as _, Failed, name};
use crate::tree::{Attributes, EntryPath, MODE_MAX, Modified};

/// The maximum length of the list of names of extended attributes: that of Linux.
const NAMES_BYTES_MAX: usize = 64 << 10;

/// Sets those of an open file or directory.
pub(super) fn of_open(file: impl AsFd, attributes: &Attributes) -> Result<(), Failed> {
    let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    // Asking costs far less than setting what is so already.
    let seen = fstat(&file).action("inspect")?;
    let owned = (seen.st_uid, seen.st_gid) == (attributes.uid, attributes.gid);
    if !owned {
        fchown(&file, Some(uid), Some(gid)).action("set the owner of")?;
    }
    if !owned || seen.st_mode & MODE_MAX != attributes.mode {
        fchmod(&file, Mode::from_raw_mode(attributes.mode)).action("set the mode of")?;
    }
    attributes.xattrs.iter().try_for_each(|xattr| set_xattr(&file, &xattr.name, &xattr.value))?;
    futimens(&file, &times(attributes.modified)).action("set the time of")
}

/// Sets those of something that cannot be opened. A symbolic link has no mode.
pub(super) fn of_named(
    parent: BorrowedFd<'_>,
    path: &EntryPath,
    mode: Option<u32>,
    attributes: &Attributes,
) -> Result<(), Failed> {
    let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    let (at, not_followed) = (name(path.name()), AtFlags::SYMLINK_NOFOLLOW);
    chownat(parent, at, Some(uid), Some(gid), not_followed).action("set the owner of")?;
    if let Some(mode) = mode {
        // This follows symbolic links, and this is none: it was just created.
        chmodat(parent, at, Mode::from_raw_mode(mode), AtFlags::empty())
            .action("set the mode of")?;
    }
    for xattr in &attributes.xattrs {
        // There is no call for a name in an open directory.
        let mut link = format!("/proc/self/fd/{}/", parent.as_raw_fd()).into_bytes();
        link.extend_from_slice(path.name());
        lsetxattr(name(&link), name(&xattr.name), &xattr.value, XattrFlags::empty())
            .action("set an extended attribute of")?;
    }
    utimensat(parent, at, &times(attributes.modified), not_followed).action("set the time of")
}

/// Sets an extended attribute.
pub(super) fn set_xattr(file: impl AsFd, key: &[u8], value: &[u8]) -> Result<(), Failed> {
    fsetxattr(file, name(key), value, XattrFlags::empty()).action("set an extended attribute of")
}

/// Removes the extended attributes that a directory had before and no longer has. Those of the
/// kernel and of security modules stay.
pub(super) fn remove_others(file: impl AsFd, attributes: &Attributes) -> Result<(), Failed> {
    let mut names = vec![0; NAMES_BYTES_MAX];
    let length = match flistxattr(&file, &mut names[..]) {
        // The file system has none.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length.action("list the extended attributes of")?,
    };
    for key in names[..length].split(|byte| *byte == 0).filter(|key| !key.is_empty()) {
        let of_package = key.starts_with(b"user.") || key.starts_with(b"trusted.");
        let kept = attributes.xattrs.iter().any(|xattr| xattr.name == key);
        if of_package && !kept {
            fremovexattr(&file, name(key)).action("remove an extended attribute of")?;
        }
    }
    Ok(())
}

/// The time of the last modification; that of the last access becomes the same.
fn times(modified: Modified) -> Timestamps {
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: i64::from(modified.nanos) };
    Timestamps { last_access: time, last_modification: time }
}
