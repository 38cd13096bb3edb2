//! Helpers shared by the tests of the event stream.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use store::Error;
use store::events::{Cursor, Event, Events, Limit, Options, Reader};

/// Small segments, so that a test sees many of them.
pub const SMALL: Options = Options { segment_bytes: 4096, bytes_max: u64::MAX };

/// An event with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub cursor: Cursor,
    pub time_us: u64,
    pub payload: Vec<u8>,
}

impl Owned {
    pub fn event(&self) -> Event<'_> {
        let Cursor { index, sub } = self.cursor;
        Event { index, sub, time_us: self.time_us, payload: &self.payload }
    }
}

pub fn at(index: u64, sub: u32) -> Cursor {
    Cursor { index, sub }
}

/// The events of an operation: none to four, at a time of ten microseconds times its index.
pub fn operation(index: u64) -> Vec<Owned> {
    let subs = [3, 1, 0, 4][usize::try_from(index % 4).unwrap()];
    let subs = if index.is_multiple_of(5) { 3 } else { subs };
    (0..subs)
        .map(|sub| {
            let cursor = at(index, sub);
            Owned { cursor, time_us: index * 10, payload: payload(cursor) }
        })
        .collect()
}

/// A payload that differs for every event, in content and length, without zero bytes.
pub fn payload(cursor: Cursor) -> Vec<u8> {
    let length = usize::try_from(cursor.index * 7 + u64::from(cursor.sub) * 3).unwrap() % 60;
    format!("{cursor} happened, and so on and so forth, as was to be expected by all")
        .into_bytes()
        .into_iter()
        .take(12 + length)
        .collect()
}

/// The identities of the events of some operations.
pub fn cursors(operations: RangeInclusive<u64>) -> Vec<Cursor> {
    operations.flat_map(operation).map(|event| event.cursor).collect()
}

/// Opens a stream without damage.
pub fn open(directory: &Path) -> Events {
    let (events, opened) = Events::open(directory, SMALL).unwrap();
    assert!(opened.damage.is_empty(), "{:?}", opened.damage);
    events
}

/// Appends the events of some operations, and returns how many were new.
pub fn append(events: &mut Events, operations: RangeInclusive<u64>) -> usize {
    let owned: Vec<_> = operations.flat_map(operation).collect();
    let batch: Vec<_> = owned.iter().map(Owned::event).collect();
    events.append(&batch).unwrap()
}

/// Continues reading, and returns what was read and the position after it.
pub fn read(
    reader: &mut Reader,
    from: Cursor,
    limit: Limit,
) -> Result<(Vec<Owned>, Cursor), Error> {
    let mut found = Vec::new();
    let next = reader.read(from, limit, |event| {
        let (cursor, time_us, payload) = (event.cursor(), event.time_us, event.payload.to_vec());
        found.push(Owned { cursor, time_us, payload });
        Ok::<_, Error>(())
    })?;
    Ok((found, next))
}

/// Everything from a position on.
pub fn read_all(reader: &mut Reader, from: Cursor) -> Vec<Owned> {
    read(reader, from, Limit::NONE).unwrap().0
}

/// For a read that visits nothing.
pub fn unexpected(event: Event<'_>) -> Result<(), Error> {
    panic!("{} was not to be shown", event.cursor())
}

/// The segments' files, oldest first.
pub fn event_files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "events"))
        .collect();
    files.sort();
    files
}

/// The end of a segment's last record, whose payload does not end with a zero.
pub fn end(content: &[u8]) -> usize {
    content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1).next_multiple_of(8)
}

/// The position at which a segment starts.
pub fn first_of(file: &Path) -> Cursor {
    let content = fs::read(file).unwrap();
    let index = u64::from_le_bytes(content[24..32].try_into().unwrap());
    at(index, u32::from_le_bytes(content[52..56].try_into().unwrap()))
}
