//! The encoding of an entry.

use model::Digest;

use super::{EntryAttributes, EntryKind, MAX_SEGMENTS, MAX_XATTRS, Malformed, Segment, TreeEntry};
use crate::chunk::ChunkRef;
use crate::fields::MessageFields;

/// What is at the path. The numbers are part of the format.
mod kind {
    pub(super) const DIRECTORY: u32 = 1;
    pub(super) const FILE: u32 = 2;
    pub(super) const SYMLINK: u32 = 3;
    pub(super) const HARD_LINK: u32 = 4;
    pub(super) const CHAR_DEVICE: u32 = 5;
    pub(super) const BLOCK_DEVICE: u32 = 6;
    pub(super) const FIFO: u32 = 7;
    pub(super) const WHITEOUT: u32 = 8;
}

/// An [`TreeEntry`]. Fields that its kind does not have are absent.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WireEntry {
    #[prost(bytes = "vec", tag = "1")]
    path: Vec<u8>,
    #[prost(uint32, tag = "2")]
    kind: u32,
    #[prost(uint32, tag = "3")]
    mode: u32,
    #[prost(uint32, tag = "4")]
    uid: u32,
    #[prost(uint32, tag = "5")]
    gid: u32,
    #[prost(sint64, tag = "6")]
    mtime_seconds: i64,
    #[prost(uint32, tag = "7")]
    mtime_nanoseconds: u32,
    #[prost(message, repeated, tag = "8")]
    xattrs: Vec<WireXattr>,
    #[prost(message, repeated, tag = "9")]
    segments: Vec<WireSegment>,
    #[prost(bytes = "vec", tag = "10")]
    target: Vec<u8>,
    #[prost(uint32, tag = "11")]
    major: u32,
    #[prost(uint32, tag = "12")]
    minor: u32,
    #[prost(bool, tag = "13")]
    opaque: bool,
}

/// An extended attribute. They are sorted by their names.
#[derive(Clone, PartialEq, prost::Message)]
struct WireXattr {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// A [`Segment`]: a hole if it has no digest.
#[derive(Clone, PartialEq, prost::Message)]
struct WireSegment {
    #[prost(bytes = "vec", tag = "1")]
    digest: Vec<u8>,
    #[prost(uint64, tag = "2")]
    length: u64,
}

/// Checks how much is repeated in a message, before that is decoded.
pub(super) fn scan(message: &[u8]) -> Result<(), Malformed> {
    let (mut xattrs, mut segments) = (0, 0);
    for field in MessageFields::of(message) {
        match field {
            Some((8, _)) => xattrs += 1,
            Some((9, _)) => segments += 1,
            Some(_) => {}
            None => return Err(Malformed::Message("it is cut off, or no message".into())),
        }
        if xattrs > MAX_XATTRS || segments > MAX_SEGMENTS {
            return Err(Malformed::Parts);
        }
    }
    Ok(())
}

/// The message of an entry.
pub(super) fn encode(entry: &TreeEntry) -> WireEntry {
    let EntryAttributes { mode, uid, gid, mtime, xattrs } = &entry.attributes;
    let xattr = |(name, value): (&Vec<u8>, &Vec<u8>)| WireXattr {
        name: name.clone(),
        value: value.clone(),
    };
    let mut wire = WireEntry {
        path: entry.path.clone(),
        mode: *mode,
        uid: *uid,
        gid: *gid,
        mtime_seconds: mtime.0,
        mtime_nanoseconds: mtime.1,
        xattrs: xattrs.iter().map(xattr).collect(),
        ..WireEntry::default()
    };
    wire.kind = match &entry.kind {
        EntryKind::Directory { opaque } => {
            wire.opaque = *opaque;
            kind::DIRECTORY
        }
        EntryKind::File { segments } => {
            wire.segments = segments.iter().map(encode_segment).collect();
            kind::FILE
        }
        EntryKind::Symlink { target } => {
            wire.target.clone_from(target);
            kind::SYMLINK
        }
        EntryKind::HardLink { target } => {
            wire.target.clone_from(target);
            kind::HARD_LINK
        }
        EntryKind::CharDevice { major, minor } => {
            (wire.major, wire.minor) = (*major, *minor);
            kind::CHAR_DEVICE
        }
        EntryKind::BlockDevice { major, minor } => {
            (wire.major, wire.minor) = (*major, *minor);
            kind::BLOCK_DEVICE
        }
        EntryKind::Fifo => kind::FIFO,
        EntryKind::Whiteout => kind::WHITEOUT,
    };
    wire
}

fn encode_segment(segment: &Segment) -> WireSegment {
    let digest = match segment {
        Segment::Chunk(chunk) => chunk.digest.as_bytes().to_vec(),
        Segment::Hole { .. } => Vec::new(),
    };
    WireSegment { digest, length: segment.length() }
}

/// The entry of a message. Fields that its kind does not have are ignored: who reads compares the
/// bytes with those of the entry.
pub(super) fn decode(wire: WireEntry) -> Result<TreeEntry, Malformed> {
    let (major, minor, target) = (wire.major, wire.minor, wire.target);
    let kind = match wire.kind {
        kind::DIRECTORY => EntryKind::Directory { opaque: wire.opaque },
        kind::FILE => {
            let segments = wire.segments.iter().map(decode_segment).collect::<Option<_>>();
            EntryKind::File { segments: segments.ok_or(Malformed::Segment)? }
        }
        kind::SYMLINK => EntryKind::Symlink { target },
        kind::HARD_LINK => EntryKind::HardLink { target },
        kind::CHAR_DEVICE => EntryKind::CharDevice { major, minor },
        kind::BLOCK_DEVICE => EntryKind::BlockDevice { major, minor },
        kind::FIFO => EntryKind::Fifo,
        kind::WHITEOUT => EntryKind::Whiteout,
        unknown => return Err(Malformed::Kind(unknown)),
    };
    let attributes = EntryAttributes {
        mode: wire.mode,
        uid: wire.uid,
        gid: wire.gid,
        mtime: (wire.mtime_seconds, wire.mtime_nanoseconds),
        xattrs: wire.xattrs.into_iter().map(|xattr| (xattr.name, xattr.value)).collect(),
    };
    Ok(TreeEntry { path: wire.path, kind, attributes })
}

fn decode_segment(wire: &WireSegment) -> Option<Segment> {
    if wire.digest.is_empty() {
        return Some(Segment::Hole { length: wire.length });
    }
    let digest = Digest::from_bytes(wire.digest.as_slice().try_into().ok()?);
    Some(Segment::Chunk(ChunkRef { digest, length: u32::try_from(wire.length).ok()? }))
}
