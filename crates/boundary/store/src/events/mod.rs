//! The event stream on a replica's own disk: what the operations of the log caused, in order, kept
//! for whoever follows it.
//!
//! An event is named by the index of its operation and its place among that operation's events,
//! from 0: a [`Cursor`]. What an event says is the caller's, and opaque here. One process appends
//! with [`Events`]; any number read with [`Reader`], in that process or in others.
//!
//! # Nothing lost and nothing doubled
//! Events follow from the log, so that they need no sync of their own: what a crash takes, the
//! caller appends again. Its side of it:
//!
//! 1. Before a checkpoint at index C is declared done, [`Events::sync`] with C: every event of an
//!    operation up to C has been appended.
//! 2. At a start from a checkpoint at C, [`Events::resume`] with C + 1, then every event of the
//!    operations after C is appended again. Those that are there are passed over, up to the very
//!    event at which the crash cut, in the middle of an operation's too.
//! 3. Where the state jumps, because a checkpoint was fetched from elsewhere, [`Events::resume`]
//!    again, with the next index.
//!
//! Whatever is missing before the index of [`Events::resume`] is stated in the files, so that a
//! reader gets [`crate::Error::EventsLost`] in that place and never passes over it unaware. The
//! same goes for what retention deletes: [`crate::Error::EventsTooLate`].
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
//! A segment whose beginning lies after the last event of the one before states that what is
//! between is lost. Each begins with a copy of the newest mark, if there is any.
//!
//! # Damage
//! As in the log, a torn tail is told from damage. Damage keeps nobody from going on: the damaged
//! segment ends in front of it, the next one states what is lost, and readers are told.

mod append;
mod open;
mod read;
mod retain;

use std::path::PathBuf;

pub use crate::cursor::Cursor;
pub use append::Events;
pub use open::Opened;
pub use read::{Limit, Reader};

use crate::Error;
use crate::segments::record::{Head, Kind, Record, RecordRef};
use crate::segments::{self, Begin, Format, Header};

/// The largest payload of one event, in bytes: 1 MiB.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

pub(crate) const FORMAT: Format = Format {
    magic: *b"BOURGEVT",
    suffix: ".events",
    irreplaceable: false,
    damaged: |path, offset, why| Error::DamagedEvents { path, offset, why, next: None },
};

/// How events are kept in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size at which a segment is preallocated, in bytes: what retention deletes at once.
    /// Taken as at least 4 KiB and at most 1 GiB.
    pub segment_bytes: u64,
}

impl Default for Options {
    /// Segments of 16 MiB.
    fn default() -> Self {
        Self { segment_bytes: 16 << 20 }
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

    /// Where the segment with this header begins.
    fn begin(header: &Header) -> Self {
        Self { index: header.begin.first_index, sub: header.begin.first_sub }
    }

    /// The header's part for a segment that begins here.
    fn begin_after(self, last_time_us: u64) -> Begin {
        Begin { first_index: self.index, first_sub: self.sub, note: last_time_us }
    }
}

/// An event, to append or as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The index of its operation in the log, from 1.
    pub index: u64,
    /// Its place among the events of that operation, from 0.
    pub sub: u32,
    /// When it was, in microseconds since 1970: never less than the event before it.
    pub time_us: u64,
    /// Opaque bytes, at most [`MAX_EVENT_BYTES`]; may be empty.
    pub payload: &'a [u8],
}

impl<'a> Event<'a> {
    /// Its name.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { index: self.index, sub: self.sub }
    }

    fn record(&self) -> RecordRef<'a> {
        let Self { index, sub, time_us, payload } = *self;
        RecordRef { kind: Kind::Entry, term: time_us, index, level: sub, payload }
    }

    fn of(record: &Record<'a>) -> Self {
        let Record { term, index, level, payload, .. } = *record;
        Self { index, sub: level, time_us: term, payload }
    }
}

/// The record that says that all events up to `through` are there.
fn mark(through: u64) -> RecordRef<'static> {
    RecordRef { kind: Kind::HardState, term: 0, index: through, level: 0, payload: &[] }
}

/// One segment of an open stream.
#[derive(Debug, Clone)]
struct Segment {
    path: PathBuf,
    /// No event in it is later.
    last_time_us: u64,
    file_bytes: u64,
}
