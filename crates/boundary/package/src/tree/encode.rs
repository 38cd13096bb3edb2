//! Encodes a tree and cuts the encoding into chunks.

use std::collections::HashSet;
use std::io;

use model::{Bytes, Digest};
use prost::Message as _;

use super::check::Checker;
use super::wire::to_wire;
use super::{ENTRY_BYTES_MAX, EntryPath, Layer, Tree};
use crate::chunk::{ChunkRef, ChunkSink, Contents, Segment};

/// A tree cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// An entry breaks a rule of trees.
    #[error("the entry '{path}' cannot be in a package: {why}")]
    TreeEntry {
        /// The path of the entry.
        path: EntryPath,
        /// The rule.
        why: &'static str,
    },
    /// A chunk of the encoding could not be kept.
    #[error("cannot keep a chunk of the tree: {0}")]
    Sink(#[from] io::Error),
}

/// Encodes a tree, puts the chunks of the encoding into `sink`, and describes the layer.
///
/// # Errors
/// The first entry that breaks a rule of trees, and errors of the sink. Some chunks may have been
/// kept.
pub fn encode(tree: &Tree, sink: &mut dyn ChunkSink) -> Result<Layer, EncodeError> {
    let mut checker = Checker::default();
    let mut contents = Contents::without_holes(sink);
    let mut hasher = blake3::Hasher::new();
    let mut stored: HashSet<ChunkRef> = HashSet::new();
    let (mut encoded, mut unpacked) = (Vec::new(), 0_u64);
    for entry in &tree.entries {
        let fault = |why| EncodeError::TreeEntry { path: entry.path.clone(), why };
        checker.next(entry).map_err(fault)?;
        let message = to_wire(entry);
        if message.encoded_len() > ENTRY_BYTES_MAX {
            return Err(fault("the file has too many chunks: 64 MiB of them"));
        }
        encoded.clear();
        // A vector grows as needed, which is the only error of encoding.
        message.encode_length_delimited(&mut encoded).map_err(io::Error::other)?;
        hasher.update(&encoded);
        contents.read(&mut &encoded[..], encoded.len() as u64)?;
        stored.extend(chunks_of(entry.segments()));
        unpacked = unpacked.saturating_add(entry.bytes_unpacked());
    }
    let chunks: Vec<ChunkRef> = chunks_of(&contents.finish()?).collect();
    stored.extend(&chunks);
    Ok(Layer {
        digest: Digest::from_bytes(*hasher.finalize().as_bytes()),
        chunks,
        bytes_stored: Bytes(stored.iter().map(|chunk| u64::from(chunk.bytes)).sum()),
        bytes_unpacked: Bytes(unpacked),
        entries: tree.entries.len() as u64,
    })
}

/// The chunks among segments.
pub(crate) fn chunks_of(segments: &[Segment]) -> impl Iterator<Item = ChunkRef> + '_ {
    segments.iter().filter_map(|segment| match segment {
        Segment::Chunk(chunk) => Some(*chunk),
        Segment::Hole(_) => None,
    })
}
