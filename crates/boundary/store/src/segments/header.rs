//! The header of a segment, and its file name.

use std::path::{Path, PathBuf};

use super::record::{self, Position};
use crate::disk::Fields as _;
use crate::{Error, Result};

/// The size of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: u32 = 64;

const VERSION: u32 = 1;

/// What distinguishes the segments of one kind from those of another.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) magic: [u8; 8],
    /// The suffix of the file names.
    pub(crate) suffix: &'static str,
    /// Whether these are the segments of a log, whose records cannot be recreated: their headers
    /// contain the initial file size, and their tail is considered torn only if that size is known.
    pub(crate) irreplaceable: bool,
    /// The error for changed bytes: file, offset, and how the change was detected.
    pub(crate) damaged: fn(PathBuf, u64, String) -> Error,
}

impl Format {
    /// The error for damage at `offset` of `path`.
    pub(crate) fn damaged(&self, path: &Path, offset: u32, why: impl Into<String>) -> Error {
        (self.damaged)(path.to_owned(), u64::from(offset), why.into())
    }
}

/// The header fields about a segment's place, set by its creator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    /// The index, which is also part of the file name.
    pub(crate) first_index: u64,
    /// Only in event files: together with the index, the position in the stream at which the
    /// segment starts.
    pub(crate) first_sub: u32,
    /// Information about the previous segment; zero if unknown.
    pub(crate) note: u64,
}

/// A decoded segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) salt: u64,
    /// The end of the previous segment, zero in the first one.
    pub(crate) previous: Position,
    pub(crate) begin: Begin,
    /// The initial size of the file; 0 if the header does not contain it.
    pub(crate) file_bytes: u32,
}

impl Header {
    pub(crate) fn seed(&self) -> u32 {
        record::seed(self.salt, self.sequence)
    }

    pub(crate) fn name(&self) -> Name {
        Name { sequence: self.sequence, first_index: self.begin.first_index }
    }

    pub(crate) fn encode(&self, format: &Format) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&format.magic);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.begin.first_index.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous.segment.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.previous.offset.to_le_bytes());
        let word = if format.irreplaceable { self.file_bytes } else { self.begin.first_sub };
        bytes[52..56].copy_from_slice(&word.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.begin.note.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the header of the segment at `path`.
    pub(crate) fn decode(format: &Format, path: &Path, name: Name, bytes: &[u8]) -> Result<Self> {
        let damaged = |offset, why: &str| {
            let durable = "and a segment is renamed into place only after its header is durable";
            format.damaged(path, offset, format!("{why}, {durable}"))
        };
        let Some(header) = bytes.first_chunk::<{ SEGMENT_HEADER_BYTES as usize }>() else {
            return Err(damaged(0, "the file is shorter than a segment header"));
        };
        if header[..8] != format.magic {
            return Err(damaged(0, "the magic number of a segment is missing"));
        }
        // A newer version's header may have another layout: check the version before the checksum.
        let version = header.u32_at(8);
        if version > VERSION {
            let path = path.to_owned();
            return Err(Error::NewerFormat { path, found: version, known: VERSION });
        }
        if checksum(header) != header.u32_at(12) {
            return Err(damaged(12, "the checksum of the segment header does not match"));
        }
        let previous = Position { segment: header.u64_at(40), offset: header.u32_at(48) };
        let word = header.u32_at(52);
        let (file_bytes, first_sub) = if format.irreplaceable { (word, 0) } else { (0, word) };
        let begin = Begin { first_index: header.u64_at(24), first_sub, note: header.u64_at(56) };
        let (sequence, salt) = (header.u64_at(16), header.u64_at(32));
        let found = Self { sequence, salt, previous, begin, file_bytes };
        if found.name() != name {
            return Err(damaged(16, "the header is that of another segment (was it renamed?)"));
        }
        Ok(found)
    }
}

/// The initial size of a log segment's file, from its header; 0 if the header does not contain it.
pub(crate) fn file_bytes(header: &[u8; SEGMENT_HEADER_BYTES as usize]) -> u32 {
    header.u32_at(52)
}

fn checksum(header: &[u8; SEGMENT_HEADER_BYTES as usize]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[8..12]), &header[16..])
}

/// The parsed name of a segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) sequence: u64,
    pub(crate) first_index: u64,
}

impl Name {
    pub(crate) fn parse(format: &Format, file: &str) -> Option<Self> {
        let (sequence, first_index) = file.strip_suffix(format.suffix)?.split_once('-')?;
        let name =
            Self { sequence: sequence.parse().ok()?, first_index: first_index.parse().ok()? };
        // Non-canonical names such as `7-1.log` or `+7-…` are rejected.
        (name.file(format) == file).then_some(name)
    }

    /// The file name.
    pub(crate) fn file(self, format: &Format) -> String {
        format!("{:016}-{:020}{}", self.sequence, self.first_index, format.suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_write_are_segments() {
        let format = &crate::log::FORMAT;
        let name = Name { sequence: 7, first_index: 12 };
        assert_eq!(name.file(format), "0000000000000007-00000000000000000012.log");
        assert_eq!(Name::parse(format, &name.file(format)), Some(name));
        for garbage in [
            "",
            ".log",
            "7-12.log",
            "0000000000000007.log",
            "notes.txt",
            "-.log",
            "0000000000000007-00000000000000000012.log.tmp",
            "0000000000000007-00000000000000000012.events",
            "+000000000000007-00000000000000000012.log",
        ] {
            assert_eq!(Name::parse(format, garbage), None, "{garbage}");
        }
    }
}
