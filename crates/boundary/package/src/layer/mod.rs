//! Reads a layer of a container image: a tar archive of changes.
//!
//! [`read()`] makes a tree of the archive and puts the contents of its files into a sink, in one pass
//! over the stream. It reads the formats V7, USTAR, PAX and GNU, with long names, sparse files of
//! all four forms, extended attributes (`SCHILY.xattr.`) and times in nanoseconds.
//!
//! What the archive says, and what the tree has:
//! - A later member replaces an earlier one of the same path. A directory over a directory keeps
//!   what is in it; everything else does not.
//! - `.wh.NAME` of any type removes NAME of lower layers, and `.wh..wh..opq` all that they have in
//!   its directory. Both apply before the members of this layer, wherever they are in the archive.
//! - The directory above a member may be a symbolic link, of this layer or of a lower one. It is
//!   resolved here, within the package, so the tree has the real path.
//! - A directory above a member that is no member itself has the attributes of the lower layer, or
//!   those of [`Attributes::implied`](crate::tree::Attributes::implied).
//! - A hard link to a file of a lower layer copies that file's entry into this layer, as overlay
//!   mounts do.
//! - Not kept: the attributes of the root, `security.selinux`, and the extended attributes of
//!   overlay mounts.

mod apply;
mod header;
mod lower;
mod pax;
mod read;
mod scan;
mod sparse;

use std::io::{self, Read};

use crate::chunk::{ChunkSink, Contents};
use crate::limits::{Budget, LimitError, PackageLimits};
use crate::tree::path::Printed;
use crate::tree::{PathError, Tree};

pub use lower::Lower;
pub(crate) use read::{BUFFER_BYTES, Member, Skip, members};
pub(crate) use scan::{Link, Visited, scan};

/// A layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The stream could not be read.
    #[error("cannot read the layer at byte {offset} of its archive: {source}")]
    Read {
        /// The offset in the archive, in bytes.
        offset: u64,
        /// The error of the stream.
        source: io::Error,
    },
    /// The stream is not a valid archive.
    #[error("the layer is not a valid tar archive at byte {offset}: {why}")]
    Tar {
        /// The offset in the archive, in bytes.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// A member cannot be in a package.
    #[error("'{}' of the layer cannot be in a package: {why}", Printed(.path))]
    Member {
        /// The path in the archive.
        path: Vec<u8>,
        /// Why.
        why: String,
    },
    /// A path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The contents of a file could not be read or kept.
    #[error("cannot read or keep the contents of '{}' of the layer: {source}", Printed(.path))]
    Contents {
        /// The path in the archive.
        path: Vec<u8>,
        /// The error of the stream or of the sink.
        source: io::Error,
    },
    /// The layer is too large.
    #[error("the layer is too large: {0}")]
    Limit(#[from] LimitError),
}

/// Reads an uncompressed archive on top of lower layers. Bytes after the end of the archive are
/// not read.
///
/// # Errors
/// The first member that is not valid, or an error of the stream or of the sink. Some chunks may
/// have been kept.
pub fn read(
    archive: &mut dyn Read,
    sink: &mut dyn ChunkSink,
    limits: &PackageLimits,
    lower: &Lower,
) -> Result<Tree, LayerError> {
    let mut contents = Contents::new(sink);
    let members = members(archive, &mut contents, &mut Budget::new(limits))?;
    tree(members, lower)
}

/// Makes the tree of members in the order of the archive.
pub(crate) fn tree(members: Vec<Member>, lower: &Lower) -> Result<Tree, LayerError> {
    apply::apply(members, lower)
}
