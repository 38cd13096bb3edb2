//! Deleting the old end of the log.

use std::fs;

use super::append::Log;
use crate::{Error, Result, disk};

impl Log {
    /// Deletes whole old segments all of whose entries are below `index`, and gives how many. The
    /// active segment always stays, and so do [`super::Options::keep_bytes`] of records.
    ///
    /// For a caller whose durable snapshot holds all entries below `index`.
    ///
    /// # Errors
    /// [`Error::Io`]; the segments deleted before the failure are gone, the log goes on.
    /// [`Error::Poisoned`] once a sync failed.
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
            // Each before the next: a crash may leave older segments missing, never a later one.
            disk::sync_directory(self.appender.directory())?;
        }
        Ok(deleted)
    }
}
