//! The open log: appending, syncing, and starting new segments.

use std::path::Path;

use super::newest;
use super::options::{MAX_BATCH_BYTES, Options};
use super::recover::{self, Scan};
use super::recovered::{Recovered, Repair};
use super::segment::{FORMAT, SegmentInfo};
use super::survivors::{self, Survivors};
use crate::segments::record::{self, MAX_PAYLOAD_BYTES, Position, Record, RecordKind, RecordRef};
use crate::segments::{self, Active, Appender, Begin};
use crate::{Error, Result};

/// An open log. Only one process and one thread may write at a time: the lock on the
/// [`crate::DataDirectory`] and `&mut self` ensure that.
///
/// Dropping it does not sync.
#[derive(Debug)]
pub struct Log {
    pub(super) options: Options,
    pub(super) appender: Appender,
    /// Oldest first; the last one takes appends. Empty before the very first append, because the
    /// first index is unknown until then.
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) survivors: Survivors,
}

impl Log {
    /// Recovers the log in `directory`, which exists and may be empty, and opens it for appending.
    ///
    /// A torn tail is cut, durably, and reported. Everything returned is durable, even if the
    /// process that wrote it died before syncing.
    ///
    /// # Errors
    /// [`Error::DamagedLog`] if durable bytes are missing, [`Error::NewerFormat`], and
    /// [`Error::Io`].
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<(Self, Recovered)> {
        Self::open_from(directory, options, 0)
    }

