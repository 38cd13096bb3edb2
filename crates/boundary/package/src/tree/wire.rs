//! Conversion of entries to and from their protobuf messages.

use model::Digest;

use super::path::PathError;
use super::{Attributes, Device, EntryKind, EntryPath, Modified, TreeEntry, Xattr};
use crate::chunk::{ChunkRef, Segment};
use crate::proto;

/// Why a message is not an entry.
#[derive(Debug)]
pub(super) enum WireError {
    Path(PathError),
    Why(&'static str),
}

impl From<PathError> for WireError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

pub(super) fn to_wire(entry: &TreeEntry) -> proto::Entry {
    use proto::entry::Kind as Wire;
    let device = |device: &Device| proto::Device { major: device.major, minor: device.minor };
    let kind = match &entry.kind {
        EntryKind::Directory { opaque } => Wire::Directory(proto::Directory { opaque: *opaque }),
        EntryKind::File { segments } => {
            Wire::File(proto::File { segments: segments.iter().map(segment_to_wire).collect() })
        }
        EntryKind::Symlink { target } => Wire::Symlink(target.clone()),
        EntryKind::HardLink { target } => Wire::HardLink(target.as_bytes().to_vec()),
        EntryKind::CharDevice(number) => Wire::CharDevice(device(number)),
        EntryKind::BlockDevice(number) => Wire::BlockDevice(device(number)),
        EntryKind::Fifo => Wire::Fifo(proto::Empty {}),
        EntryKind::Whiteout => Wire::Whiteout(proto::Empty {}),
    };
    let Attributes { mode, uid, gid, modified, xattrs } = &entry.attributes;
    let xattr =
        |Xattr { name, value }: &Xattr| proto::Xattr { name: name.clone(), value: value.clone() };
    proto::Entry {
        path: entry.path.as_bytes().to_vec(),
        mode: *mode,
        uid: *uid,
        gid: *gid,
        modified_seconds: modified.seconds,
        modified_nanos: modified.nanos,
        xattrs: xattrs.iter().map(xattr).collect(),
        kind: Some(kind),
    }
}

pub(super) fn from_wire(entry: proto::Entry) -> Result<TreeEntry, WireError> {
    use proto::entry::Kind as Wire;
    let device = |device: proto::Device| Device { major: device.major, minor: device.minor };
    let kind = match entry.kind.ok_or(WireError::Why("it is of no known kind"))? {
        Wire::Directory(proto::Directory { opaque }) => EntryKind::Directory { opaque },
        Wire::File(proto::File { segments }) => EntryKind::File {
            segments: segments
                .iter()
                .map(segment_from_wire)
                .collect::<Option<_>>()
                .ok_or(WireError::Why("a segment has a digest or a length out of range"))?,
        },
        Wire::Symlink(target) => EntryKind::Symlink { target },
        Wire::HardLink(target) => EntryKind::HardLink { target: EntryPath::new(&target)? },
        Wire::CharDevice(number) => EntryKind::CharDevice(device(number)),
        Wire::BlockDevice(number) => EntryKind::BlockDevice(device(number)),
        Wire::Fifo(proto::Empty {}) => EntryKind::Fifo,
        Wire::Whiteout(proto::Empty {}) => EntryKind::Whiteout,
    };
    let xattr = |proto::Xattr { name, value }| Xattr { name, value };
    let attributes = Attributes {
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        modified: Modified { seconds: entry.modified_seconds, nanos: entry.modified_nanos },
        xattrs: entry.xattrs.into_iter().map(xattr).collect(),
    };
    Ok(TreeEntry { path: EntryPath::new(&entry.path)?, kind, attributes })
}

pub(crate) fn segment_to_wire(segment: &Segment) -> proto::Segment {
    match segment {
        Segment::Chunk(chunk) => proto::Segment {
            digest: chunk.digest.as_bytes().to_vec(),
            bytes: u64::from(chunk.bytes),
        },
        Segment::Hole(bytes) => proto::Segment { digest: Vec::new(), bytes: *bytes },
    }
}

/// A segment, or `None` if its digest or length is out of range.
pub(crate) fn segment_from_wire(segment: &proto::Segment) -> Option<Segment> {
    if segment.digest.is_empty() {
        return Some(Segment::Hole(segment.bytes));
    }
    let digest = Digest::from_bytes(<[u8; Digest::BYTES]>::try_from(&segment.digest[..]).ok()?);
    let bytes = u32::try_from(segment.bytes).ok()?;
    Some(Segment::Chunk(ChunkRef { digest, bytes }))
}
