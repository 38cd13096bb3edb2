//! Trees: the files of one layer, with their metadata and the chunks of their content.
//!
//! An encoded tree is a stream of entries, each a protobuf message behind its length. Entries are
//! strictly sorted by the components of their paths, so a directory comes right in front of what is
//! in it, and a tree can be written and read without holding it in memory. There is one encoding of
//! every tree: [`TreeReader`] rejects all others, and everything else that breaks a rule below.
//!
//! - Paths are relative, of components that are neither empty nor `.` nor `..`.
//! - What is no directory has nothing below it. The directory of an entry need not be in the tree:
//!   it may be that of a lower layer.
//! - A hard link names a file that comes before it, and has no attributes of its own.
//! - A whiteout says that nothing of lower layers is there. It has no attributes either.
//! - Extended attributes by which overlayfs is controlled, and its whiteout device, are rejected.

use std::collections::BTreeMap;
use std::io;

use thiserror::Error;

pub(crate) use self::check::OVERLAY_PREFIXES;
pub use self::read::TreeReader;
pub use self::write::TreeWriter;
use crate::chunk::ChunkRef;

mod check;
mod read;
mod wire;
mod write;

/// How many entries a tree has at most.
pub const MAX_ENTRIES: u64 = 2_000_000;
/// How many segments a file has at most: with chunks of the average length, 30 GiB.
pub const MAX_SEGMENTS: usize = 500_000;
/// How many extended attributes an entry has at most.
pub const MAX_XATTRS: usize = 4096;
/// How long an encoded tree is at most, in bytes.
pub const MAX_TREE_BYTES: u64 = 1 << 30;
/// How long the encoding of one entry is at most, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// How long a path is at most, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
/// How long a component of a path is at most, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 255;
/// How long the target of a symbolic link is at most, in bytes.
pub const MAX_SYMLINK_BYTES: usize = 4096;
/// How long the names and values of an entry's extended attributes are at most, together, in bytes.
pub const MAX_XATTR_BYTES: usize = 64 * 1024;
/// The permission bits, with those for set-user-ID, set-group-ID and sticky.
pub const MODE_BITS: u32 = 0o7777;
/// How long a file is at most, in bytes: what the kernel can address.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Something at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Where, relative to the root of the tree, with `/` between components. Not always UTF-8.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Its metadata: the default of whiteouts and hard links.
    pub attributes: EntryAttributes,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory, which is merged with that of lower layers.
    Directory {
        /// It is not merged: nothing of lower layers is in it.
        opaque: bool,
    },
    /// A regular file.
    File {
        /// Its content.
        segments: Vec<Segment>,
    },
    /// A symbolic link.
    Symlink {
        /// What it says, which may be any path.
        target: Vec<u8>,
    },
    /// One more name of a file.
    HardLink {
        /// The path of the file in the same tree. It comes first in the order of paths.
        target: Vec<u8>,
    },
    /// A character device.
    CharDevice {
        /// The number of the driver, up to 4095.
        major: u32,
        /// The number of the device, up to 1048575.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// The number of the driver, up to 4095.
        major: u32,
        /// The number of the device, up to 1048575.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// Nothing: what lower layers have at the path is removed.
    Whiteout,
}

/// The metadata of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryAttributes {
    /// The permission bits: a part of [`MODE_BITS`].
    pub mode: u32,
    /// The number of the owner.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
    /// When the content was changed: seconds since 1970, which may be negative, and nanoseconds.
    pub mtime: (i64, u32),
    /// Extended attributes, by their full names.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A part of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The bytes of a chunk.
    Chunk(ChunkRef),
    /// Zeros that take no room.
    Hole {
        /// How many, at least one.
        length: u64,
    },
}

impl Segment {
    /// How many bytes of the file it is.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Chunk(chunk) => u64::from(chunk.length),
            Self::Hole { length } => *length,
        }
    }
}

impl TreeEntry {
    /// How many bytes of chunks its content has: without holes, and 0 of all but files.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.chunks().map(|chunk| u64::from(chunk.length)).fold(0, u64::saturating_add)
    }

    /// The chunks of its content, in their order: none of all but files.
    pub fn chunks(&self) -> impl Iterator<Item = &ChunkRef> {
        let segments: &[Segment] = match &self.kind {
            EntryKind::File { segments } => segments,
            _ => &[],
        };
        segments.iter().filter_map(|segment| match segment {
            Segment::Chunk(chunk) => Some(chunk),
            Segment::Hole { .. } => None,
        })
    }
}

/// A tree cannot be read or written.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The stream fails, or ends in an entry.
    #[error("entry {entry} of the tree: {source}")]
    Io {
        /// The number of the entry, from 0.
        entry: u64,
        /// What happened.
        source: io::Error,
    },
    /// An entry cannot be decoded, or there are too many.
    #[error("entry {entry} of the tree {malformed}")]
    Malformed {
        /// The number of the entry, from 0.
        entry: u64,
        /// What is wrong.
        malformed: Malformed,
    },
    /// An entry breaks a rule.
    #[error("entry {entry} of the tree, '{path}', {fault}")]
    Fault {
        /// The number of the entry, from 0.
        entry: u64,
        /// Its path, escaped and not longer than a line.
        path: String,
        /// The rule.
        fault: EntryFault,
    },
}

