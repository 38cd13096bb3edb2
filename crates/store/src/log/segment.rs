//! One segment file: its name, its header, its making.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::record::{self, Kind, Position, RecordRef};
use super::survivors::HardState;
use crate::disk::{self, Fields as _};
use crate::{Error, Result};

/// The bytes of a segment before its first record.
pub(super) const SEGMENT_HEADER_BYTES: u32 = 64;

const MAGIC: [u8; 8] = *b"BOURGLOG";
const VERSION: u32 = 1;
const SUFFIX: &str = ".log";

/// A segment of an open log, to decide what may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its sequence number, from 1.
    pub sequence: u64,
    /// Its file. The file's time of modification is that of the last append to it.
    pub path: PathBuf,
    /// The index that the next entry had when it was made.
    pub first_index: u64,
    /// The highest index of an entry in it, also where a later entry replaced it. `None` if it
    /// holds no entries.
    pub last_index: Option<u64>,
    /// Where its records end, in bytes from the start of the file.
    pub end: u32,
    /// The size of the file, with the room preallocated behind the records.
    pub file_bytes: u64,
}

/// What a segment's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    pub(super) first_index: u64,
    pub(super) salt: u64,
    /// The end of the segment before, zero in the first one.
    pub(super) previous: Position,
}

impl Header {
    pub(super) fn seed(&self) -> u32 {
        record::seed(self.salt, self.sequence)
    }

    fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_index.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous.segment.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.previous.offset.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of the segment that `path` names.
    pub(super) fn decode(path: &Path, name: Name, bytes: &[u8]) -> Result<Self> {
        let damaged = |offset, why: &str| {
            let why = format!("{why}, and a segment gets its name only when its header is durable");
            Error::DamagedLog { path: path.to_owned(), offset, why }
        };
        let Some(header) = bytes.first_chunk::<{ SEGMENT_HEADER_BYTES as usize }>() else {
            return Err(damaged(0, "the file is shorter than a segment header"));
        };
        if header[..8] != MAGIC {
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
        let (sequence, first_index) = (header.u64_at(16), header.u64_at(24));
        if (Name { sequence, first_index }) != name {
            return Err(damaged(16, "the header is that of another segment (was it renamed?)"));
        }
        Ok(Self { sequence, first_index, salt: header.u64_at(32), previous })
    }
}

fn checksum(header: &[u8; SEGMENT_HEADER_BYTES as usize]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[8..12]), &header[16..])
}

/// What the name of a segment's file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) sequence: u64,
    pub(super) first_index: u64,
}

impl Name {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (sequence, first_index) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let name =
            Self { sequence: sequence.parse().ok()?, first_index: first_index.parse().ok()? };
        // `7-1.log` or `+7-…` is not how a segment is called.
        (name.to_string() == format!("{sequence}-{first_index}{SUFFIX}")).then_some(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016}-{:020}{SUFFIX}", self.sequence, self.first_index)
    }
}

/// A segment that was just made, see [`prepare`].
pub(super) struct Prepared {
    pub(super) file: File,
    unfinished: PathBuf,
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) file_bytes: u32,
    /// Where the next record goes.
    pub(super) end: u32,
}

/// Makes a segment of `file_bytes` or more, with `hard_state` as its first record, durable but
/// still without its name. On failure nothing is left behind.
pub(super) fn prepare(
    directory: &Path,
    name: Name,
    previous: Position,
    file_bytes: u32,
    hard_state: Option<&HardState>,
) -> Result<Prepared> {
    let Name { sequence, first_index } = name;
    let header = Header { sequence, first_index, salt: salt(), previous };
    let mut content = header.encode().to_vec();
    if let Some(HardState { level, payload }) = hard_state {
        let at = Position { segment: sequence, offset: SEGMENT_HEADER_BYTES };
        let kind = Kind::HardState;
        let record = RecordRef { kind, term: 0, index: first_index, level: *level, payload };
        record::encode(&mut content, header.seed(), at, previous, &record);
    }
    let end = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let file_bytes = file_bytes.max(end);

    let path = directory.join(name.to_string());
    let unfinished = disk::unfinished(&path);
    let made = disk::create_unfinished(&unfinished).and_then(|file| {
        preallocate(&file, file_bytes)
            .and_then(|()| file.write_all_at(&content, 0))
            .and_then(|()| file.sync_all())
            .map_err(Error::io("make the segment", &path, u64::from(file_bytes)))?;
        Ok(file)
    });
    if made.is_err() {
        // The room it took is what others wait for; that it is gone need not be durable.
        let _ = fs::remove_file(&unfinished);
    }
    Ok(Prepared { file: made?, unfinished, path, header, file_bytes, end })
}

impl Prepared {
    /// Gives the segment its name. The caller syncs the directory: only the failure of that sync
    /// leaves open which segments a recovery would find.
    pub(super) fn rename(&self) -> Result<()> {
        fs::rename(&self.unfinished, &self.path).map_err(|e| {
            let _ = fs::remove_file(&self.unfinished);
            Error::io("rename into place", &self.path, u64::from(self.file_bytes))(e)
        })
    }
}

/// Takes the room now, so that an append inside of it does not fail for the lack of it.
pub(crate) fn preallocate(file: &File, bytes: u32) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, i64::from(bytes)) {
        Ok(()) => Ok(()),
        // Not every file system can; appends may then find the disk full, and roll back.
        Err(Errno::EOPNOTSUPP) => file.set_len(u64::from(bytes)),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads a whole segment into `buffer`, replacing what it held.
pub(super) fn read(path: &Path, buffer: &mut Vec<u8>) -> Result<()> {
    let mut read = || -> io::Result<()> {
        let mut file = File::open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        buffer.clear();
        buffer.try_reserve(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        file.read_to_end(buffer)?;
        Ok(())
    };
    read().map_err(Error::io("read", path, 0))
}

/// Different for every segment that was ever made here. The hasher's keys come from the operating
/// system's randomness, and that nobody can guess them is all that is asked of them.
fn salt() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_write_are_segments() {
        let name = Name { sequence: 7, first_index: 12 };
        assert_eq!(name.to_string(), "0000000000000007-00000000000000000012.log");
        assert_eq!(Name::parse(&name.to_string()), Some(name));
        for garbage in [
            "",
            ".log",
            "7-12.log",
            "0000000000000007.log",
            "notes.txt",
            "-.log",
            "0000000000000007-00000000000000000012.log.tmp",
            "+000000000000007-00000000000000000012.log",
        ] {
            assert_eq!(Name::parse(garbage), None, "{garbage}");
        }
    }
}
