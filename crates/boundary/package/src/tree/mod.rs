//! Trees: the entries of one layer of a package.
//!
//! A tree is a list of [`TreeEntry`] values in the order of the bytes of their paths. Encoded
//! ([`encode()`]) it is a sequence of length-delimited messages `bourg.package.v1.Entry`, so that no
//! message is as large as the tree. The encoding is canonical: equal trees have equal bytes, and
//! [`Decoder`] rejects every other encoding of them.
//!
//! What holds of each tree, whether encoded or decoded:
//! - paths are valid ([`EntryPath`]), sorted and distinct
//! - the directory above each entry is an entry itself, and is a directory
//! - a hard link names a file that precedes it, or a path that only a lower layer has
//! - the bounds of this module and of [`path`]

mod build;
mod check;
mod decode;
mod encode;
pub mod path;
mod wire;

pub(crate) use build::{Builder, InodeId, Node};
pub use decode::{DecodeError, Decoder, ReadError, TreeReader, decode};
pub(crate) use encode::chunks_of;
pub use encode::{EncodeError, encode};
pub use path::{EntryPath, PathError};
pub(crate) use wire::{segment_from_wire, segment_to_wire};

use model::{Bytes, Digest};

use crate::chunk::{ChunkRef, Segment};

/// The maximum number of entries of a tree.
pub const ENTRIES_MAX: u64 = 2_000_000;

/// The maximum length of all names and values of the extended attributes of an entry, in bytes.
pub const XATTR_BYTES_MAX: usize = 64 << 10;

/// The maximum length of the name of an extended attribute in bytes: that of Linux.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// The maximum length of one encoded entry in bytes. It is enough for 64 GiB of chunks of the
/// average length.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// The permission bits that an entry may have, with set-uid, set-gid and sticky.
pub const MODE_MAX: u32 = 0o7777;

/// The maximum of the major number of a device, 12 bits on Linux.
pub const MAJOR_MAX: u32 = (1 << 12) - 1;

/// The maximum of the minor number of a device, 20 bits on Linux.
pub const MINOR_MAX: u32 = (1 << 20) - 1;

/// The entries of one layer, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The entries.
    pub entries: Vec<TreeEntry>,
}

/// An encoded tree: one layer of a package, as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The digest of the encoded tree.
    pub digest: Digest,
    /// The chunks of the encoded tree.
    pub chunks: Vec<ChunkRef>,
    /// The sum of the distinct chunks of the tree and of its files.
    pub bytes_stored: Bytes,
    /// The sum of the contents of files, without holes.
    pub bytes_unpacked: Bytes,
    /// The number of entries.
    pub entries: u64,
}

/// A file, a directory, or something else with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The path below the root of the package.
    pub path: EntryPath,
    /// What it is.
    pub kind: EntryKind,
    /// Owner, mode, time and extended attributes. Those of a hard link and of a whiteout are the
    /// default.
    pub attributes: Attributes,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory {
        /// Whether it hides what lower layers have in it.
        opaque: bool,
    },
    /// A regular file.
    File {
        /// Its contents in order.
        segments: Vec<Segment>,
    },
    /// A symbolic link, with mode 0777.
    Symlink {
        /// Its text: from 1 to [`path::PATH_BYTES_MAX`] bytes, none of them zero.
        target: Vec<u8>,
    },
    /// Another name of a file.
    HardLink {
        /// The path of the file.
        target: EntryPath,
    },
    /// A character device.
    CharDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A named pipe.
    Fifo,
    /// Removes the entry of lower layers.
    Whiteout,
}

/// The number of a device. The character device 0/0 is rejected, because it is how overlay mounts
/// store a whiteout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// At most [`MAJOR_MAX`].
    pub major: u32,
    /// At most [`MINOR_MAX`].
    pub minor: u32,
}

/// Owner, mode, time and extended attributes of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The permission bits: at most [`MODE_MAX`].
    pub mode: u32,
    /// The id of the user.
    pub uid: u32,
    /// The id of the group.
    pub gid: u32,
    /// The time of the last modification.
    pub modified: Modified,
    /// Extended attributes, sorted by name. The bounds are [`XATTR_BYTES_MAX`] and
    /// [`XATTR_NAME_BYTES_MAX`]. Those of overlay mounts (`trusted.overlay.` and
    /// `user.overlay.`) are rejected: in a layer they would change what the mount shows.
    pub xattrs: Vec<Xattr>,
}

/// The time of the last modification of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Modified {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds, less than 1,000,000,000.
    pub nanos: u32,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xattr {
    /// The name, not empty and without a zero byte.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// The names of the extended attributes with which overlay mounts mark entries of a layer.
pub(crate) fn is_of_overlay(name: &[u8]) -> bool {
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}

impl Attributes {
    /// Those of a directory that no archive describes: 0755, owned by root, of 1970.
    #[must_use]
    pub fn implied() -> Self {
        Self { mode: 0o755, ..Self::default() }
    }
}

impl TreeEntry {
    /// The length of the contents in bytes, with holes, if it is a file.
    #[must_use]
    pub fn bytes_apparent(&self) -> u64 {
        self.segments().iter().map(Segment::bytes).fold(0, u64::saturating_add)
    }

    /// The length of the contents in bytes, without holes, if it is a file.
    #[must_use]
    pub fn bytes_unpacked(&self) -> u64 {
        let data = |segment: &&Segment| matches!(segment, Segment::Chunk(_));
        self.segments().iter().filter(data).map(Segment::bytes).fold(0, u64::saturating_add)
    }

    /// The contents of a file; nothing of other entries.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        match &self.kind {
            EntryKind::File { segments } => segments,
            _ => &[],
        }
    }
}

impl Tree {
    /// The entry with this path.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<&TreeEntry> {
        let found = self.entries.binary_search_by(|entry| entry.path.as_bytes().cmp(path));
        found.ok().map(|index| &self.entries[index])
    }
}
