//! Tar archives: V7, USTAR, PAX and GNU, with long names, sparse files of all four forms, extended
//! attributes (`SCHILY.xattr.`) and times in nanoseconds. Each is read in one pass.

pub(super) use member::{LayerMember, MemberKind, members, metadata};
pub(super) use read::Skip;
pub(super) use scan::{ArchivedFile, ArchivedLink, scan};

mod header;
mod member;
mod pax;
mod read;
mod scan;
mod sparse;

/// The length of the buffer for headers and small files, in bytes.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;
