//! Reads the records of one segment in sequence, also while another thread or process appends to
//! it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::header::{Format, Header, Name, SEGMENT_HEADER_BYTES};
use super::record::{self, Found, Head, Incomplete, Position, STEP};
use super::scan;
use crate::{Error, Result};

/// The number of bytes read at once. A larger record is read as a whole.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// A segment open for reading. An incomplete record counts as absent; it may be complete in a later
/// call.
#[derive(Debug)]
pub(crate) struct Chunks {
    file: File,
    path: PathBuf,
    header: Header,
    seed: u32,
    /// The position of the next record.
    position: Position,
    /// The file offset of the buffer's first byte.
    base: u32,
    /// The number of valid bytes in the buffer.
    filled: usize,
    /// Never shrinks.
    buffer: Vec<u8>,
}

impl Chunks {
    /// Opens the segment of that name, positioned at its first record.
    ///
    /// # Errors
    /// [`Error::Deleted`] if it no longer exists, the format's error for a bad header,
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub(crate) fn open(format: &Format, directory: &Path, name: Name) -> Result<Self> {
        let path = directory.join(name.file(format));
        let file = File::open(&path).map_err(|e| Error::reading(&path, e))?;
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES as usize];
        let read = read_at(&file, &mut bytes, 0).map_err(Error::io("read", &path, 0))?;
        let header = Header::decode(format, &path, name, &bytes[..read])?;
        let position = Position { segment: header.sequence, offset: SEGMENT_HEADER_BYTES };
        let (seed, base, buffer) = (header.seed(), SEGMENT_HEADER_BYTES, Vec::new());
        Ok(Self { file, path, header, seed, position, base, filled: 0, buffer })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The position of the next record.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// The size of the file.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        let found = self.file.metadata().map_err(Error::io("look at", &self.path, 0))?;
        Ok(found.len())
    }

    /// Moves to another offset, at which a record starts.
    pub(crate) fn seek(&mut self, offset: u32) {
        if offset < self.base {
            self.filled = 0;
            self.base = offset;
        }
        self.position.offset = offset;
    }

    /// The next record, or what is there instead. Only a record advances the position.
    pub(crate) fn next(&mut self) -> Result<Found<'_>> {
        let position = self.position;
        let mut want = CHUNK_BYTES;
        let mut read = None;
        let whole = loop {
            let not = match record::check(self.rest(), self.seed, position.offset) {
                Ok(head) => break Ok(head),
                Err(not) => not,
            };
            // Data read earlier may have changed since, or end too early.
            match (not, read) {
                (Incomplete::Short(needed), Some(had)) if had == want && needed > had => {
                    want = needed;
                }
                (_, Some(_)) => break Err(not),
                (Incomplete::Short(needed), None) => want = want.max(needed),
                (_, None) => {}
            }
            read = Some(self.fill(want)?);
        };
        match whole {
            Ok(head) => {
                self.position.offset = position.offset.saturating_add(head.stored_bytes());
                Ok(head.record(position, self.from(position.offset)))
            }
            Err(not) => Ok(not.at_the_end(self.rest())),
        }
    }

    /// The offset of an intact record which proves that the one that [`Self::next`] did not find
    /// was durable. Reliable only if found twice in a row, because a write may have happened during
    /// the first read.
    pub(crate) fn testimony(&self) -> Option<u32> {
        let rest = self.rest();
        if record::is_zero(rest) {
            return None;
        }
        scan::find_testimony(rest, rest.len(), self.seed, self.position)
    }

    /// The first entry at or after `offset` with an intact header, and its offset; `None` from
    /// `end` on. Bytes between records are searched, too.
    pub(super) fn find_entry(&mut self, offset: u32, end: u32) -> Result<Option<(u32, Head)>> {
        let mut at = offset.checked_next_multiple_of(STEP).unwrap_or(u32::MAX);
        while at < end {
            self.seek(at);
            let read = self.fill(CHUNK_BYTES)?;
            let mut from = 0;
            while from + record::HEADER_BYTES <= read && at < end {
                if let Some(head) = record::intact_head(&self.buffer[from..read], self.seed, at)
                    && head.kind == record::RecordKind::Entry
                {
                    return Ok(Some((at, head)));
                }
                from += STEP as usize;
                at = at.saturating_add(STEP);
            }
            if read < CHUNK_BYTES {
                break;
            }
        }
        Ok(None)
    }

    /// The buffered bytes from the position on.
    fn rest(&self) -> &[u8] {
        self.from(self.position.offset)
    }

    fn from(&self, offset: u32) -> &[u8] {
        let from = offset.checked_sub(self.base).map_or(usize::MAX, |from| from as usize);
        self.buffer.get(from..self.filled).unwrap_or_default()
    }

    /// Reads up to `want` bytes from the position on, and returns how many there were.
    fn fill(&mut self, want: usize) -> Result<usize> {
        (self.base, self.filled) = (self.position.offset, 0);
        if self.buffer.len() < want {
            self.buffer = vec![0; want];
        }
        let read = read_at(&self.file, &mut self.buffer[..want], u64::from(self.base));
        self.filled = read.map_err(Error::io("read", &self.path, 0))?;
        Ok(self.filled)
    }
}

/// Reads until `buffer` is full or the file ends, and returns the number of bytes.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(read)
}
