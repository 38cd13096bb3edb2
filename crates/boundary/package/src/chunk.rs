//! Chunks: digests, the cutter that divides content into them, where they go to and come from.
//!
//! Content is cut where a rolling hash of the last 64 bytes has a pattern, so that what is inserted
//! into a file changes only the chunks around it (`FastCDC` with normalised chunk sizes). Where the
//! cuts are is part of the format: the same bytes must be the same chunks everywhere, or packages
//! would share nothing. [`cut`] must never change.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::LazyLock;

use model::Digest;
use thiserror::Error;

/// The shortest chunk of a file that has another chunk behind it, in bytes.
pub const MIN_CUT_BYTES: usize = 16 * 1024;
/// The length of chunks that the cutter aims at, in bytes.
pub const AVERAGE_CUT_BYTES: usize = 64 * 1024;
/// The longest chunk that the cutter makes, in bytes.
pub const MAX_CUT_BYTES: usize = 256 * 1024;
/// The longest chunk that there may be, in bytes: manifests are one chunk each.
pub const MAX_CHUNK_BYTES: usize = 16 * 1024 * 1024;

/// What the gear table is derived from, with the index of the element behind it.
const GEAR_SEED: &[u8] = b"bourg package gear table, version 1: ";
/// Cuts in front of the average length need 18 zero bits: four times as rare as on average.
const STRICT_MASK: u64 = !0 << (64 - 18);
/// Cuts behind it need 14: four times as frequent.
const LOOSE_MASK: u64 = !0 << (64 - 14);
/// How many bytes a [`Chunker`] holds at most.
const BUFFER_BYTES: usize = 4 * MAX_CUT_BYTES;

/// A random number for each value of a byte.
static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut index = 0_u8;
    std::array::from_fn(|_| {
        let digest = blake3::Hasher::new().update(GEAR_SEED).update(&[index]).finalize();
        index = index.wrapping_add(1);
        let bytes = digest.as_bytes();
        u64::from_le_bytes(std::array::from_fn(|i| bytes[i]))
    })
});

/// The digest of some bytes.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// A chunk by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkRef {
    /// The digest of its bytes.
    pub digest: Digest,
    /// How many bytes it has: 1 to [`MAX_CHUNK_BYTES`]. 0 if that is not known.
    pub length: u32,
}

impl ChunkRef {
    /// A chunk of which only the digest is known, as it is with manifests.
    #[must_use]
    pub fn of_unknown_length(digest: Digest) -> Self {
        Self { digest, length: 0 }
    }
}

/// Where chunks go to.
pub trait ChunkSink {
    /// Takes a chunk: 1 to [`MAX_CHUNK_BYTES`] bytes with their digest. The same chunk may come more
    /// than once.
    ///
    /// # Errors
    ///
    /// The chunk cannot be kept.
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()>;
}

/// Where chunks come from.
pub trait ChunkSource {
    /// Replaces the content of `into` by the bytes of a chunk. Who calls checks digest and length,
    /// of which a source may make use: a length of 0 says that it is not known.
    ///
    /// # Errors
    ///
    /// The chunk is missing ([`io::ErrorKind::NotFound`]) or cannot be read.
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()>;
}

/// A chunk that was asked for did not come as it should be.
#[derive(Debug, Error)]
pub enum ChunkError {
    /// The source could not give it.
    #[error("chunk {digest} cannot be read: {source}")]
    Unreadable {
        /// The chunk that was asked for.
        digest: Digest,
        /// What the source says.
        source: io::Error,
    },
    /// It has another length than the tree or the manifest says.
    #[error("chunk {digest} has {found} bytes, but should have {expected}")]
    Length {
        /// The chunk that was asked for.
        digest: Digest,
        /// In bytes; 0: any up to [`MAX_CHUNK_BYTES`].
        expected: u32,
        /// In bytes.
        found: usize,
    },
    /// Its bytes are not those that were put.
    #[error("chunk {digest} is damaged: its bytes have the digest {found}")]
    Damaged {
        /// The chunk that was asked for.
        digest: Digest,
        /// The digest of what came.
        found: Digest,
    },
}

