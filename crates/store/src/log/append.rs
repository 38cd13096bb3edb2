//! The open log: appending, syncing, and going on to the next segment.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::options::{MAX_BATCH_BYTES, MAX_PAYLOAD_BYTES, Options};
use super::record::{self, Kind, Position, Record, RecordRef};
use super::recover;
use super::recovered::{Recovered, Repair};
use super::segment::{self, Name, SegmentInfo};
use super::survivors::{self, Survivors};
use crate::{Error, Result, disk};

/// A write buffer larger than this is given back after use.
const BUFFER_KEPT_BYTES: usize = 8 << 20;

/// An open log. One process, one thread at a time writes it; the lock on the
/// [`crate::DataDirectory`] sees to the first, `&mut self` to the second.
///
/// Dropping it syncs nothing.
#[derive(Debug)]
pub struct Log {
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    /// All segments but the active one, oldest first.
    pub(super) sealed: Vec<SegmentInfo>,
    /// `None` until the first append ever: only then the first index is known.
    active: Option<Active>,
    pub(super) survivors: Survivors,
    /// All before this is durable.
    synced: Position,
    /// Reused by every append.
    buffer: Vec<u8>,
    poison: Option<Poison>,
}

/// The segment that takes appends.
#[derive(Debug)]
struct Active {
    file: File,
    info: SegmentInfo,
    seed: u32,
    /// Behind the end, up to here, there may be bytes of an append that failed. They are
    /// overwritten with the next one: left alone, they could pass for records that follow it.
    dirty_end: u32,
}

#[derive(Debug)]
struct Poison {
    path: PathBuf,
    cause: String,
}

impl Log {
    /// Recovers the log in `directory`, which exists and may be empty, and opens it for appending.
    ///
    /// A torn tail is cut, durably, and reported. What this gives back is durable, also if the
    /// process that wrote it died before its sync.
    ///
    /// # Errors
    /// [`Error::DamagedLog`] if bytes that were durable are not there, [`Error::NewerFormat`],
    /// and [`Error::Io`].
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<(Self, Recovered)> {
        let directory = directory.as_ref();
        let (names, others) = recover::list(directory)?;
        for name in others.iter().filter(|name| is_unfinished(name)) {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(Error::io("remove the unfinished", &path, 0))?;
        }
        let file = match names.last() {
            Some(name) => Some(open_settled(&directory.join(name.to_string()))?),
            None => None,
        };

        let scan = recover::scan(directory)?;
        let mut sealed: Vec<SegmentInfo> = scan.segments.iter().map(|s| s.info.clone()).collect();
        let active = match (file, sealed.pop(), scan.segments.last()) {
            (Some(file), Some(info), Some(last)) => {
                Some(Active { file, dirty_end: info.end, info, seed: last.seed })
            }
            _ => None,
        };
        let mut log = Self {
            directory: directory.to_owned(),
            options,
            sealed,
            active,
            survivors: scan.survivors.clone(),
            synced: Position::default(),
            buffer: Vec::new(),
            poison: None,
        };
        if let Repair::TornTail { bytes, .. } = scan.repair {
            log.cut_tail(bytes)?;
        }
        log.synced = log.end();
        Ok((log, Recovered::of(scan)))
    }

