//! Chunks in memory.

use std::collections::HashMap;
use std::io;

use model::Digest;

use super::{ChunkRef, ChunkSink, ChunkSource};

/// Keeps chunks in memory, without a bound: for tests and small packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryChunks(HashMap<Digest, Vec<u8>>);

impl MemoryChunks {
    /// The number of distinct chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of the lengths of the distinct chunks, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// The bytes of a chunk, to change them.
    pub fn bytes_mut(&mut self, digest: &Digest) -> Option<&mut Vec<u8>> {
        self.0.get_mut(digest)
    }

    /// Removes a chunk, and says whether it was there.
    pub fn remove(&mut self, digest: &Digest) -> bool {
        self.0.remove(digest).is_some()
    }
}

impl ChunkSink for MemoryChunks {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        self.0.entry(digest).or_insert_with(|| bytes.to_vec());
        Ok(())
    }
}

impl ChunkSource for MemoryChunks {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        let bytes = self.0.get(&chunk.digest).ok_or_else(|| {
            let why = format!("chunk {} is missing", chunk.digest);
            io::Error::new(io::ErrorKind::NotFound, why)
        })?;
        into.clear();
        into.extend_from_slice(bytes);
        Ok(())
    }
}