    /// Like [`Self::open`], but does not read segments that contain only retained history below
    /// `index`: for a caller whose checkpoint includes all entries up to there. Their entries are
    /// still part of the recovered log, and damage in them is detected when they are read.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_from(
        directory: impl AsRef<Path>,
        options: Options,
        index: u64,
    ) -> Result<(Self, Recovered)> {
        let directory = directory.as_ref();
        segments::remove_unfinished(directory, &FORMAT)?;
        let file = match segments::list(directory, &FORMAT)?.0.last() {
            Some(name) => Some(segments::settle(&directory.join(name.file(&FORMAT)))?),
            None => None,
        };
        let scan = recover::scan(directory, index, false)?;
        let appender = match (file, scan.segments.last()) {
            (Some(file), Some(last)) => {
                let info = &last.info;
                let torn_bytes = match scan.repair {
                    Repair::TornTail { bytes, .. } => bytes,
                    Repair::None => 0,
                };
                let active =
                    Active::recovered(file, &info.path, &last.header, info.end, info.file_bytes);
                Appender::resume(directory, &FORMAT, active, torn_bytes)?
            }
            _ => Appender::after(directory, &FORMAT, Position::default()),
        };
        let Scan { segments, survivors, .. } = &scan;
        let segments = segments.iter().map(|segment| segment.info.clone()).collect();
        let log = Self { options, appender, segments, survivors: survivors.clone() };
        log.note_newest();
        Ok((log, Recovered::of(directory, scan)))
    }

    /// Appends a batch with one write. It is not durable before [`Self::sync`]. An empty batch does
    /// nothing.
    ///
    /// # Errors
    /// The log is unchanged, and later calls may succeed: [`Error::NoRoom`] if there is no space
    /// for the batch or for the next segment, [`Error::Gap`] if an entry's index is more than one
    /// above the last, [`Error::TooLarge`] for a payload above [`MAX_PAYLOAD_BYTES`] or a batch
    /// above [`MAX_BATCH_BYTES`], [`Error::Io`]. Permanent: [`Error::Poisoned`] after a failed
    /// sync.
    ///
    /// Unless the batch itself was rejected, a crash after a failure may leave any part of the
    /// batch in the log, as after an append without a sync.
    pub fn append(&mut self, batch: &[RecordRef<'_>]) -> Result<()> {
        self.appender.check_poison()?;
        let bytes = self.check(batch)?;
        let Some(first) = batch.first() else { return Ok(()) };
        if self.appender.room() < u64::from(bytes) {
            let first_index = self.next_index(first);
            self.roll(first_index, bytes)?;
        }
        let Position { segment, mut offset } = self.appender.end();
        self.appender.append(batch.iter().copied())?;

        // A successful roll leaves an active segment.
        let Some(active) = self.segments.last_mut() else { return Ok(()) };
        for &RecordRef { kind, term, index, level, payload } in batch {
            let position = Position { segment, offset };
            offset += record::stored_bytes(payload.len());
            let record = Record { position, kind, term, index, level, payload };
            // Gaps were ruled out above.
            let voided = self.survivors.note(&record).unwrap_or_default();
            active.note(&record, voided);
        }
        active.end = offset;
        Ok(())
    }

    /// Makes everything appended durable with one fdatasync, or none if everything is durable
    /// already.
    ///
    /// # Errors
    /// [`Error::Poisoned`], from this and all later calls: after a failed sync the operating system
    /// may drop the data and report success the next time, so only a restart, which reads from the
    /// disk, can tell what is durable.
    pub fn sync(&mut self) -> Result<()> {
        self.appender.sync()
    }

    /// The position of the next record.
    #[must_use]
    pub fn end(&self) -> Position {
        self.appender.end()
    }

    /// Everything before this position is durable.
    #[must_use]
    pub fn synced(&self) -> Position {
        self.appender.synced()
    }

    /// The first index in the log. `None` if it has no entry.
    #[must_use]
    pub fn first_index(&self) -> Option<u64> {
        self.survivors.first_index()
    }

    /// The index of the last entry, or of the restart record if no entry followed it.
    #[must_use]
    pub fn last_index(&self) -> Option<u64> {
        self.survivors.last_index()
    }

    /// The segments, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.segments.iter()
    }

    /// The index after the last one, also if `record` is next and replaces some.
    fn next_index(&self, record: &RecordRef<'_>) -> u64 {
        match (self.survivors.last_index(), record.kind) {
            (Some(last), _) => last.saturating_add(1),
            (None, RecordKind::Entry) => record.index,
            (None, RecordKind::Restart) => record.index.saturating_add(1),
            (None, RecordKind::HardState) => {
                self.segments.last().map_or(0, |segment| segment.first_index)
            }
        }
    }

    /// Validates a batch and returns its size on disk.
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
                RecordKind::HardState => continue,
                RecordKind::Restart => {}
                RecordKind::Entry => survivors::check_next(last, record.index)
                    .map_err(|expected| Error::Gap { expected, found: record.index })?,
            }
            last = Some(record.index);
        }
        if total > MAX_BATCH_BYTES {
            return too_large("a batch", total, MAX_BATCH_BYTES);
        }
        Ok(u32::try_from(total).unwrap_or(u32::MAX))
    }

    /// Starts a new segment with room for `needed_bytes`, which starts with the hard state.
    fn roll(&mut self, first_index: u64, needed_bytes: u32) -> Result<()> {
        let begin = match self.segments.last() {
            Some(last) => last.begin_next(first_index),
            None => Begin { first_index, first_sub: 0, note: 0 },
        };
        let hard_state = self.survivors.hard_state.as_ref().map(|state| RecordRef {
            kind: RecordKind::HardState,
            term: 0,
            index: first_index,
            level: state.level,
            payload: &state.payload,
        });
        let bytes = segments::segment_bytes(self.options.segment_bytes);
        let active = self.appender.roll(begin, hard_state.as_ref(), bytes, needed_bytes)?;
        self.segments.push(SegmentInfo {
            sequence: active.sequence,
            path: active.path.clone(),
            first_index,
            last_index: None,
            replaced_from: None,
            end: active.end,
            file_bytes: active.file_bytes,
        });
        self.note_newest();
        Ok(())
    }

    /// Records the newest segment's number. If that fails the log continues; it would then not be
    /// noticed if this segment went missing.
    fn note_newest(&self) {
        if let Some(newest) = self.segments.last()
            && newest::read(self.appender.directory()) != Some(newest.sequence)
        {
            let _weaker = newest::write(self.appender.directory(), newest.sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn entry(index: u64, payload: &[u8]) -> RecordRef<'_> {
        RecordRef { kind: RecordKind::Entry, term: 1, index, level: 0, payload }
    }

    /// Replaces the active segment's file by another one and returns the original.
    fn replace_file(log: &mut Log, path: &str) -> File {
        let other = OpenOptions::new().write(true).open(path).unwrap();
        std::mem::replace(&mut log.appender.active_mut().file, other)
    }

    #[test]
    fn a_failed_sync_blocks_all_writes_until_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(dir.path(), Options::default()).unwrap();
        log.append(&[entry(1, b"durable")]).unwrap();
        log.sync().unwrap();
        // The null device accepts writes and fails to sync.
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

        // As if both had reached the file before the disk was full: the second must not follow an
        // entry of another attempt, even though that one ends exactly where it starts.
        let synced = log.synced();
        let active = log.appender.active_mut();
        active.file = real;
        let mut stale = Vec::new();
        let mut at = end;
        for record in [entry(2, b"one"), entry(3, b"two")] {
            record::encode(&mut stale, active.seed, at, synced, &record);
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
