//! Extended attributes, for which there is no safe call among what the crate uses.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::libc;

/// Sets an extended attribute of an open file or directory.
pub(crate) fn set_xattr(file: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, the name ends with a NUL, and the value has that many bytes.
    let result = unsafe {
        libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    Errno::result(result).map(drop)
}

/// Sets an extended attribute of what is at a path, which may be a symbolic link.
pub(crate) fn set_link_xattr(path: &CStr, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: path and name end with a NUL, and the value has that many bytes.
    let result = unsafe {
        libc::lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    Errno::result(result).map(drop)
}

/// The names of the extended attributes of an open file or directory.
pub(crate) fn list_xattrs(file: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    /// What the kernel has room for: `XATTR_LIST_MAX`.
    const LIST_BYTES: usize = 64 * 1024;
    let mut list = vec![0_u8; LIST_BYTES];
    // SAFETY: the descriptor is open, and the buffer has that many bytes.
    let length =
        unsafe { libc::flistxattr(file.as_raw_fd(), list.as_mut_ptr().cast(), list.len()) };
    let length = usize::try_from(Errno::result(length)?).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// Removes an extended attribute of an open file or directory.
pub(crate) fn remove_xattr(file: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and the name ends with a NUL.
    Errno::result(unsafe { libc::fremovexattr(file.as_raw_fd(), name.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn extended_attributes_are_set_listed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(dir.path()).unwrap();
        let file = file.as_fd();
        let ours = || -> Vec<_> {
            let names = list_xattrs(file).unwrap();
            names.into_iter().filter(|name| name.starts_with(b"user.")).collect()
        };
        set_xattr(file, c"user.a", b"1").unwrap();
        let path = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
        set_link_xattr(&path, c"user.b", b"").unwrap();
        let mut names = ours();
        names.sort();
        assert_eq!(names, [b"user.a", b"user.b"]);
        remove_xattr(file, c"user.a").unwrap();
        assert_eq!(ours(), [b"user.b"]);
        assert!(set_xattr(file, c"unknown.a", b"1").is_err());
    }
}
