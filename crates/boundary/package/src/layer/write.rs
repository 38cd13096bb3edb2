//! The tree of a layer, into chunks.

use std::collections::HashSet;
use std::io;

use model::Digest;
use thiserror::Error;

use crate::chunk::{ChunkRef, ChunkSink, Chunker};
use crate::manifest::Layer;
use crate::tree::{TreeEntry, TreeError, TreeWriter};

/// A tree cannot be written.
#[derive(Debug, Error)]
pub(crate) enum LayerWriteError {
    /// It cannot have an entry.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A chunk cannot be kept.
    #[error(transparent)]
    Sink(#[from] io::Error),
}

/// Writes a tree, and counts what the manifest says of it. What is encoded goes on into chunks at once.
#[derive(Debug)]
pub(crate) struct LayerWriter {
    tree: TreeWriter<Vec<u8>>,
    chunker: Chunker,
    hash: blake3::Hasher,
    /// Those of the files, and at the end those of the tree.
    chunks: HashSet<ChunkRef>,
    unpacked: u64,
}

impl LayerWriter {
    pub(crate) fn new() -> Self {
        Self {
            tree: TreeWriter::new(Vec::new()),
            chunker: Chunker::new(),
            hash: blake3::Hasher::new(),
            chunks: HashSet::new(),
            unpacked: 0,
        }
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        self.tree.entries()
    }

    /// Adds the next entry in the order of paths.
    pub(crate) fn write(
        &mut self,
        entry: &TreeEntry,
        sink: &mut dyn ChunkSink,
    ) -> Result<(), LayerWriteError> {
        self.tree.write(entry)?;
        self.chunks.extend(entry.chunks().copied());
        self.unpacked = self.unpacked.saturating_add(entry.content_bytes());
        let encoded = self.tree.get_mut();
        self.hash.update(encoded);
        let kept = self.chunker.push(encoded, sink);
        encoded.clear();
        Ok(kept?)
    }

    /// Ends the tree.
    pub(crate) fn finish(mut self, sink: &mut dyn ChunkSink) -> io::Result<Layer> {
        let tree = self.chunker.finish(sink)?;
        self.chunks.extend(&tree);
        Ok(Layer {
            tree,
            digest: Digest::from_bytes(*self.hash.finalize().as_bytes()),
            stored: self.chunks.iter().map(|chunk| u64::from(chunk.length)).sum(),
            unpacked: self.unpacked,
            entries: self.tree.entries(),
        })
    }
}