/// Gets a chunk, and checks that it is the one that was asked for.
///
/// # Errors
///
/// It cannot be read, or its length or digest differs.
pub fn fetch(
    source: &mut dyn ChunkSource,
    chunk: &ChunkRef,
    into: &mut Vec<u8>,
) -> Result<(), ChunkError> {
    let digest = chunk.digest;
    source.get(chunk, into).map_err(|source| ChunkError::Unreadable { digest, source })?;
    let right = match chunk.length {
        0 => (1..=MAX_CHUNK_BYTES).contains(&into.len()),
        length => u32::try_from(into.len()) == Ok(length),
    };
    if !right {
        return Err(ChunkError::Length { digest, expected: chunk.length, found: into.len() });
    }
    match digest_of(into) {
        found if found == digest => Ok(()),
        found => Err(ChunkError::Damaged { digest, found }),
    }
}

/// How many of these bytes are the next chunk, if there are more behind them than are given: give
/// at least [`MAX_CUT_BYTES`], or all that is left.
#[must_use]
pub fn cut(bytes: &[u8]) -> usize {
    let gear = &*GEAR;
    let end = bytes.len().min(MAX_CUT_BYTES);
    let average = end.min(AVERAGE_CUT_BYTES);
    let mut hash = 0_u64;
    let zones = [(MIN_CUT_BYTES.min(end), average, STRICT_MASK), (average, end, LOOSE_MASK)];
    for (from, to, mask) in zones {
        for (at, byte) in (from..to).zip(&bytes[from.min(to)..to]) {
            hash = (hash << 1).wrapping_add(gear[usize::from(*byte)]);
            if hash & mask == 0 {
                return at + 1;
            }
        }
    }
    end
}

/// Cuts a stream of bytes into chunks.
#[derive(Debug, Default)]
pub struct Chunker {
    buffer: Vec<u8>,
    /// Where in the buffer the bytes begin that are in no chunk yet.
    start: usize,
    chunks: Vec<ChunkRef>,
}

impl Chunker {
    /// At the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes to the stream, and gives the chunks that are complete to the sink.
    ///
    /// # Errors
    ///
    /// Those of the sink, after which the stream is of no use.
    pub fn push(&mut self, mut bytes: &[u8], sink: &mut dyn ChunkSink) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = BUFFER_BYTES - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            self.emit(MAX_CUT_BYTES, sink)?;
        }
        Ok(())
    }

    /// Adds everything that can be read from a file. Returns how many bytes that was.
    ///
    /// # Errors
    ///
    /// Those of the reader and of the sink, after which the stream is of no use.
    pub fn read(&mut self, from: &mut dyn Read, sink: &mut dyn ChunkSink) -> io::Result<u64> {
        let mut total = 0;
        loop {
            let room = BUFFER_BYTES - self.buffer.len();
            let read = (&mut *from).take(room as u64).read_to_end(&mut self.buffer)?;
            if read == 0 {
                return Ok(total);
            }
            total += read as u64;
            self.emit(MAX_CUT_BYTES, sink)?;
        }
    }

    /// Ends the stream, and gives the last chunk to the sink. Returns all chunks in their order:
    /// none if there were no bytes.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    pub fn finish(mut self, sink: &mut dyn ChunkSink) -> io::Result<Vec<ChunkRef>> {
        self.emit(1, sink)?;
        Ok(self.chunks)
    }

    /// Makes chunks as long as so many bytes are left, and room in the buffer if it is full.
    fn emit(&mut self, at_least: usize, sink: &mut dyn ChunkSink) -> io::Result<()> {
        while self.buffer.len() - self.start >= at_least {
            let rest = &self.buffer[self.start..];
            let chunk = &rest[..cut(rest)];
            let length = u32::try_from(chunk.len()).map_err(io::Error::other)?;
            let digest = digest_of(chunk);
            sink.put(digest, chunk)?;
            self.chunks.push(ChunkRef { digest, length });
            self.start += chunk.len();
        }
        if self.buffer.len() == BUFFER_BYTES {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        Ok(())
    }
}

/// Chunks in memory, for small packages and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryChunks {
    chunks: BTreeMap<Digest, Vec<u8>>,
}

impl MemoryChunks {
    /// No chunks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many different chunks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All digests, sorted, with the bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &[u8])> {
        self.chunks.iter().map(|(digest, bytes)| (digest, bytes.as_slice()))
    }

    /// Removes a chunk. Returns its bytes if it was there.
    pub fn remove(&mut self, digest: &Digest) -> Option<Vec<u8>> {
        self.chunks.remove(digest)
    }
}

impl ChunkSink for MemoryChunks {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        self.chunks.insert(digest, bytes.to_vec());
        Ok(())
    }
}

impl ChunkSource for MemoryChunks {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        let found = self.chunks.get(&chunk.digest).ok_or(io::ErrorKind::NotFound)?;
        into.clear();
        into.extend_from_slice(found);
        Ok(())
    }
}
