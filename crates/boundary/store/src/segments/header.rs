//! What stands before the first record of a segment, and in its name.

use std::path::{Path, PathBuf};

use super::record::{self, Position};
use crate::disk::Fields as _;
use crate::{Error, Result};

/// The bytes of a segment before its first record.
pub(crate) const SEGMENT_HEADER_BYTES: u32 = 64;

const VERSION: u32 = 1;

/// What tells the segments of one kind from those of another.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) magic: [u8; 8],
    /// How the names of the files end.
    pub(crate) suffix: &'static str,
    /// Whether these are the segments of a log, whose records nobody can make again: their headers
    /// say how large the file was made, and their tail is taken for torn only where that is known.
    pub(crate) irreplaceable: bool,
    /// The error for bytes that are not what was written: file, offset in it, and how that is known.
    pub(crate) damaged: fn(PathBuf, u64, String) -> Error,
}

impl Format {
    /// The error for damage at `offset` of `path`.
    pub(crate) fn damaged(&self, path: &Path, offset: u32, why: impl Into<String>) -> Error {
        (self.damaged)(path.to_owned(), u64::from(offset), why.into())
    }
}

/// What whoever makes a segment says about its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    /// The index that stands in its name, too.
    pub(crate) first_index: u64,
    /// Only of event files: with the index the place in the stream at which the segment begins.
    pub(crate) first_sub: u32,
    /// Something about the segment before; zero where nothing is known.
    pub(crate) note: u64,
}

/// What a segment's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) salt: u64,
    /// The end of the segment before, zero in the first one.
    pub(crate) previous: Position,
    pub(crate) begin: Begin,
    /// With how many bytes the file was made; 0 where the header does not say it.
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

    /// Reads the header of the segment that `path` names.
    pub(crate) fn decode(format: &Format, path: &Path, name: Name, bytes: &[u8]) -> Result<Self> {
        let damaged = |offset, why: &str| {
            let durable = "and a segment gets its name only when its header is durable";
            format.damaged(path, offset, format!("{why}, {durable}"))
        };
        let Some(header) = bytes.first_chunk::<{ SEGMENT_HEADER_BYTES as usize }>() else {
            return Err(damaged(0, "the file is shorter than a segment header"));
        };
        if header[..8] != format.magic {
            return Err(damaged(0, "the magic number of a segment is missing"));
        }
        // The header of a newer version may be laid out differently: version before checksum.
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

/// With how many bytes the file was made whose header, of the segments of a log, this is; 0 where it
/// does not say it.
pub(crate) fn file_bytes(header: &[u8; SEGMENT_HEADER_BYTES as usize]) -> u32 {
    header.u32_at(52)
}

fn checksum(header: &[u8; SEGMENT_HEADER_BYTES as usize]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[8..12]), &header[16..])
}

/// What the name of a segment's file says.
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
        // `7-1.log` or `+7-…` is not how a segment is called.
        (name.file(format) == file).then_some(name)
    }

    /// The name of the file.
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
