//! The content of files, cut into segments: chunks, and holes where there are zeros.
//!
//! Content alone determines the segments: it is cut ([`cut`]), and a chunk of zeros of at least
//! [`MIN_CUT_BYTES`] is a hole. So a sparse file and its copy without holes are the same, and so are a
//! file of a directory and one of an image.

use std::collections::HashSet;
use std::io::{self, Read};

use model::Digest;

use crate::chunk::{ChunkRef, ChunkSink, MAX_CUT_BYTES, MIN_CUT_BYTES, cut, digest_of};
use crate::tree::Segment;

/// How many bytes are held at most: what is read at once, and less than a chunk from before.
const BUFFER_BYTES: usize = 1024 * 1024 + MAX_CUT_BYTES;

/// Content cannot be cut.
#[derive(Debug)]
pub(crate) enum ContentError {
    /// It cannot be read.
    Read(io::Error),
    /// A chunk cannot be kept.
    Sink(io::Error),
}

/// Cuts the content of one file after the other, with one buffer. After an error it is of no use.
#[derive(Debug)]
pub(crate) struct Contents {
    buffer: Box<[u8]>,
    /// What is in no segment yet.
    start: usize,
    end: usize,
    segments: Vec<Segment>,
}

impl Contents {
    pub(crate) fn new() -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { buffer, start: 0, end: 0, segments: Vec::new() }
    }

    /// Adds exactly so many bytes of a reader. Fewer are an error of the kind
    /// [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read(
        &mut self,
        from: &mut dyn Read,
        bytes: u64,
        sink: &mut dyn ChunkSink,
    ) -> Result<(), ContentError> {
        let mut left = bytes;
        while left > 0 {
            self.make_room(sink)?;
            let room = &mut self.buffer[self.end..];
            let wanted = usize::try_from(left).map_or(room.len(), |left| left.min(room.len()));
            let read = match from.read(&mut room[..wanted]) {
                Ok(0) => return Err(ContentError::Read(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ContentError::Read(error)),
            };
            self.end += read;
            left -= read as u64;
        }
        Ok(())
    }

    /// Adds zeros, as if they had been read, in a time that does not depend on how many they are.
    pub(crate) fn hole(
        &mut self,
        bytes: u64,
        sink: &mut dyn ChunkSink,
    ) -> Result<(), ContentError> {
        const CHUNK: u64 = MAX_CUT_BYTES as u64;
        let first = bytes.min(CHUNK);
        self.read(&mut io::repeat(0), first, sink)?;
        self.emit(MAX_CUT_BYTES, sink)?;
        // If there are more, then all that is left in the buffer are zeros, and so are the next chunks:
        // nothing in zeros is a cut before the longest chunk.
        let rest = bytes - first;
        if rest >= CHUNK {
            self.push_hole(rest - rest % CHUNK);
        }
        self.read(&mut io::repeat(0), rest % CHUNK, sink)
    }

    /// The segments of all that was added since the last call.
    pub(crate) fn finish(
        &mut self,
        sink: &mut dyn ChunkSink,
    ) -> Result<Vec<Segment>, ContentError> {
        self.emit(1, sink)?;
        (self.start, self.end) = (0, 0);
        Ok(std::mem::take(&mut self.segments))
    }

    /// Cuts what is in the buffer, if it is full.
    fn make_room(&mut self, sink: &mut dyn ChunkSink) -> Result<(), ContentError> {
        if self.end < self.buffer.len() {
            return Ok(());
        }
        self.emit(MAX_CUT_BYTES, sink)?;
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        Ok(())
    }

    /// Makes segments as long as so many bytes are left.
    fn emit(&mut self, at_least: usize, sink: &mut dyn ChunkSink) -> Result<(), ContentError> {
        while self.end - self.start >= at_least {
            let rest = &self.buffer[self.start..self.end];
            let chunk = &rest[..cut(rest)];
            // A chunk is not longer than `MAX_CUT_BYTES`.
            let length = chunk.len() as u64;
            self.start += chunk.len();
            if chunk.len() >= MIN_CUT_BYTES && chunk.iter().all(|byte| *byte == 0) {
                self.push_hole(length);
                continue;
            }
            let digest = digest_of(chunk);
            sink.put(digest, chunk).map_err(ContentError::Sink)?;
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            self.segments.push(Segment::Chunk(ChunkRef { digest, length }));
        }
        Ok(())
    }

    fn push_hole(&mut self, added: u64) {
        match self.segments.last_mut() {
            Some(Segment::Hole { length }) => *length += added,
            _ => self.segments.push(Segment::Hole { length: added }),
        }
    }
}

