//! The identity of a data directory: a random number drawn when it is created, and its location. A
//! copy has the same number at another location, which distinguishes it from the original.
//!
//! ```text
//! directory 6f1c0a52b7d8e394
//! place 1234567 1763856000123456789
//! log 1234568 1763856000123456790
//! log begun
//! checksum 1a2b3c4d
//! ```
//!
//! A location is an inode number with its birth time, in nanoseconds since 1970 (0 if the file
//! system does not provide it), for this file and for the log's directory. The last line is the
//! crc32c of the preceding lines.
//!
//! Copies of a whole disk, such as a volume snapshot, are not detected, nor are copies on file
//! systems that do not keep inode numbers stable, such as network and user-space ones.

use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use nix::sys::statfs::{FsType, statfs};

use crate::{Error, Result, disk};

/// The file's name in the data directory.
pub(super) const FILE: &str = "directory-id";

/// File systems whose inode numbers may change without a copy: 9p, CIFS, FUSE, NFS, SMB, SMB2.
const CHANGING: [FsType; 6] = [
    FsType(0x0102_1997),
    FsType(0xff53_4d42),
    FsType(0x6573_5546),
    FsType(0x0000_6969),
    FsType(0x0000_517b),
    FsType(0xfe53_4d42),
];

/// The location of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    inode: u64,
    born_ns: u64,
}

/// The identity of a data directory.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) id: u64,
    /// Whether the log has ever had a record.
    pub(super) log_begun: bool,
    /// Why this may not be the directory that was last used under this id.
    pub(super) doubt: Option<&'static str>,
}

/// The content of the file.
struct Stored {
    id: u64,
    place: Location,
    log: Location,
    log_begun: bool,
}

impl Location {
    fn of(found: &Metadata) -> Self {
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|born| u64::try_from(born.as_nanos()).ok()).unwrap_or(0);
        Self { inode: found.ino(), born_ns }
    }

    /// Whether both locations are known and differ.
    fn differs(self, other: Self) -> bool {
        let known = self.born_ns > 0 && other.born_ns > 0;
        self.inode != other.inode || (known && self.born_ns != other.born_ns)
    }
}

impl Identity {
    /// Reads the identity of the data directory at `path`. If it has none, because it is new or
    /// older than this file, one is written; on a full disk that is skipped and the id is 0.
    pub(super) fn open(path: &Path, log: &Path) -> Result<Self> {
        let file = path.join(FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return match Self::draw(path, log, false) {
                    Err(error) if error.is_no_room() => {
                        Ok(Self { id: 0, log_begun: false, doubt: None })
                    }
                    drawn => drawn,
                };
            }
            Err(e) if e.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(e) => return Err(Error::io("read", &file, 0)(e)),
        };
        let Some(noted) = Stored::parse(&text) else {
            let doubt = Some("its file directory-id is damaged");
            return Ok(Self { id: 0, log_begun: true, doubt });
        };
        let differs = |path: &Path, noted: Location| {
            fs::metadata(path).is_ok_and(|found| Location::of(&found).differs(noted))
        };
        let copied = keeps_inodes(path) && (differs(&file, noted.place) || differs(log, noted.log));
        let doubt =
            copied.then_some("it was copied or restored from a copy since it was last used");
        Ok(Self { id: noted.id, log_begun: noted.log_begun, doubt })
    }

    /// Gives the directory a new id.
    pub(super) fn draw(path: &Path, log: &Path, log_begun: bool) -> Result<Self> {
        // A random id: the hasher's keys come from the operating system's randomness.
        let drawn = || std::hash::RandomState::new().build_hasher().finish();
        let id = std::iter::repeat_with(drawn).find(|id| *id > 0).unwrap_or(1);
        Self { id, log_begun, doubt: None }.write(path, log)
    }

    /// Writes the identity with the current location.
    pub(super) fn write(self, path: &Path, log: &Path) -> Result<Self> {
        let file = path.join(FILE);
        let unfinished = disk::unfinished(&file);
        let mut new = disk::create_unfinished(&unfinished)?;
        let write = |new: &mut File| {
            let (place, log) = (Location::of(&new.metadata()?), Location::of(&fs::metadata(log)?));
            let noted = Stored { id: self.id, place, log, log_begun: self.log_begun };
            new.write_all(noted.text().as_bytes())?;
            new.sync_all()
        };
        write(&mut new).map_err(Error::io("write", &unfinished, 4096))?;
        disk::publish(&unfinished, &file)?;
        Ok(self)
    }
}

/// Whether files on this file system keep their inode numbers unless they are moved.
fn keeps_inodes(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| !CHANGING.contains(&found.filesystem_type()))
}

impl Stored {
    fn text(&self) -> String {
        let Self { id, place, log, log_begun } = self;
        let begun = if *log_begun { "log begun\n" } else { "" };
        let text = format!(
            "directory {id:016x}\nplace {} {}\nlog {} {}\n{begun}",
            place.inode, place.born_ns, log.inode, log.born_ns
        );
        let checksum = crc32c::crc32c(text.as_bytes());
        format!("{text}checksum {checksum:08x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (said, checksum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let checksum = u32::from_str_radix(checksum.strip_prefix("checksum ")?, 16).ok()?;
        let said = format!("{said}\n");
        if crc32c::crc32c(said.as_bytes()) != checksum {
            return None;
        }
        let mut lines = said.lines();
        let id = u64::from_str_radix(lines.next()?.strip_prefix("directory ")?, 16).ok()?;
        let mut place = |name: &str| {
            let (inode, born) = lines.next()?.strip_prefix(name)?.trim().split_once(' ')?;
            Some(Location { inode: inode.parse().ok()?, born_ns: born.parse().ok()? })
        };
        let (place, log) = (place("place ")?, place("log ")?);
        let log_begun = lines.next() == Some("log begun");
        (id > 0).then_some(Self { id, place, log, log_begun })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_identity_file_is_detected() {
        let (place, log) = (Location { inode: 7, born_ns: 8 }, Location { inode: 9, born_ns: 0 });
        for log_begun in [false, true] {
            let text = Stored { id: 0xabc, place, log, log_begun }.text();
            let read = Stored::parse(&text).unwrap();
            assert_eq!((read.id, read.place, read.log), (0xabc, place, log));
            assert_eq!(read.log_begun, log_begun);
            for at in 0..text.len() {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1;
                let changed = String::from_utf8(bytes).unwrap();
                assert!(Stored::parse(&changed).is_none(), "{changed}");
                assert!(Stored::parse(&text[..at]).is_none(), "cut at {at}");
            }
        }
    }

    #[test]
    fn a_place_is_known_by_its_inode_and_its_birth() {
        let place = |inode, born_ns| Location { inode, born_ns };
        for (one, other, differs) in [
            (place(1, 5), place(1, 5), false),
            (place(1, 5), place(2, 5), true),
            // The inode number was reused.
            (place(1, 5), place(1, 6), true),
            // The file system does not provide birth times.
            (place(1, 0), place(1, 6), false),
            (place(1, 5), place(1, 0), false),
            (place(1, 0), place(2, 0), true),
        ] {
            assert_eq!(one.differs(other), differs, "{one:?} {other:?}");
        }
    }
}
