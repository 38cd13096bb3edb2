//! Cuts the contents of a file into segments.

use std::io::{self, Read};

use super::{ChunkRef, ChunkSink, Segment, cut};

/// The length and the alignment of the zeros that become a hole: 64 KiB.
///
/// Contents alone determine the holes: each aligned block of zeros is in one, whether or not the
/// file was sparse where it came from. So a copy of a file has the same digest, and it does not
/// depend on the blocks of a file system.
pub const HOLE_BYTES: usize = 64 << 10;

/// The bytes that are read at once: a multiple of [`HOLE_BYTES`].
const READ_BYTES: usize = 1 << 20;

/// What is kept from one read to the next: less than a chunk and less than a block.
const KEPT_BYTES: usize = cut::BYTES_MAX + HOLE_BYTES;

/// Cuts the contents of one file after the other, with one buffer.
///
/// Write the contents ([`Contents::read`], [`Contents::hole`]), then take their segments
/// ([`Contents::finish`]). After an error [`Contents::finish`] must not be called.
pub struct Contents<'a> {
    sink: &'a mut dyn ChunkSink,
    buffer: Box<[u8]>,
    /// The bytes in the buffer.
    used: usize,
    /// The bytes at the front of the buffer that are no hole.
    data: usize,
    /// The bytes that were written since the last aligned block of the file.
    position: u64,
    /// Whether zeros become holes.
    holes: bool,
    segments: Vec<Segment>,
}

impl<'a> Contents<'a> {
    /// Puts all chunks into `sink`.
    pub fn new(sink: &'a mut dyn ChunkSink) -> Self {
        let buffer = vec![0; READ_BYTES + KEPT_BYTES].into_boxed_slice();
        let segments = Vec::new();
        Self { sink, buffer, used: 0, data: 0, position: 0, holes: true, segments }
    }

    /// The same for contents whose zeros stay in chunks, such as an encoded tree.
    pub fn without_holes(sink: &'a mut dyn ChunkSink) -> Self {
        Self { holes: false, ..Self::new(sink) }
    }

    /// Reads exactly `bytes` bytes from `reader`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if there are fewer; those of the reader and of the sink.
    pub fn read(&mut self, reader: &mut dyn Read, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let room = &mut self.buffer[self.used..];
            let wanted = usize::try_from(left).map_or(room.len(), |left| left.min(room.len()));
            let read = match reader.read(&mut room[..wanted]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            left -= read as u64;
            self.advance(read)?;
        }
        Ok(())
    }

    /// Adds zeros, as if they had been read.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn hole(&mut self, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        let block = HOLE_BYTES as u64;
        left -= self.zeros(left.min((block - self.position) % block))?;
        let whole = left - left % block;
        if whole > 0 {
            // The end of the buffer is the end of a block now.
            self.scan_holes()?;
            self.put(self.data)?;
            self.shift(self.data);
            self.push_hole(whole);
            left -= whole;
        }
        self.zeros(left)?;
        Ok(())
    }

    /// The segments of all that was written since the last call.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(&mut self) -> io::Result<Vec<Segment>> {
        self.scan_holes()?;
        self.data = self.used;
        self.put(self.data)?;
        (self.used, self.data, self.position) = (0, 0, 0);
        Ok(std::mem::take(&mut self.segments))
    }

    /// Forgets what was written since the last [`Contents::finish`].
    pub fn discard(&mut self) {
        (self.used, self.data, self.position) = (0, 0, 0);
        self.segments.clear();
    }

    /// Writes less than a block of zeros, and returns how many.
    fn zeros(&mut self, bytes: u64) -> io::Result<u64> {
        self.read(&mut io::repeat(0), bytes)?;
        Ok(bytes)
    }

    /// Counts bytes that are in the buffer, and makes room in it.
    fn advance(&mut self, read: usize) -> io::Result<()> {
        self.used += read;
        self.position = (self.position + read as u64) % HOLE_BYTES as u64;
        if self.used < self.buffer.len() {
            return Ok(());
        }
        self.scan_holes()?;
        let mut begin = 0;
        while self.data - begin >= cut::BYTES_MAX {
            begin += self.put_first(begin, self.data)?;
        }
        self.shift(begin);
        Ok(())
    }

    /// Finds holes among the whole blocks at the end of the buffer, and cuts what precedes them.
    fn scan_holes(&mut self) -> io::Result<()> {
        while self.used - self.data >= HOLE_BYTES {
            self.scan();
            if self.used - self.data >= HOLE_BYTES {
                self.put(self.data)?;
                self.push_hole(HOLE_BYTES as u64);
                self.shift(self.data + HOLE_BYTES);
            }
        }
        Ok(())
    }

    /// Goes on to the next block of zeros, or to the last whole block.
    fn scan(&mut self) {
        let blocks = self.buffer[self.data..self.used].chunks_exact(HOLE_BYTES);
        let data = blocks.take_while(|block| !self.holes || !is_zero(block)).count();
        self.data += data * HOLE_BYTES;
    }

    /// Cuts the first `end` bytes of the buffer, after which there is a hole or the end.
    fn put(&mut self, end: usize) -> io::Result<()> {
        let mut begin = 0;
        while begin < end {
            begin += self.put_first(begin, end)?;
        }
        Ok(())
    }

    fn put_first(&mut self, begin: usize, end: usize) -> io::Result<usize> {
        let length = cut::first(&self.buffer[begin..end]);
        let bytes = &self.buffer[begin..begin + length];
        let chunk = ChunkRef::of(bytes);
        self.sink.put(chunk.digest, bytes)?;
        self.segments.push(Segment::Chunk(chunk));
        Ok(length)
    }

    /// Drops the first bytes of the buffer.
    fn shift(&mut self, begin: usize) {
        self.buffer.copy_within(begin..self.used, 0);
        self.used -= begin;
        self.data = self.data.saturating_sub(begin);
    }

    fn push_hole(&mut self, bytes: u64) {
        match self.segments.last_mut() {
            Some(Segment::Hole(before)) => *before += bytes,
            _ => self.segments.push(Segment::Hole(bytes)),
        }
    }
}

