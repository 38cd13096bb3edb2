//! Chunks: pieces of contents, named by their digest.
//!
//! [`cut`] defines where contents are cut, [`Contents`] cuts the contents of a file, and
//! [`ChunkSink`] and [`ChunkSource`] are what a caller provides to keep chunks and to get them
//! back. [`MemoryChunks`] and [`DirectoryChunks`] are the two plain implementations.

mod contents;
pub mod cut;
mod directory;
mod memory;

use std::io;

use model::Digest;

pub use contents::{Contents, HOLE_BYTES};
pub use directory::DirectoryChunks;
pub use memory::MemoryChunks;

/// A chunk: its digest and its length. The length is from 1 to [`cut::BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkRef {
    /// The BLAKE3 digest of the bytes.
    pub digest: Digest,
    /// The length in bytes.
    pub bytes: u32,
}

impl ChunkRef {
    /// Names these bytes.
    ///
    /// # Panics
    /// If they are more than 4 GiB, which no chunk is.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("a chunk is at most 256 KiB");
        Self { digest: digest_of(bytes), bytes: length }
    }

    /// Whether these are the bytes.
    #[must_use]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.length() && digest_of(bytes) == self.digest
    }

    /// The length in bytes, as the length of a slice.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes as usize
    }
}

/// The BLAKE3 digest of some bytes.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// Consecutive bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The bytes of a chunk.
    Chunk(ChunkRef),
    /// So many zeros, which are not stored: more than 0, and no hole follows another.
    Hole(u64),
}

impl Segment {
    /// The length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Chunk(chunk) => u64::from(chunk.bytes),
            Self::Hole(bytes) => *bytes,
        }
    }
}

/// Where chunks are kept.
pub trait ChunkSink {
    /// Keeps a chunk. The digest is the one of the bytes. The same chunk is given as often as it
    /// occurs.
    ///
    /// # Errors
    /// If it could not be kept. The operation that cut the chunk ends with this error.
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()>;
}

/// Where chunks come from. Callers in this crate compare the digest of each chunk.
pub trait ChunkSource {
    /// Replaces the contents of `into` by the bytes of a chunk.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] without the chunk, and others if it could not be read.
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()>;
}

impl<S: ChunkSink + ?Sized> ChunkSink for &mut S {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        (**self).put(digest, bytes)
    }
}

impl<S: ChunkSource + ?Sized> ChunkSource for &mut S {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        (**self).get(chunk, into)
    }
}

/// Gets a chunk and compares its digest.
///
/// # Errors
/// That of the source; [`io::ErrorKind::InvalidData`] if these are not the bytes of the chunk.
pub fn fetch<S: ChunkSource + ?Sized>(
    source: &mut S,
    chunk: &ChunkRef,
    into: &mut Vec<u8>,
) -> io::Result<()> {
    source.get(chunk, into)?;
    if chunk.is_of(into) {
        return Ok(());
    }
    let (digest, expected) = (digest_of(into), chunk.bytes);
    let why = format!(
        "chunk {} is damaged: expected {expected} bytes, found {} with digest {digest}; remove \
         this copy of the chunk and get another one",
        chunk.digest,
        into.len()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}
