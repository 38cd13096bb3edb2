//! Deletes the oldest part of the log.

use std::fs;

use super::append::Log;
use crate::{Error, Result, disk};

impl Log {
    /// Deletes old segments whose entries are all below `index`, and returns how many. The active
    /// segment is never deleted, nor are the newest [`super::Options::keep_bytes`] of records.
    ///
    /// The caller must have a durable snapshot that includes all entries below `index`.
    ///
    /// # Errors
    /// [`Error::Io`]; segments deleted before the failure stay deleted, and the log continues.
    /// [`Error::Poisoned`] after a failed sync.
    pub fn truncate_prefix(&mut self, index: u64) -> Result<usize> {
        self.appender.check_poison()?;
        let mut kept: u64 = self.segments().map(|segment| u64::from(segment.end)).sum();
        let mut deleted = 0;
        while let [oldest, _, ..] = &self.segments[..] {
            kept = kept.saturating_sub(u64::from(oldest.end));
            let needed = oldest.last_index.is_some_and(|last| last >= index);
            if needed || kept < self.options.keep_bytes {
                break;
            }
            fs::remove_file(&oldest.path).map_err(Error::io("delete", &oldest.path, 0))?;
            let oldest = self.segments.remove(0);
            self.survivors.forget_segment(oldest.sequence);
            deleted += 1;
            // One by one: a crash may leave older segments missing, never a later one.
            disk::sync_directory(self.appender.directory())?;
        }
        Ok(deleted)
    }
}