    /// Writes a batch behind the log, with one write. Nothing of it is durable before
    /// [`Self::sync`]. An empty batch does nothing.
    ///
    /// # Errors
    /// The log is as before, and later calls may succeed:
    /// [`Error::NoRoom`] if there is no room for the batch or for the next segment,
    /// [`Error::Gap`] if an entry's index is more than one above the last,
    /// [`Error::TooLarge`] for a payload above [`MAX_PAYLOAD_BYTES`] or a batch above
    /// [`MAX_BATCH_BYTES`], [`Error::Io`]. For good: [`Error::Poisoned`] once a sync failed.
    ///
    /// After a failure other than those that refuse the batch itself, a crash may leave any part
    /// of the batch in the log, as after an append that was not synced.
    pub fn append(&mut self, batch: &[RecordRef<'_>]) -> Result<()> {
        self.check_poison()?;
        let bytes = self.check(batch)?;
        let Some(first) = batch.first() else { return Ok(()) };
        let fits = |active: &Active| {
            u64::from(active.info.end) + u64::from(bytes) <= active.info.file_bytes
        };
        if !self.active.as_ref().is_some_and(fits) {
            let first_index = match first.kind {
                Kind::Entry => first.index,
                _ => self.survivors.last_index().map_or(0, |last| last.saturating_add(1)),
            };
            self.roll(first_index, bytes)?;
        }
        // A roll that succeeded left one.
        let Some(active) = self.active.as_mut() else { return Ok(()) };

        let sequence = active.info.sequence;
        let start = active.info.end;
        self.buffer.clear();
        let mut position = Position { segment: sequence, offset: start };
        for record in batch {
            record::encode(&mut self.buffer, active.seed, position, self.synced, record);
            position.offset += record::stored_bytes(record.payload.len());
        }
        let written = self.buffer.len().max(active.dirty_end.saturating_sub(start) as usize);
        self.buffer.resize(written, 0);
        if let Err(e) = active.file.write_all_at(&self.buffer, u64::from(start)) {
            let reached = start.saturating_add(u32::try_from(written).unwrap_or(u32::MAX));
            active.dirty_end = active.dirty_end.max(reached);
            return Err(Error::io("write to", &active.info.path, written as u64)(e));
        }

        active.info.end = position.offset;
        active.dirty_end = position.offset;
        let mut offset = start;
        for &RecordRef { kind, term, index, level, payload } in batch {
            let position = Position { segment: sequence, offset };
            offset += record::stored_bytes(payload.len());
            let record = Record { position, kind, term, index, level, payload };
            // Checked for gaps above.
            let _ = self.survivors.note(&record);
            if kind == Kind::Entry {
                active.info.last_index = active.info.last_index.max(Some(index));
            }
        }
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Makes all that was appended durable, with one fdatasync, or none if all of it is.
    ///
    /// # Errors
    /// [`Error::Poisoned`], now and from every later call: after a failed sync the operating
    /// system may forget the data and report success the next time, so that only a restart, which
    /// reads from the disk, can tell what is there.
    pub fn sync(&mut self) -> Result<()> {
        self.check_poison()?;
        let end = self.end();
        let Some(active) = self.active.as_ref().filter(|_| self.synced != end) else {
            return Ok(());
        };
        if let Err(e) = active.file.sync_data() {
            let path = active.info.path.clone();
            return Err(self.poison(path, e.to_string()));
        }
        self.synced = end;
        Ok(())
    }

    /// Where the next record goes.
    #[must_use]
    pub fn end(&self) -> Position {
        self.active.as_ref().map_or_else(Position::default, |active| Position {
            segment: active.info.sequence,
            offset: active.info.end,
        })
    }

    /// All before this is durable.
    #[must_use]
    pub fn synced(&self) -> Position {
        self.synced
    }

    /// The first index that is still in the log. `None` if it has no entry.
    #[must_use]
    pub fn first_index(&self) -> Option<u64> {
        self.survivors.first_index()
    }

    /// The index of the last entry, or of the restart if no entry followed it.
    #[must_use]
    pub fn last_index(&self) -> Option<u64> {
        self.survivors.last_index()
    }

    /// The segments, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.sealed.iter().chain(self.active.as_ref().map(|active| &active.info))
    }

    pub(super) fn check_poison(&self) -> Result<()> {
        match &self.poison {
            None => Ok(()),
            Some(Poison { path, cause }) => {
                Err(Error::Poisoned { path: path.clone(), cause: cause.clone() })
            }
        }
    }

    fn poison(&mut self, path: PathBuf, cause: String) -> Error {
        self.poison = Some(Poison { path: path.clone(), cause: cause.clone() });
        Error::Poisoned { path, cause }
    }

    /// Refuses a batch that must not be written, and gives its size on the disk.
    fn check(&self, batch: &[RecordRef<'_>]) -> Result<u32> {
        let too_large = |what, bytes: usize, limit: usize| {
            Err(Error::TooLarge { what, bytes: bytes as u64, limit: limit as u64 })
        };
        let mut last = self.survivors.last_index();
        let mut total = 0_usize;
        for record in batch {
            if record.payload.len() > MAX_PAYLOAD_BYTES {
                return too_large("a record", record.payload.len(), MAX_PAYLOAD_BYTES);
            }
            total = total.saturating_add(record::stored_bytes(record.payload.len()) as usize);
            match record.kind {
                Kind::HardState => continue,
                Kind::Restart => {}
                Kind::Entry => survivors::check_next(last, record.index)
                    .map_err(|expected| Error::Gap { expected, found: record.index })?,
            }
            last = Some(record.index);
        }
        if total > MAX_BATCH_BYTES {
            return too_large("a batch", total, MAX_BATCH_BYTES);
        }
        Ok(u32::try_from(total).unwrap_or(u32::MAX))
    }

    /// Goes on to a new segment with room for `needed_bytes`. What is in the old one is made
    /// durable first: the new one's header says so.
    fn roll(&mut self, first_index: u64, needed_bytes: u32) -> Result<()> {
        self.sync()?;
        let hard_state = self.survivors.hard_state.as_ref();
        let room = segment::SEGMENT_HEADER_BYTES
            + hard_state.map_or(0, |state| record::stored_bytes(state.payload.len()))
            + needed_bytes;
        let previous = self.end();
        let name = Name { sequence: previous.segment + 1, first_index };
        let file_bytes = self.options.segment_bytes().max(room);
        let made = segment::prepare(&self.directory, name, previous, file_bytes, hard_state)?;
        made.rename()?;
        if let Err(e) = disk::sync_directory(&self.directory) {
            return Err(self.poison(self.directory.clone(), e.to_string()));
        }
        let info = SegmentInfo {
            sequence: name.sequence,
            path: made.path,
            first_index,
            last_index: None,
            end: made.end,
            file_bytes: u64::from(made.file_bytes),
        };
        let (file, seed, dirty_end) = (made.file, made.header.seed(), made.end);
        let old = self.active.replace(Active { file, info, seed, dirty_end });
        self.sealed.extend(old.map(|old| old.info));
        self.synced = self.end();
        Ok(())
    }

    /// Overwrites a torn tail with zeros. Bytes of it that stay could pass for records later.
    fn cut_tail(&mut self, bytes: u64) -> Result<()> {
        let Some(active) = self.active.as_mut() else { return Ok(()) };
        let zeros = vec![0; 1 << 20];
        let mut offset = u64::from(active.info.end);
        let end = offset + bytes;
        while offset < end {
            let chunk = usize::try_from(end - offset).unwrap_or(usize::MAX).min(zeros.len());
            active.file.write_all_at(&zeros[..chunk], offset).map_err(Error::io(
                "cut the torn tail of",
                &active.info.path,
                bytes,
            ))?;
            offset += chunk as u64;
        }
        active.file.sync_data().map_err(Error::io("sync", &active.info.path, bytes))
    }
}

/// Opens the last segment so that what is read from it now is what its disk has: an earlier
/// process may have died between write and sync, or gone on after a failed sync, whose data stays
/// readable from memory though it never reached the disk.
fn open_settled(path: &Path) -> Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("open", path, 0))?;
    file.sync_data().map_err(Error::io("sync", path, 0))?;
    // Advice: a file system that keeps everything in memory has nothing else to read from.
    let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    Ok(file)
}

