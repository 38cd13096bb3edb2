//! The event stream on a replica's own disk: the consequences of the log's operations, in order,
//! retained for followers.
//!
//! An event is identified by the index of its operation and its position among that operation's
//! events, from 0: a [`Cursor`]. Payloads are opaque here. One process appends with [`Events`]; any
//! number of readers, in that process or in others, use [`Reader`].
//!
//! # No loss and no duplicates
//! Events can be derived from the log, so they need no sync of their own: the caller appends again
//! what a crash loses. The caller's obligations:
//!
//! 1. Before a checkpoint at index C is declared finished, call [`Events::sync`] with C: every
//!    event of an operation up to C has been appended.
//! 2. When starting from a checkpoint at C, call [`Events::resume`] with C + 1, then append every
//!    event of the operations after C again. Stored events are skipped, up to the very event at
//!    which the crash cut the stream, even in the middle of an operation.
//! 3. When the state jumps because a checkpoint was fetched from another replica, call
//!    [`Events::resume`] again, with the next index.
//!
//! What is missing before the index given to [`Events::resume`] is recorded in the files, so a
//! reader gets [`crate::Error::EventsLost`] at that place and never skips it unaware. The same
//! holds for events deleted by retention: [`crate::Error::EventsTooLate`].
//!
//! # Files
//! Segments and records are those of [`crate::log`], with these differences:
//!
//! | | |
//! |---|---|
//! | name | `<sequence, 16 digits>-<index, 20 digits>.events` |
//! | header, 0 | magic `BOURGEVT` |
//! | header, 24 and 52 | index (8 bytes) and place (4) from which on this segment has all events |
//! | header, 56 | time of the last event before this segment, 0 if there is none |
//! | record, 8 | time in microseconds |
//! | record, 16 and 40 | index and place among the events of that index |
//! | record, kind 1 | an event |
//! | record, kind 2 | a mark without payload: all events up to its index are there, or stated as lost |
//!
//! A segment that starts after the end of the previous one records that the events in between are
//! lost. Each segment starts with a copy of the newest mark, if there is one.
//!
//! # Damage
//! As in the log, a torn tail is distinguished from damage. Damage does not stop the stream: the
//! damaged segment ends before it, the next one records what is lost, and readers are told.

mod append;
mod fill;
mod open;
mod read;
mod retain;

use std::path::PathBuf;

pub use crate::cursor::Cursor;
pub use append::Events;
pub use fill::{Handed, Source, Take};
pub use open::Opened;
pub use read::{Limit, Reader};

use crate::Error;
use crate::segments::record::{Head, Record, RecordKind, RecordRef};
use crate::segments::{self, Begin, Format, Header};

/// The maximum payload of one event, in bytes: 1 MiB.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

pub(crate) const FORMAT: Format = Format {
    magic: *b"BOURGEVT",
    suffix: ".events",
    irreplaceable: false,
    damaged: |path, offset, why| Error::DamagedEvents { path, offset, why, next: None },
};

/// How a stream stores its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size at which a segment is preallocated, in bytes, which is also the unit of deletion.
    /// Clamped to 4 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// The maximum size of all segments, which holds at any time: before a segment begins, the oldest are
    /// deleted until there is room for it. The segment that takes appends is never deleted.
    pub bytes_max: u64,
}

impl Default for Options {
    /// Segments of 16 MiB, as many as come.
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, bytes_max: u64::MAX }
    }
}

impl Options {
    /// Segments that together never have more than this size: of 16 MiB, or smaller if only few of them
    /// fitted.
    #[must_use]
    pub fn of_at_most(bytes_max: u64) -> Self {
        let segment_bytes = (bytes_max / 8).min(Self::default().segment_bytes);
        Self { segment_bytes, bytes_max }
    }
}

impl Options {
    fn segment_bytes(self) -> u32 {
        segments::segment_bytes(self.segment_bytes)
    }
}

impl Cursor {
    fn of(head: &Head) -> Self {
        Self { index: head.index, sub: head.level }
    }

    /// The start of the segment with this header.
    fn begin(header: &Header) -> Self {
        Self { index: header.begin.first_index, sub: header.begin.first_sub }
    }

    /// The header's fields for a segment that starts here.
    fn begin_after(self, last_time_us: u64) -> Begin {
        Begin { first_index: self.index, first_sub: self.sub, note: last_time_us }
    }
}

/// An event, to append or as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The log index of its operation, from 1.
    pub index: u64,
    /// Its position among the events of that operation, from 0.
    pub sub: u32,
    /// The time in microseconds since 1970, never less than the previous event's.
    pub time_us: u64,
    /// Opaque bytes, at most [`MAX_EVENT_BYTES`]; may be empty.
    pub payload: &'a [u8],
}

impl<'a> Event<'a> {
    /// Its identity.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { index: self.index, sub: self.sub }
    }

    fn record(&self) -> RecordRef<'a> {
        let Self { index, sub, time_us, payload } = *self;
        RecordRef { kind: RecordKind::Entry, term: time_us, index, level: sub, payload }
    }

    fn of(record: &Record<'a>) -> Self {
        let Record { term, index, level, payload, .. } = *record;
        Self { index, sub: level, time_us: term, payload }
    }
}

/// The record that marks that all events up to `through` are stored.
fn mark(through: u64) -> RecordRef<'static> {
    RecordRef { kind: RecordKind::HardState, term: 0, index: through, level: 0, payload: &[] }
}

/// One segment of an open stream.
#[derive(Debug, Clone)]
struct Segment {
    path: PathBuf,
    /// No event in it is later.
    last_time_us: u64,
    file_bytes: u64,
}