/// Gives chunks on, each once.
pub(crate) struct OnceSink<'a> {
    sink: &'a mut dyn ChunkSink,
    known: HashSet<Digest>,
}

impl<'a> OnceSink<'a> {
    pub(crate) fn new(sink: &'a mut dyn ChunkSink) -> Self {
        Self { sink, known: HashSet::new() }
    }
}

impl ChunkSink for OnceSink<'_> {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        if self.known.insert(digest) {
            self.sink.put(digest, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{ChunkSource as _, MemoryChunks};

    /// The content that the segments stand for.
    fn joined(segments: &[Segment], chunks: &mut MemoryChunks) -> Vec<u8> {
        let (mut all, mut one) = (Vec::new(), Vec::new());
        for segment in segments {
            match segment {
                Segment::Chunk(chunk) => {
                    chunks.get(chunk, &mut one).unwrap();
                    all.extend_from_slice(&one);
                }
                Segment::Hole { length } => {
                    all.resize(all.len() + usize::try_from(*length).unwrap(), 0);
                }
            }
        }
        all
    }

    #[test]
    fn zeros_are_cut_at_the_longest_chunk() {
        assert_eq!(cut(&vec![0; MAX_CUT_BYTES + 1]), MAX_CUT_BYTES);
    }

    #[test]
    fn segments_depend_on_the_content_alone() {
        let mut noise = vec![0; 5 << 20];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        // Lengths of alternating data and zeros.
        let table: &[&[usize]] = &[
            &[],
            &[1],
            &[3 << 20],
            &[0, MIN_CUT_BYTES],
            &[0, MIN_CUT_BYTES - 1],
            &[1, MAX_CUT_BYTES],
            &[1, 3 * MAX_CUT_BYTES + 7],
            &[70_000, 70_000, 70_000],
            &[1 << 20, 1 << 20, 5, 1 << 20],
            &[(1 << 20) + 5, 3 << 20, (2 << 20) + 77, 100, 1],
            &[BUFFER_BYTES, 1, BUFFER_BYTES + 1],
        ];
        for lengths in table {
            let mut whole = Vec::new();
            for (index, length) in lengths.iter().enumerate() {
                let zeros = vec![0; *length];
                whole.extend_from_slice(if index % 2 == 0 { &noise[..*length] } else { &zeros });
            }
            let mut chunks = MemoryChunks::new();
            let mut contents = Contents::new();
            contents.read(&mut &whole[..], whole.len() as u64, &mut chunks).unwrap();
            let dense = contents.finish(&mut chunks).unwrap();
            for (index, length) in lengths.iter().enumerate() {
                if index % 2 == 0 {
                    // In small reads, too.
                    for part in noise[..*length].chunks(70_001) {
                        contents.read(&mut &part[..], part.len() as u64, &mut chunks).unwrap();
                    }
                } else {
                    contents.hole(*length as u64, &mut chunks).unwrap();
                }
            }
            let sparse = contents.finish(&mut chunks).unwrap();
            assert_eq!(dense, sparse, "{lengths:?}");
            assert!(joined(&dense, &mut chunks) == whole, "{lengths:?}");
        }
    }

    #[test]
    fn content_that_ends_early_is_an_error() {
        let error = Contents::new().read(&mut &[1, 2][..], 3, &mut MemoryChunks::new());
        let Err(ContentError::Read(error)) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
