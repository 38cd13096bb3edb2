//! What a recovery found: borrowed by the caller to rebuild its state, then dropped.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::recover::{self, Scan};
use super::replay;
use super::segment::SegmentInfo;
use super::survivors::{HardState, Survivors};
use crate::segments::record::Record;
use crate::{Error, Result};

/// Whether a recovery had to cut something, to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The log ended with a whole record.
    None,
    /// The last write had not reached the disk whole, and was cut. It was not synced, unless the disk
    /// lost what it had said it had.
    TornTail {
        /// The segment's file.
        segment: PathBuf,
        /// Where the cut begins, in bytes from the start of the file.
        offset: u64,
        /// How many bytes from there to the last one that was not zero.
        bytes: u64,
    },
}

/// The content of a log as a recovery found it, in order, without what later records replaced.
///
/// Entries are read from the segments when asked for. Read them before the log is appended to or
/// truncated: what is deleted meanwhile is an error here, what is appended is not seen.
#[derive(Debug)]
pub struct Recovered {
    directory: PathBuf,
    /// In order of their sequence numbers.
    segments: Vec<SegmentInfo>,
    survivors: Survivors,
    repair: Repair,
    ignored: Vec<String>,
}

impl Recovered {
    /// Reads a log that another process may have open, changing nothing: for tools that look into
    /// the past. A torn tail is reported, and left alone.
    ///
    /// # Errors
    /// [`Error::DamagedLog`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn inspect(directory: impl AsRef<Path>) -> Result<Self> {
        let directory = directory.as_ref();
        recover::scan(directory, 0, true).map(|scan| Self::of(directory, scan))
    }

    /// Looks at a log that another process may have open, as [`Self::inspect`] does, and reads of
    /// it no more than its last segment where the headers say enough about the others.
    pub(crate) fn look(directory: &Path) -> Result<Self> {
        recover::scan(directory, u64::MAX, true).map(|scan| Self::of(directory, scan))
    }

    pub(super) fn of(directory: &Path, scan: Scan) -> Self {
        let segments = scan.segments.into_iter().map(|segment| segment.info).collect();
        let Scan { survivors, repair, ignored, .. } = scan;
        Self { directory: directory.to_owned(), segments, survivors, repair, ignored }
    }

    /// The segments, oldest first, as they were found.
    #[must_use]
    pub fn segments(&self) -> &[SegmentInfo] {
        &self.segments
    }

    /// The index of the first entry. `None` if there is no entry.
    #[must_use]
    pub fn first_index(&self) -> Option<u64> {
        self.survivors.first_index()
    }

    /// Index and term of the last entry, or those of the restart if no entry followed it.
    #[must_use]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.survivors.last
    }

    /// Index and term of the last restart, unless its segment is deleted by now.
    #[must_use]
    pub fn restart(&self) -> Option<(u64, u64)> {
        self.survivors.restart
    }

    /// How many entries there are.
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

    /// Names in the directory that are not ours, left where they are.
    #[must_use]
    pub fn ignored_files(&self) -> &[String] {
        &self.ignored
    }

    /// Shows every entry from index `from` on, in order, with its payload borrowed. Nothing is
    /// allocated for a record.
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

    /// Shows the entries of which the index is in the range, as [`Self::for_each`] does.
    pub(crate) fn for_range<E: From<Error>>(
        &self,
        range: RangeInclusive<u64>,
        visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        replay::for_each(&self.directory, &self.segments, &self.survivors.runs, range, visit)
    }
}