/// Whether all bytes of a block are 0. Most blocks of data are rejected by their first bytes.
fn is_zero(block: &[u8]) -> bool {
    block.chunks(32).all(|part| part.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{ChunkSource, MemoryChunks};

    /// The contents that the segments stand for.
    fn joined(segments: &[Segment], chunks: &mut MemoryChunks) -> Vec<u8> {
        let (mut all, mut one) = (Vec::new(), Vec::new());
        for segment in segments {
            match segment {
                Segment::Chunk(chunk) => {
                    chunks.get(chunk, &mut one).unwrap();
                    all.extend_from_slice(&one);
                }
                Segment::Hole(bytes) => all.resize(all.len() + usize::try_from(*bytes).unwrap(), 0),
            }
        }
        all
    }

    #[test]
    fn segments_depend_on_the_contents_alone() {
        let mut noise = vec![0; 5 << 20];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let block = HOLE_BYTES;
        // Lengths of alternating data and zeros, and the number of holes.
        let table: &[(&[usize], usize)] = &[
            (&[], 0),
            (&[1], 0),
            (&[3 << 20], 0),
            (&[0, block], 1),
            (&[0, block - 1], 0),
            (&[1, block * 2 - 2], 0),
            (&[1, block * 2 - 1], 1),
            (&[block, block, block], 1),
            (&[1 << 20, 1 << 20, 5, 1 << 20], 2),
            (&[(1 << 20) + 5, 3 << 20, (2 << 20) + 77, 100, 1], 1),
            (&[KEPT_BYTES + READ_BYTES, block, KEPT_BYTES + READ_BYTES + 1], 1),
        ];
        for (lengths, holes) in table {
            let mut whole = Vec::new();
            for (index, length) in lengths.iter().enumerate() {
                let zeros = vec![0; *length];
                whole.extend_from_slice(if index % 2 == 0 { &noise[..*length] } else { &zeros });
            }
            let mut chunks = MemoryChunks::default();
            let mut contents = Contents::new(&mut chunks);
            contents.read(&mut &whole[..], whole.len() as u64).unwrap();
            let dense = contents.finish().unwrap();
            for (index, length) in lengths.iter().enumerate() {
                if index % 2 == 0 {
                    // In small reads, too.
                    for part in noise[..*length].chunks(70_001) {
                        contents.read(&mut &part[..], part.len() as u64).unwrap();
                    }
                } else {
                    contents.hole(*length as u64).unwrap();
                }
            }
            let sparse = contents.finish().unwrap();
            assert_eq!(dense, sparse, "{lengths:?}");
            let is_hole = |segment: &&Segment| matches!(segment, Segment::Hole(_));
            assert_eq!(dense.iter().filter(is_hole).count(), *holes, "{lengths:?}");
            assert!(joined(&dense, &mut chunks) == whole, "{lengths:?}");
        }
    }

    #[test]
    fn contents_that_end_early_are_an_error() {
        let mut chunks = MemoryChunks::default();
        let mut contents = Contents::new(&mut chunks);
        let error = contents.read(&mut &[1, 2][..], 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
