//! What is known of a segment of the log.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::segments::record::{Kind, Record};
use crate::segments::{Begin, Format, Header};

/// The log's segments.
pub(crate) const FORMAT: Format = Format {
    magic: *b"BOURGLOG",
    suffix: ".log",
    irreplaceable: true,
    damaged: |path, offset, why| Error::DamagedLog { path, offset, why },
};

/// A segment of an open log, to decide what may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its sequence number, from 1.
    pub sequence: u64,
    /// Its file. The file's time of modification is that of the last append to it.
    pub path: PathBuf,
    /// The index that the next entry had when it was made.
    pub first_index: u64,
    /// The highest index of an entry in it, also where a later entry replaced it. `None` if it
    /// holds no entries.
    pub last_index: Option<u64>,
    /// The lowest index from which an entry in it replaced earlier ones. `None` if none did. 0 if
    /// a restart is in it, or if nobody noted it.
    pub replaced_from: Option<u64>,
    /// Where its records end, in bytes from the start of the file.
    pub end: u32,
    /// The size of the file, with the room preallocated behind the records.
    pub file_bytes: u64,
}

/// How a header says that nothing was replaced.
const NOTHING_REPLACED: u64 = u64::MAX;

impl SegmentInfo {
    /// A segment in which nothing has been found yet.
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

    /// One that is not read, because the next one's header says that nothing in it was unusual:
    /// all entries from its first index on follow each other, up to that of the next one. `None`
    /// where that is not so.
    pub(super) fn plain(
        path: &Path,
        header: &Header,
        next: &Header,
        file_bytes: u64,
    ) -> Option<Self> {
        let (first, after) = (header.begin.first_index, next.begin.first_index);
        // A first index of 0 was made when no index was known.
        let plain = first > 0 && after >= first && next.begin.note == NOTHING_REPLACED;
        plain.then(|| Self {
            last_index: (after > first).then(|| after - 1),
            ..Self::empty(path, header, next.previous.offset, file_bytes)
        })
    }

    /// What the header of the next segment says about this one.
    pub(super) fn begin_next(&self, first_index: u64) -> Begin {
        let note = self.replaced_from.unwrap_or(NOTHING_REPLACED);
        Begin { first_index, first_sub: 0, note }
    }

    /// Takes the next record into account, which voids what was there from an index on.
    pub(super) fn note(&mut self, record: &Record<'_>, voided_from: Option<u64>) {
        let mut voided_from = voided_from;
        if record.kind == Kind::Entry {
            if self.last_index.is_none()
                && voided_from.is_none()
                && record.index != self.first_index
            {
                // Not what the header announces: to be read and not reckoned.
                voided_from = Some(0);
            }
            self.last_index = self.last_index.max(Some(record.index));
        }
        let lowest = [self.replaced_from, voided_from].into_iter().flatten().min();
        self.replaced_from = lowest;
    }
}