/// The bytes of an entry are not those of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The length in front of it is not encoded as it should be, or beyond the bound.
    #[error("is encoded in more than {MAX_MESSAGE_BYTES} bytes, or its length is malformed")]
    Length,
    /// It is no protobuf message of an entry.
    #[error("cannot be decoded: {0}")]
    Message(String),
    /// It has more than [`MAX_SEGMENTS`] or [`MAX_XATTRS`].
    #[error("has more than {MAX_SEGMENTS} segments or {MAX_XATTRS} extended attributes")]
    Parts,
    /// It is of a kind that this version does not know.
    #[error("is of the unknown kind {0}")]
    Kind(u32),
    /// A chunk's digest or length is not one.
    #[error(
        "has a malformed segment: a digest is 32 bytes, a chunk 1 byte to 16 MiB, a hole at least 1 byte"
    )]
    Segment,
    /// Its bytes are not those that this version would write.
    #[error("is not encoded in the canonical form")]
    NotCanonical,
    /// There are more than [`MAX_ENTRIES`].
    #[error("is one too many: a tree has at most {MAX_ENTRIES}")]
    TooMany,
    /// The encoding is longer than [`MAX_TREE_BYTES`].
    #[error("makes the tree longer than {MAX_TREE_BYTES} bytes")]
    TooLong,
}

/// The rule that an entry breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EntryFault {
    /// It has no path.
    #[error("has an empty path")]
    EmptyPath,
    /// Its path begins with `/`.
    #[error("has an absolute path")]
    AbsolutePath,
    /// Its path is longer than [`MAX_PATH_BYTES`].
    #[error("has a path of more than {MAX_PATH_BYTES} bytes")]
    LongPath,
    /// A component of its path is empty, `.` or `..`, or has a NUL.
    #[error("has a path with a component that is empty, '.', '..' or has a NUL byte")]
    Component,
    /// A component of its path is longer than [`MAX_COMPONENT_BYTES`].
    #[error("has a path with a component of more than {MAX_COMPONENT_BYTES} bytes")]
    LongComponent,
    /// There is an entry of this path already.
    #[error("is there twice")]
    Duplicate,
    /// It belongs in front of the entry before it.
    #[error("is not in the order of paths: it belongs before '{0}'")]
    Unsorted(String),
    /// The entry above it is no directory.
    #[error("is below '{0}', which is no directory")]
    NoDirectory(String),
    /// The target of a symbolic link.
    #[error(
        "is a symbolic link with a target that is empty, has a NUL byte or more than {MAX_SYMLINK_BYTES} bytes"
    )]
    SymlinkTarget,
    /// The target of a hard link.
    #[error("is a hard link to '{0}', which is no file before it in the tree")]
    HardLinkTarget(String),
    /// The attributes of a hard link or whiteout.
    #[error("has attributes, which hard links and whiteouts cannot have")]
    EntryAttributes,
    /// The mode is more than permissions.
    #[error("has the mode {0:o}, which is more than permission bits")]
    Mode(u32),
    /// The nanoseconds are a second or more.
    #[error("was changed {0} nanoseconds after a second, which is more than a second")]
    Nanoseconds(u32),
    /// An owner or group that the kernel takes for none.
    #[error("has the owner or group 4294967295, which means none")]
    Owner,
    /// The name of an extended attribute is not one.
    #[error(
        "has an extended attribute of the name '{0}', which is empty, too long, has a NUL byte or controls overlayfs"
    )]
    XattrName(String),
    /// There are more than [`MAX_XATTRS`].
    #[error("has more than {MAX_XATTRS} extended attributes")]
    TooManyXattrs,
    /// There are more than [`MAX_SEGMENTS`].
    #[error("is a file of more than {MAX_SEGMENTS} segments")]
    TooManySegments,
    /// The extended attributes are longer than [`MAX_XATTR_BYTES`].
    #[error("has extended attributes of more than {MAX_XATTR_BYTES} bytes")]
    LongXattrs,
    /// A device that there cannot be, or the one that is a whiteout of overlayfs.
    #[error("is the device {0}:{1}, which is out of range or means a whiteout")]
    Device(u32, u32),
    /// A segment of no bytes, or a chunk that is too long.
    #[error("has a segment of {0} bytes")]
    Segment(u64),
    /// The file is longer than [`MAX_FILE_BYTES`].
    #[error("is a file of more than {MAX_FILE_BYTES} bytes")]
    LongFile,
}

/// A path for people: escaped, and cut off where it gets too long for a line.
#[must_use]
pub fn printable(path: &[u8]) -> String {
    const SHOWN_BYTES: usize = 200;
    match path.get(..SHOWN_BYTES) {
        Some(start) if path.len() > SHOWN_BYTES => format!("{}…", show(start)),
        _ => show(path),
    }
}

fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().flat_map(char::escape_debug).collect()
}
