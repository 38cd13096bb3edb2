//! A second writer of segment files, made from the tables in `store::log` and `store::events` and not
//! from their code: it can write what that one never would, and its salt is not random, so that a
//! run can be repeated.

use store::events::{Cursor, Event};
use store::log::{Position, RecordKind};

/// Where the records of a segment begin, in bytes.
pub(crate) const RECORDS_AT: usize = 64;

/// One segment file being written.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    bytes: Vec<u8>,
    sequence: u64,
    first_index: u64,
    salt: u64,
    suffix: &'static str,
}

impl SegmentWriter {
    /// Begins a segment of a log that follows the position at which the one before ends, in which
    /// entries replaced earlier ones from `replaced_from` on.
    #[must_use]
    pub(crate) fn new(
        sequence: u64,
        first_index: u64,
        replaced_from: u64,
        previous: Position,
    ) -> Self {
        let begin = Cursor::at(first_index);
        Self::begin("log", b"BOURGLOG", sequence, begin, replaced_from, previous)
    }

    /// Begins a segment of an event stream, which has all events from `begin` on; the one before
    /// ends at `previous`, and the last event in it was at `time_us`.
    #[must_use]
    pub(crate) fn events(sequence: u64, begin: Cursor, time_us: u64, previous: Position) -> Self {
        Self::begin("events", b"BOURGEVT", sequence, begin, time_us, previous)
    }

    fn begin(
        suffix: &'static str,
        magic: &[u8; 8],
        sequence: u64,
        begin: Cursor,
        note: u64,
        previous: Position,
    ) -> Self {
        let salt = 0x5a17_u64.wrapping_mul(sequence);
        let mut bytes = magic.to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0; 4]);
        for number in [sequence, begin.index, salt, previous.segment] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(previous.offset.to_le_bytes());
        bytes.extend(begin.sub.to_le_bytes());
        bytes.extend(note.to_le_bytes());
        assert_eq!(bytes.len(), RECORDS_AT);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        Self { bytes, sequence, first_index: begin.index, salt, suffix }
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event: Event<'_>, synced: Position) {
        self.add(RecordKind::Entry, event.time_us, event.index, event.sub, event.payload, synced);
    }

    /// Adds the mark that all events up to an index are there.
    pub(crate) fn mark(&mut self, through: u64, synced: Position) {
        self.add(RecordKind::HardState, 0, through, 0, &[], synced);
    }

    /// Adds a record that says that all before `synced` was durable.
    ///
    /// # Panics
    /// Where the segment would have more than 4 GiB.
    pub(crate) fn record(
        &mut self,
        kind: RecordKind,
        term: u64,
        index: u64,
        payload: &[u8],
        synced: Position,
    ) {
        self.add(kind, term, index, 1, payload, synced);
    }

    fn add(
        &mut self,
        kind: RecordKind,
        term: u64,
        index: u64,
        level: u32,
        payload: &[u8],
        synced: Position,
    ) {
        let padded =
            [payload, &[0; 7][..payload.len().next_multiple_of(8) - payload.len()]].concat();
        let length = u32::try_from(payload.len()).expect("a short payload");
        let mut header = crc32c::crc32c(&padded).to_le_bytes().to_vec();
        for number in [term, index, synced.segment] {
            header.extend(number.to_le_bytes());
        }
        header.extend(synced.offset.to_le_bytes());
        header.extend(length.to_le_bytes());
        header.extend(level.to_le_bytes());
        let kind = match kind {
            RecordKind::Entry => 1,
            RecordKind::HardState => 2,
            RecordKind::Restart => 3,
        };
        header.extend([kind, 0, 0, 0]);
        let checksum = [&self.salt.to_le_bytes()[..], &self.sequence.to_le_bytes()]
            .into_iter()
            .chain([&self.end().offset.to_le_bytes()[..], &header])
            .fold(0, crc32c::crc32c_append);
        self.bytes.extend(checksum.to_le_bytes());
        self.bytes.extend(header);
        self.bytes.extend(padded);
    }

    /// Where the next record goes.
    ///
    /// # Panics
    /// Where the segment has more than 4 GiB.
    #[must_use]
    pub(crate) fn end(&self) -> Position {
        let offset = u32::try_from(self.bytes.len()).expect("a small segment");
        Position { segment: self.sequence, offset }
    }

    /// The name of the file.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        format!("{:016}-{:020}.{}", self.sequence, self.first_index, self.suffix)
    }

    /// The content of the file.
    #[must_use]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
