//! Metadata of a segment of the log.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::segments::record::{Record, RecordKind};
use crate::segments::{Begin, Format, Header};

/// The format of the log's segments.
pub(crate) const FORMAT: Format = Format {
    magic: *b"BOURGLOG",
    suffix: ".log",
    irreplaceable: true,
    damaged: |path, offset, why| Error::DamagedLog { path, offset, why },
};

/// A segment of an open log, as needed to decide about deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its sequence number, from 1.
    pub sequence: u64,
    /// Its file, whose modification time is that of the last append.
    pub path: PathBuf,
    /// The index of the next entry when the segment was created.
    pub first_index: u64,
    /// The highest index of an entry in it, even if a later entry replaced it. `None` if it
    /// contains no entries.
    pub last_index: Option<u64>,
    /// The lowest index from which an entry in it replaced earlier ones. `None` if none did. 0 if
    /// it contains a restart record, or if unknown.
    pub replaced_from: Option<u64>,
    /// The end of its records, in bytes from the start of the file.
    pub end: u32,
    /// The size of the file, including the space preallocated after the records.
    pub file_bytes: u64,
}

/// The header's value for "nothing was replaced".
const NOTHING_REPLACED: u64 = u64::MAX;

impl SegmentInfo {
    /// A segment in which no record has been found yet.
    pub(super) fn empty(path: &Path, header: &Header, end: u32, file_bytes: u64) -> Self {
        Self {
            sequence: header.sequence,
            path: path.to_owned(),
            first_index: header.begin.first_index,
            last_index: None,
            replaced_from: None,
            end,
            file_bytes,
        }
    }

    /// A segment that need not be read, because the next one's header states that it is regular:
    /// its entries are consecutive, from its first index up to the next segment's. `None` if that
    /// is not so.
    pub(super) fn plain(
        path: &Path,
        header: &Header,
        next: &Header,
        file_bytes: u64,
    ) -> Option<Self> {
        let (first, after) = (header.begin.first_index, next.begin.first_index);
        // A segment created before any index was known has the first index 0.
        let plain = first > 0 && after >= first && next.begin.note == NOTHING_REPLACED;
        plain.then(|| Self {
            last_index: (after > first).then(|| after - 1),
            ..Self::empty(path, header, next.previous.offset, file_bytes)
        })
    }

    /// The header fields of the next segment that describe this one.
    pub(super) fn begin_next(&self, first_index: u64) -> Begin {
        let note = self.replaced_from.unwrap_or(NOTHING_REPLACED);
        Begin { first_index, first_sub: 0, note }
    }

    /// Processes the next record, which voids what was there from an index on.
    pub(super) fn note(&mut self, record: &Record<'_>, voided_from: Option<u64>) {
        let mut voided_from = voided_from;
        if record.kind == RecordKind::Entry {
            if self.last_index.is_none()
                && voided_from.is_none()
                && record.index != self.first_index
            {
                // The segment does not match its header: it must be read, not inferred.
                voided_from = Some(0);
            }
            self.last_index = self.last_index.max(Some(record.index));
        }
        let lowest = [self.replaced_from, voided_from].into_iter().flatten().min();
        self.replaced_from = lowest;
    }
}
