//! One segment file: its making, and reading it whole.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, PosixFadviseAdvice, fallocate, posix_fadvise};

use super::header::{Begin, Format, Header, Name, SEGMENT_HEADER_BYTES};
use super::record::{self, Position, RecordRef};
use crate::{Error, Result, disk};

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

/// Makes the segment that follows `previous`, of `file_bytes` or more, with `preface` as its first
/// record, durable but still without its name. On failure nothing is left behind.
pub(super) fn prepare(
    directory: &Path,
    format: &Format,
    begin: Begin,
    previous: Position,
    file_bytes: u32,
    preface: Option<&RecordRef<'_>>,
) -> Result<Prepared> {
    let sequence = previous.segment + 1;
    let preface_bytes = preface.map_or(0, |record| record::stored_bytes(record.payload.len()));
    let end = SEGMENT_HEADER_BYTES.saturating_add(preface_bytes);
    let file_bytes = file_bytes.max(end);
    let header = Header { sequence, salt: salt(), previous, begin, file_bytes };
    let mut content = header.encode(format).to_vec();
    if let Some(preface) = preface {
        let at = Position { segment: sequence, offset: SEGMENT_HEADER_BYTES };
        record::encode(&mut content, header.seed(), at, previous, preface);
    }

    let path = directory.join(header.name().file(format));
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
pub(crate) fn read(path: &Path, buffer: &mut Vec<u8>) -> Result<()> {
    let mut file = File::open(path).map_err(|e| Error::reading(path, e))?;
    let mut read = || -> io::Result<()> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        buffer.clear();
        buffer.try_reserve(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        file.read_to_end(buffer)?;
        Ok(())
    };
    read().map_err(Error::io("read", path, 0))
}

/// Opens the last segment so that what is read from it now is what its disk has: an earlier
/// process may have died between write and sync, or gone on after a failed sync, whose data stays
/// readable from memory though it never reached the disk.
pub(crate) fn settle(path: &Path) -> Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("open", path, 0))?;
    file.sync_data().map_err(Error::io("sync", path, 0))?;
    // Advice: a file system that keeps everything in memory has nothing else to read from.
    let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    Ok(file)
}

/// Removes the segments which a crash kept from getting their names.
pub(crate) fn remove_unfinished(directory: &Path, format: &Format) -> Result<()> {
    for file in disk::names(directory)? {
        let finished = file.strip_suffix(disk::UNFINISHED).and_then(|file| file.strip_suffix('.'));
        if finished.is_some_and(|file| Name::parse(format, file).is_some()) {
            let path = directory.join(file);
            fs::remove_file(&path).map_err(Error::io("remove the unfinished", &path, 0))?;
        }
    }
    Ok(())
}

/// Different for every segment that was ever made here. The hasher's keys come from the operating
/// system's randomness, and that nobody can guess them is all that is asked of them.
fn salt() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
