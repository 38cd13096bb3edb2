//! The end of a sequence of segments: appends records, syncs, and starts new segments.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::file;
use super::header::{Begin, Format, Header, SEGMENT_HEADER_BYTES};
use super::record::{self, Position, RecordRef};
use crate::{Error, Result, disk};

/// A write buffer larger than this is freed after use.
const BUFFER_KEPT_BYTES: usize = 8 << 20;

/// Appends records after the existing ones. Dropping it does not sync.
#[derive(Debug)]
pub(crate) struct Appender {
    directory: PathBuf,
    format: &'static Format,
    /// The end of the records if there is no active segment; the next segment follows this.
    before: Position,
    active: Option<Active>,
    /// Everything before this is durable.
    synced: Position,
    /// Reused by every append.
    buffer: Vec<u8>,
    poison: Option<Poison>,
}

/// The segment that takes appends.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) sequence: u64,
    pub(crate) seed: u32,
    pub(crate) end: u32,
    /// Between the end and this offset there may be bytes of a failed append. The next append
    /// overwrites them, because otherwise they could pass for records that follow it.
    pub(crate) dirty_end: u32,
    pub(crate) file_bytes: u64,
}

#[derive(Debug)]
struct Poison {
    path: PathBuf,
    cause: String,
}

impl Active {
    /// Opens the last segment of a recovery, whose records end at `end`, for appending.
    pub(crate) fn recovered(
        file: File,
        path: &Path,
        header: &Header,
        end: u32,
        bytes: u64,
    ) -> Self {
        let (sequence, seed) = (header.sequence, header.seed());
        Self { file, path: path.to_owned(), sequence, seed, end, dirty_end: end, file_bytes: bytes }
    }
}

impl Appender {
    /// Continues after `before`, in a new segment.
    pub(crate) fn after(directory: &Path, format: &'static Format, before: Position) -> Self {
        Self {
            directory: directory.to_owned(),
            format,
            before,
            active: None,
            synced: before,
            buffer: Vec::new(),
            poison: None,
        }
    }

    /// Continues in `active`, whose content is durable except for a torn tail of this many bytes
    /// after its end, which is cut.
    pub(crate) fn resume(
        directory: &Path,
        format: &'static Format,
        active: Active,
        torn_bytes: u64,
    ) -> Result<Self> {
        let mut appender = Self::after(directory, format, Position::default());
        if torn_bytes > 0 {
            active.cut_tail(torn_bytes)?;
        }
        appender.active = Some(active);
        appender.synced = appender.end();
        Ok(appender)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The position of the next record.
    pub(crate) fn end(&self) -> Position {
        self.active
            .as_ref()
            .map_or(self.before, |active| Position { segment: active.sequence, offset: active.end })
    }

    /// Everything before this is durable.
    pub(crate) fn synced(&self) -> Position {
        self.synced
    }

    /// The free space for records in the active segment, in bytes.
    pub(crate) fn room(&self) -> u64 {
        self.active.as_ref().map_or(0, |a| a.file_bytes.saturating_sub(u64::from(a.end)))
    }

    /// Appends records with one write. The caller ensures that there is an active segment with room
    /// for them.
    pub(crate) fn append<'a>(
        &mut self,
        records: impl IntoIterator<Item = RecordRef<'a>>,
    ) -> Result<()> {
        self.check_poison()?;
        let Some(active) = self.active.as_mut() else { return Ok(()) };
        let start = active.end;
        self.buffer.clear();
        let mut position = Position { segment: active.sequence, offset: start };
        for record in records {
            record::encode(&mut self.buffer, active.seed, position, self.synced, &record);
            position.offset += record::stored_bytes(record.payload.len());
        }
        let written = self.buffer.len().max(active.dirty_end.saturating_sub(start) as usize);
        self.buffer.resize(written, 0);
        if let Err(e) = active.file.write_all_at(&self.buffer, u64::from(start)) {
            let reached = start.saturating_add(u32::try_from(written).unwrap_or(u32::MAX));
            active.dirty_end = active.dirty_end.max(reached);
            return Err(Error::io("write to", &active.path, written as u64)(e));
        }
        active.end = position.offset;
        active.dirty_end = position.offset;
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Makes everything appended durable with one fdatasync, or none if everything is durable
    /// already.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_poison()?;
        let end = self.end();
        let Some(active) = self.active.as_ref().filter(|_| self.synced != end) else {
            return Ok(());
        };
        if let Err(e) = active.file.sync_data() {
            let path = active.path.clone();
            return Err(self.poison(path, e.to_string()));
        }
        self.synced = end;
        Ok(())
    }

    /// Starts a new segment of `segment_bytes`, or more if needed to hold `needed_bytes` of records
    /// after `preface`, and returns it. The old segment is made durable first, as the new one's
    /// header states.
    pub(crate) fn roll(
        &mut self,
        begin: Begin,
        preface: Option<&RecordRef<'_>>,
        segment_bytes: u32,
        needed_bytes: u32,
    ) -> Result<&Active> {
        self.sync()?;
        let preface_bytes = preface.map_or(0, |r| record::stored_bytes(r.payload.len()));
        let room = SEGMENT_HEADER_BYTES.saturating_add(preface_bytes).saturating_add(needed_bytes);
        let file_bytes = segment_bytes.max(room);
        let previous = self.end();
        let made =
            file::prepare(&self.directory, self.format, begin, previous, file_bytes, preface)?;
        made.rename()?;
        if let Err(e) = disk::sync_directory(&self.directory) {
            return Err(self.poison(self.directory.clone(), e.to_string()));
        }
        let bytes = u64::from(made.file_bytes);
        let active = Active::recovered(made.file, &made.path, &made.header, made.end, bytes);
        self.synced = Position { segment: active.sequence, offset: active.end };
        Ok(self.active.insert(active))
    }

    /// Fails after a failed sync.
    pub(crate) fn check_poison(&self) -> Result<()> {
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

    /// For tests that replace the file.
    #[cfg(test)]
    pub(crate) fn active_mut(&mut self) -> &mut Active {
        self.active.as_mut().unwrap()
    }
}

impl Active {
    /// Overwrites a torn tail with zeros, because its bytes could pass for records later.
    fn cut_tail(&self, bytes: u64) -> Result<()> {
        let zeros = vec![0; 1 << 20];
        let mut offset = u64::from(self.end);
        let end = offset + bytes;
        while offset < end {
            let chunk = usize::try_from(end - offset).unwrap_or(usize::MAX).min(zeros.len());
            self.file.write_all_at(&zeros[..chunk], offset).map_err(Error::io(
                "cut the torn tail of",
                &self.path,
                bytes,
            ))?;
            offset += chunk as u64;
        }
        self.file.sync_data().map_err(Error::io("sync", &self.path, bytes))
    }
}
