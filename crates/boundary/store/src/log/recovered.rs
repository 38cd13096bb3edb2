//! The result of a recovery: borrowed by the caller to rebuild its state, then dropped.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::recover::{self, Scan};
use super::replay;
use super::segment::SegmentInfo;
use super::survivors::{HardState, Survivors};
use crate::segments::record::Record;
use crate::{Error, Result};

/// Whether a recovery had to cut something, for logging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The log ended with a complete record.
    None,
    /// The last write was incomplete on disk and was cut. It had not been synced, unless the disk
    /// lost data that it had reported as durable.
    TornTail {
        /// The segment's file.
        segment: PathBuf,
        /// Where the cut starts, in bytes from the start of the file.
        offset: u64,
        /// The number of bytes from there to the last non-zero byte.
        bytes: u64,
    },
}

/// The content of a log as found by a recovery, in order, without replaced entries.
///
/// Entries are read from the segments on demand. Read them before the log is appended to or
/// truncated: entries deleted meanwhile cause an error, appended ones are not included.
#[derive(Debug)]
pub struct Recovered {
    directory: PathBuf,
    /// Ordered by sequence number.
    segments: Vec<SegmentInfo>,
    survivors: Survivors,
    repair: Repair,
    ignored: Vec<String>,
}

impl Recovered {
    /// Reads a log that another process may have open, without changing anything: for tools that
    /// inspect the past. A torn tail is reported and left alone.
    ///
    /// # Errors
    /// [`Error::DamagedLog`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn inspect(directory: impl AsRef<Path>) -> Result<Self> {
        let directory = directory.as_ref();
        recover::scan(directory, 0, true).map(|scan| Self::of(directory, scan))
    }

    /// Like [`Self::inspect`], but reads only the last segment if the headers describe the others
    /// sufficiently.
    pub(crate) fn look(directory: &Path) -> Result<Self> {
        recover::scan(directory, u64::MAX, true).map(|scan| Self::of(directory, scan))
    }

    pub(super) fn of(directory: &Path, scan: Scan) -> Self {
        let segments = scan.segments.into_iter().map(|segment| segment.info).collect();
        let Scan { survivors, repair, ignored, .. } = scan;
        Self { directory: directory.to_owned(), segments, survivors, repair, ignored }
    }

    /// The segments found, oldest first.
    #[must_use]
    pub fn segments(&self) -> &[SegmentInfo] {
        &self.segments
    }

    /// The index of the first entry. `None` if there is no entry.
    #[must_use]
    pub fn first_index(&self) -> Option<u64> {
        self.survivors.first_index()
    }

    /// The index and term of the last entry, or of the restart record if no entry followed it.
    #[must_use]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.survivors.last
    }

    /// The index and term of the last restart record, unless its segment has been deleted.
    #[must_use]
    pub fn restart(&self) -> Option<(u64, u64)> {
        self.survivors.restart
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.survivors.entries()
    }

    /// The newest hard state.
    #[must_use]
    pub fn hard_state(&self) -> Option<&HardState> {
        self.survivors.hard_state.as_ref()
    }

    /// Whether something was cut.
    #[must_use]
    pub fn repair(&self) -> &Repair {
        &self.repair
    }

    /// Foreign names in the directory, which are left alone.
    #[must_use]
    pub fn ignored_files(&self) -> &[String] {
        &self.ignored
    }

    /// Visits every entry from index `from` on, in order, with its payload borrowed. Nothing is
    /// allocated per record.
    ///
    /// # Errors
    /// Those of `visit`, [`Error::Io`], [`Error::Deleted`] if a segment was deleted since the
    /// recovery, and [`Error::DamagedLog`] if one changed.
    pub fn for_each<E: From<Error>>(
        &self,
        from: u64,
        visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_range(from..=u64::MAX, visit)
    }

    /// Visits the entries whose index is in the range, as [`Self::for_each`] does.
    pub(crate) fn for_range<E: From<Error>>(
        &self,
        range: RangeInclusive<u64>,
        visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        replay::for_each(&self.directory, &self.segments, &self.survivors.runs, range, visit)
    }
}
