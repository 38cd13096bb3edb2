//! Waiting for a child process without blocking a thread.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;

use crate::sys;

/// A descriptor that becomes readable when a child has ended. The caller must still wait for it.
///
/// # Errors
/// When the kernel has no more descriptors.
pub fn end_of(child: &Child) -> io::Result<OwnedFd> {
    sys::pidfd_open(i32::try_from(child.id()).map_err(io::Error::other)?)
}
