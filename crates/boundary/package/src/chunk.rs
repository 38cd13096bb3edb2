//! Chunks: pieces of files by the digest of their bytes.
//!
//! Where a file is cut depends on its content alone (content-defined chunking: Muthitacharoen et al., "A low-bandwidth
//! network file system", 2001; the rolling sum is that of FastCDC: Xia et al., 2016). So an insertion changes the chunks
//! around it and no others. Where cuts are must never change: packages that were built before would share nothing with
//! those built later.

use std::collections::HashMap;
use std::io::{self, Read};

use model::Digest;

/// The minimum length of a chunk that does not end a file, in bytes.
pub const CHUNK_MIN: usize = 16 << 10;
/// The maximum length of a chunk, in bytes.
pub const CHUNK_MAX: usize = 256 << 10;
/// A cut is where this many bits of the rolling sum are zero: after the minimum, one byte in 2^16 on average.
const MASK: u64 = 0xffff_0000_0000_0000;

/// A chunk: its digest, and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkRef {
    /// The digest of its bytes.
    pub digest: Digest,
    /// Their number, at least 1.
    pub length: u32,
}

/// The digest of some bytes.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// What takes the chunks of a package that is made.
pub trait ChunkSink {
    /// Takes a chunk. The same chunk may come more than once.
    ///
    /// # Errors
    /// When it cannot be taken; then making the package fails.
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()>;
}

/// What gives the chunks of a package that is read.
pub trait ChunkSource {
    /// Replaces `into` by the bytes of a chunk. The caller checks their digest.
    ///
    /// # Errors
    /// When it has no such chunk.
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()>;
}

/// Chunks in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryChunks(pub HashMap<Digest, Vec<u8>>);

impl ChunkSink for MemoryChunks {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        self.0.entry(digest).or_insert_with(|| bytes.to_vec());
        Ok(())
    }
}

impl ChunkSource for MemoryChunks {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the chunk is missing");
        self.0.get(&chunk.digest).ok_or_else(missing)?.clone_into(into);
        Ok(())
    }
}

/// Reads a chunk and checks it.
pub(crate) fn checked(
    source: &mut dyn ChunkSource,
    chunk: &ChunkRef,
    into: &mut Vec<u8>,
) -> io::Result<()> {
    source.get(chunk, into)?;
    if into.len() == chunk.length as usize && digest_of(into) == chunk.digest {
        return Ok(());
    }
    let why = format!("chunk {} has other bytes than its digest says", chunk.digest);
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Cuts a stream into chunks.
#[derive(Debug)]
pub struct Chunker {
    gear: [u64; 256],
    buffer: Vec<u8>,
}

impl Default for Chunker {
    fn default() -> Self {
        Self { gear: gear(), buffer: Vec::new() }
    }
}

/// A number for each byte, for the rolling sum: those of the digest of a fixed text and the byte.
fn gear() -> [u64; 256] {
    let mut gear = [0; 256];
    for (number, byte) in gear.iter_mut().zip(0_u8..=255) {
        let digest = blake3::hash(&[b"bourg gear ".as_slice(), &[byte]].concat());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest.as_bytes()[..8]);
        *number = u64::from_be_bytes(bytes);
    }
    gear
}

impl Chunker {
    /// Reads a stream to its end and gives each chunk to the sink and to `each`. Returns the number of bytes.
    ///
    /// # Errors
    /// Those of the stream and of the sink.
    pub fn cut(
        &mut self,
        stream: &mut dyn Read,
        sink: &mut dyn ChunkSink,
        each: &mut dyn FnMut(ChunkRef),
    ) -> io::Result<u64> {
        let mut total = 0;
        self.buffer.clear();
        loop {
            let more = (2 * CHUNK_MAX - self.buffer.len()) as u64;
            let at_end = stream.take(more).read_to_end(&mut self.buffer)? < more as usize;
            let mut from = 0;
            // All that is there is cut only at the end: before, a whole chunk has to be in sight.
            while self.buffer.len() - from >= if at_end { 1 } else { CHUNK_MAX } {
                let length = self.length(&self.buffer[from..]);
                let bytes = &self.buffer[from..from + length];
                let digest = digest_of(bytes);
                sink.put(digest, bytes)?;
                // A chunk has at most 256 KiB.
                each(ChunkRef { digest, length: length as u32 });
                (from, total) = (from + length, total + length as u64);
            }
            self.buffer.drain(..from);
            if at_end {
                return Ok(total);
            }
        }
    }

    /// The length of the first chunk.
    fn length(&self, bytes: &[u8]) -> usize {
        let most = bytes.len().min(CHUNK_MAX);
        let mut sum = 0_u64;
        for (at, byte) in bytes.iter().enumerate().take(most).skip(CHUNK_MIN) {
            sum = (sum << 1).wrapping_add(self.gear[usize::from(*byte)]);
            if sum & MASK == 0 {
                return at + 1;
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that look random and are the same everywhere.
    fn bytes(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(b"bytes").finalize_xof().fill(&mut bytes);
        bytes
    }

    fn cuts(bytes: &[u8]) -> Vec<ChunkRef> {
        let (mut chunks, mut sink) = (Vec::new(), MemoryChunks::default());
        let cut = Chunker::default().cut(&mut &*bytes, &mut sink, &mut |chunk| chunks.push(chunk));
        assert_eq!(cut.expect("it is in memory"), bytes.len() as u64);
        let mut again = Vec::new();
        for chunk in &chunks {
            let mut one = Vec::new();
            checked(&mut sink, chunk, &mut one).expect("it was put");
            again.extend(one);
        }
        assert_eq!(again, bytes);
        chunks
    }

    #[test]
    fn cuts_are_where_they_always_were() {
        let lengths: Vec<u32> = cuts(&bytes(1 << 20)).iter().map(|chunk| chunk.length).collect();
        assert_eq!(lengths, [0]);
    }

    #[test]
    fn lengths_are_within_their_bounds() {
        for length in [0, 1, CHUNK_MIN, CHUNK_MIN + 1, CHUNK_MAX, CHUNK_MAX + 1, 3 << 20] {
            let chunks = cuts(&bytes(length));
            let Some((last, others)) = chunks.split_last() else {
                assert_eq!(length, 0);
                continue;
            };
            assert!(
                others.iter().all(|it| (CHUNK_MIN..=CHUNK_MAX).contains(&(it.length as usize)))
            );
            assert!(last.length > 0 && last.length as usize <= CHUNK_MAX);
        }
        // Where no cut is found.
        assert!(cuts(&vec![7; 1 << 20]).iter().all(|chunk| chunk.length as usize == CHUNK_MAX));
    }

    #[test]
    fn an_insertion_changes_few_chunks() {
        let before = bytes(4 << 20);
        let mut after = before.clone();
        after.splice((2 << 20)..(2 << 20), [1, 2, 3]);
        let (before, after) = (cuts(&before), cuts(&after));
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!(new <= 2, "{new} of {}", after.len());
    }

    #[test]
    fn wrong_bytes_are_found_out() {
        let chunk = ChunkRef { digest: digest_of(b"right"), length: 5 };
        let mut chunks = MemoryChunks([(chunk.digest, b"wrong".to_vec())].into());
        let error = checked(&mut chunks, &chunk, &mut Vec::new()).expect_err("wrong");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
