//! Creates segment files and reads whole ones.

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

/// A new segment, see [`prepare`].
pub(super) struct Prepared {
    pub(super) file: File,
    unfinished: PathBuf,
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) file_bytes: u32,
    /// The offset of the next record.
    pub(super) end: u32,
}

/// Creates the segment that follows `previous`, of at least `file_bytes`, with `preface` as its
/// first record, durable but without its final name. On failure nothing is left behind.
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
        // Others wait for the space; the removal need not be durable.
        let _ = fs::remove_file(&unfinished);
    }
    Ok(Prepared { file: made?, unfinished, path, header, file_bytes, end })
}

impl Prepared {
    /// Renames the segment into place. The caller syncs the directory: only if that sync fails is
    /// it unknown which segments a recovery would find.
    pub(super) fn rename(&self) -> Result<()> {
        fs::rename(&self.unfinished, &self.path).map_err(|e| {
            let _ = fs::remove_file(&self.unfinished);
            Error::io("rename into place", &self.path, u64::from(self.file_bytes))(e)
        })
    }
}

/// Allocates the space now, so that an append within it does not fail for lack of space.
pub(crate) fn preallocate(file: &File, bytes: u32) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, i64::from(bytes)) {
        Ok(()) => Ok(()),
        // Some file systems cannot; then appends may find the disk full, and roll back.
        Err(Errno::EOPNOTSUPP) => file.set_len(u64::from(bytes)),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads a whole segment into `buffer`, replacing its content.
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

/// Opens the last segment so that later reads return what is on disk: an earlier process may have
/// died between write and sync, or continued after a failed sync, whose data stays readable from
/// the page cache although it never reached the disk.
pub(crate) fn settle(path: &Path) -> Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("open", path, 0))?;
    file.sync_data().map_err(Error::io("sync", path, 0))?;
    // Only a hint: a file system that keeps everything in memory has nothing else to read from.
    let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    Ok(file)
}

/// Removes segments that a crash left without their final names.
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

/// A value unique to every segment created here. It comes from the operating system's randomness
/// through the hasher's keys, and must only be hard to guess.
fn salt() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
