//! The tree of a layer, out of its chunks, checked against what the manifest says.

use std::cell::RefCell;
use std::io::{self, Read};

use model::Digest;
use thiserror::Error;

use crate::chunk::{self, ChunkError, ChunkRef, ChunkSource};
use crate::manifest::Layer;
use crate::tree::{TreeEntry, TreeError, TreeReader};
pub(crate) use write::{LayerWriteError, LayerWriter};

mod write;

/// The tree of a layer is not what the manifest says.
#[derive(Debug, Error)]
pub enum LayerError {
    /// It cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The chunks are not those of the tree.
    #[error("the tree has the digest {found}, but should have {expected}")]
    Digest {
        /// What the manifest says.
        expected: Digest,
        /// That of the chunks together.
        found: Digest,
    },
    /// It has more or fewer entries.
    #[error("the tree has {found} entries or more, but should have {expected}")]
    Entries {
        /// What the manifest says.
        expected: u64,
        /// How many were read.
        found: u64,
    },
    /// Its files have more or fewer bytes.
    #[error("the tree's files have {found} bytes or more, but should have {expected}")]
    Unpacked {
        /// What the manifest says.
        expected: u64,
        /// How many there were in what was read.
        found: u64,
    },
}

/// A source of chunks that a tree and the content of its files are read from in turn.
pub(crate) struct Source<'a>(RefCell<&'a mut dyn ChunkSource>);

impl<'a> Source<'a> {
    pub(crate) fn new(source: &'a mut dyn ChunkSource) -> Self {
        Self(RefCell::new(source))
    }

    /// Gets a chunk, and checks it.
    pub(crate) fn fetch(&self, chunk: &ChunkRef, into: &mut Vec<u8>) -> Result<(), ChunkError> {
        chunk::fetch(&mut **self.0.borrow_mut(), chunk, into)
    }
}

/// The encoded tree of a layer.
struct TreeBytes<'s, 'a> {
    source: &'s Source<'a>,
    left: std::slice::Iter<'s, ChunkRef>,
    chunk: Vec<u8>,
    /// How much of the chunk was read.
    at: usize,
    hash: blake3::Hasher,
}

impl Read for TreeBytes<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            let Some(next) = self.left.next() else { return Ok(0) };
            self.source.fetch(next, &mut self.chunk).map_err(|error| match &error {
                ChunkError::Unreadable { source, .. } => io::Error::new(source.kind(), error),
                _ => io::Error::new(io::ErrorKind::InvalidData, error),
            })?;
            self.hash.update(&self.chunk);
            self.at = 0;
        }
        let rest = &self.chunk[self.at..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

/// The entries of a layer.
pub(crate) struct LayerReader<'s, 'a> {
    reader: TreeReader<TreeBytes<'s, 'a>>,
    layer: &'s Layer,
    unpacked: u64,
}

impl<'s, 'a> LayerReader<'s, 'a> {
    pub(crate) fn new(layer: &'s Layer, source: &'s Source<'a>) -> Self {
        let hash = blake3::Hasher::new();
        let left = layer.tree.iter();
        let bytes = TreeBytes { source, left, chunk: Vec::new(), at: 0, hash };
        Self { reader: TreeReader::new(bytes), layer, unpacked: 0 }
    }

    /// How many entries were read, and how many bytes their files have.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.reader.entries(), self.unpacked)
    }

    /// The next entry. There is never more than the layer should have, and none is returned only
    /// once everything is right.
    pub(crate) fn next(&mut self) -> Result<Option<TreeEntry>, LayerError> {
        let Layer { unpacked, entries, digest, .. } = *self.layer;
        let entry = self.reader.next().transpose()?;
        self.unpacked =
            self.unpacked.saturating_add(entry.as_ref().map_or(0, TreeEntry::content_bytes));
        let ended = entry.is_none();
        let wrong = |found, expected| found > expected || (ended && found < expected);
        let (found_entries, found) = self.totals();
        if wrong(found_entries, entries) {
            return Err(LayerError::Entries { expected: entries, found: found_entries });
        }
        if wrong(found, unpacked) {
            return Err(LayerError::Unpacked { expected: unpacked, found });
        }
        if ended {
            let found = self.reader.get_ref().hash.finalize();
            let found = Digest::from_bytes(*found.as_bytes());
            if found != digest {
                return Err(LayerError::Digest { expected: digest, found });
            }
        }
        Ok(entry)
    }
}
