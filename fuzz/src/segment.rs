//! A second writer of segment files, made from the tables in `store::log` and not from its code: it
//! can write what that one never would, and its salt is not random, so that a run can be repeated.

use store::log::{Kind, Position};

/// Where the records of a segment begin, in bytes.
pub const RECORDS_AT: usize = 64;

/// One segment file being written.
#[derive(Debug)]
pub struct SegmentWriter {
    bytes: Vec<u8>,
    sequence: u64,
    first_index: u64,
    salt: u64,
}

impl SegmentWriter {
    /// Begins a segment that follows the position at which the one before ends.
    #[must_use]
    pub fn new(sequence: u64, first_index: u64, previous: Position) -> Self {
        let salt = 0x5a17_u64.wrapping_mul(sequence);
        let mut bytes = b"BOURGLOG".to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0; 4]);
        for number in [sequence, first_index, salt, previous.segment] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(previous.offset.to_le_bytes());
        bytes.resize(RECORDS_AT, 0);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        Self { bytes, sequence, first_index, salt }
    }

    /// Adds a record that says that all before `synced` was durable.
    ///
    /// # Panics
    /// Where the segment would have more than 4 GiB.
    pub fn record(&mut self, kind: Kind, term: u64, index: u64, payload: &[u8], synced: Position) {
        let padded =
            [payload, &[0; 7][..payload.len().next_multiple_of(8) - payload.len()]].concat();
        let length = u32::try_from(payload.len()).expect("a short payload");
        let mut header = crc32c::crc32c(&padded).to_le_bytes().to_vec();
        for number in [term, index, synced.segment] {
            header.extend(number.to_le_bytes());
        }
        header.extend(synced.offset.to_le_bytes());
        header.extend(length.to_le_bytes());
        header.extend(1_u32.to_le_bytes());
        let kind = match kind {
            Kind::Entry => 1,
            Kind::HardState => 2,
            Kind::Restart => 3,
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
    pub fn end(&self) -> Position {
        let offset = u32::try_from(self.bytes.len()).expect("a small segment");
        Position { segment: self.sequence, offset }
    }

    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{:016}-{:020}.log", self.sequence, self.first_index)
    }

    /// The content of the file.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