/// Whether a name is that of a segment which a crash kept from getting its own.
fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(disk::UNFINISHED)
        .and_then(|name| name.strip_suffix('.'))
        .is_some_and(|name| Name::parse(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, payload: &[u8]) -> RecordRef<'_> {
        RecordRef { kind: Kind::Entry, term: 1, index, level: 0, payload }
    }

    /// Puts another file in the place of the active segment's, and gives that one back.
    fn replace_file(log: &mut Log, path: &str) -> File {
        let other = OpenOptions::new().write(true).open(path).unwrap();
        std::mem::replace(&mut log.active.as_mut().unwrap().file, other)
    }

    #[test]
    fn after_a_failed_sync_nothing_goes_until_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(dir.path(), Options::default()).unwrap();
        log.append(&[entry(1, b"durable")]).unwrap();
        log.sync().unwrap();
        // The null device takes writes and refuses to sync.
        replace_file(&mut log, "/dev/null");
        log.append(&[entry(2, b"lost")]).unwrap();
        let failed = [
            log.sync().unwrap_err(),
            log.sync().unwrap_err(),
            log.append(&[entry(3, b"")]).unwrap_err(),
            log.truncate_prefix(1).unwrap_err(),
        ];
        for error in failed {
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        }
        drop(log);
        let (mut log, recovered) = Log::open(dir.path(), Options::default()).unwrap();
        assert_eq!(recovered.last(), Some((1, 1)));
        log.append(&[entry(2, b"again")]).unwrap();
        log.sync().unwrap();
    }

    #[test]
    fn a_failed_write_is_rolled_back() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(dir.path(), Options::default()).unwrap();
        log.append(&[entry(1, b"first")]).unwrap();
        let end = log.end();
        let real = replace_file(&mut log, "/dev/full");
        let error = log.append(&[entry(2, b"one"), entry(3, b"two")]).unwrap_err();
        assert!(error.is_no_room(), "{error}");
        assert_eq!((log.end(), log.last_index()), (end, Some(1)));

        // As if both had reached the file before the disk was full: the second must not follow
        // an entry of another attempt, though that one ends exactly where it begins.
        let active = log.active.as_mut().unwrap();
        active.file = real;
        let mut stale = Vec::new();
        let mut at = end;
        for record in [entry(2, b"one"), entry(3, b"two")] {
            record::encode(&mut stale, active.seed, at, log.synced, &record);
            at.offset += record::stored_bytes(record.payload.len());
        }
        active.file.write_all_at(&stale, u64::from(end.offset)).unwrap();
        log.append(&[entry(2, b"two")]).unwrap();
        log.sync().unwrap();
        drop(log);
        let (_, recovered) = Log::open(dir.path(), Options::default()).unwrap();
        assert_eq!(recovered.last(), Some((2, 1)));
        assert_eq!(*recovered.repair(), Repair::None);
    }
}
