//! The fields, encoding and validation of a record, without files.

use crate::disk::Fields as _;

/// The maximum payload of one record, in bytes: 64 MiB.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// The size of a record's header.
pub(crate) const HEADER_BYTES: usize = 48;

/// Records start at multiples of this.
pub(crate) const STEP: u32 = 8;

/// The same, for lengths in memory.
pub(crate) const ALIGNMENT: usize = STEP as usize;

/// The kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// An entry of the replicated log.
    Entry,
    /// Raft's term, vote and commit index, as opaque bytes; the newest one counts. Its index and
    /// term fields are stored and ignored.
    HardState,
    /// The log restarts after this index and term, because a snapshot was installed: every entry
    /// before this record is void.
    Restart,
}

impl RecordKind {
    fn to_byte(self) -> u8 {
        match self {
            Self::Entry => 1,
            Self::HardState => 2,
            Self::Restart => 3,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Entry),
            2 => Some(Self::HardState),
            3 => Some(Self::Restart),
            _ => None,
        }
    }
}

/// A position in the log. Positions of one log are ordered by time of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The segment's sequence number, from 1.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u32,
}

/// A record to append. The payload is borrowed and copied once, into the write buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The kind.
    pub kind: RecordKind,
    /// An entry's raft term.
    pub term: u64,
    /// An entry's raft index: at most one above the last.
    pub index: u64,
    /// The level of the state machine that the payload requires, to be checked before decoding it.
    pub level: u32,
    /// Opaque bytes, at most [`MAX_PAYLOAD_BYTES`]; may be empty.
    pub payload: &'a [u8],
}

/// A record as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its position.
    pub position: Position,
    /// The kind.
    pub kind: RecordKind,
    /// Raft's term.
    pub term: u64,
    /// Raft's index.
    pub index: u64,
    /// The level of the state machine that the payload requires.
    pub level: u32,
    /// The bytes as appended.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// The offset of the next record.
    pub(crate) fn end(&self) -> u32 {
        self.position.offset.saturating_add(stored_bytes(self.payload.len()))
    }
}

/// What is at an offset of a segment.
pub(crate) enum Found<'a> {
    Record(Record<'a>),
    /// Zeros where the next record would start.
    Nothing,
    /// Not a record, with the reason.
    Bad(&'static str),
}

/// The space a record takes in a segment. For a payload above its limit the sum saturates and
/// exceeds any room.
pub(crate) fn stored_bytes(payload_bytes: usize) -> u32 {
    u32::try_from(HEADER_BYTES + payload_bytes.next_multiple_of(ALIGNMENT)).unwrap_or(u32::MAX)
}

/// Appends a record's bytes to `buffer`. `seed` is the segment's, `position` the record's future
/// position, `synced` what is durable by now.
pub(crate) fn encode(
    buffer: &mut Vec<u8>,
    seed: u32,
    position: Position,
    synced: Position,
    record: &RecordRef<'_>,
) {
    let start = buffer.len();
    let length = u32::try_from(record.payload.len()).unwrap_or(u32::MAX);
    buffer.resize(start + HEADER_BYTES, 0);
    buffer.extend_from_slice(record.payload);
    buffer.resize(start + stored_bytes(record.payload.len()) as usize, 0);
    let (header, payload) = buffer[start..].split_at_mut(HEADER_BYTES);
    header[4..8].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    header[8..16].copy_from_slice(&record.term.to_le_bytes());
    header[16..24].copy_from_slice(&record.index.to_le_bytes());
    header[24..32].copy_from_slice(&synced.segment.to_le_bytes());
    header[32..36].copy_from_slice(&synced.offset.to_le_bytes());
    header[36..40].copy_from_slice(&length.to_le_bytes());
    header[40..44].copy_from_slice(&record.level.to_le_bytes());
    header[44] = record.kind.to_byte();
    let checksum = header_checksum(seed, position.offset, header);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Decodes and fully verifies the record at `position` of a segment with the bytes `segment`.
pub(crate) fn decode(segment: &[u8], seed: u32, position: Position) -> Found<'_> {
    let rest = segment.get(position.offset as usize..).unwrap_or_default();
    match check(rest, seed, position.offset) {
        Ok(head) => head.record(position, rest),
        Err(not) => not.at_the_end(rest),
    }
}

/// The fields of a complete record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) kind: RecordKind,
    pub(crate) term: u64,
    pub(crate) index: u64,
    pub(crate) level: u32,
    length: u32,
}

impl Head {
    /// The record at `position`, at the start of `rest`; its bytes have been verified.
    pub(crate) fn record<'a>(&self, position: Position, rest: &'a [u8]) -> Found<'a> {
        let Self { kind, term, index, level, length } = *self;
        let payload = rest.get(HEADER_BYTES..HEADER_BYTES + length as usize).unwrap_or_default();
        Found::Record(Record { position, kind, term, index, level, payload })
    }

    /// The space that the record takes.
    pub(crate) fn stored_bytes(&self) -> u32 {
        stored_bytes(self.length as usize)
    }
}

/// Why there is no complete record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Incomplete {
    /// Zeros.
    Nothing,
    /// Bytes that are not a record, with the reason.
    Bad(&'static str),
    /// At least this many bytes are needed to tell, and there are fewer.
    Short(usize),
}

impl Incomplete {
    /// What this means if the file ends with `rest`.
    pub(crate) fn at_the_end<'a>(self, rest: &[u8]) -> Found<'a> {
        match self {
            Self::Nothing => Found::Nothing,
            Self::Bad(why) => Found::Bad(why),
            Self::Short(_) if rest.len() >= HEADER_BYTES => {
                Found::Bad("the record's payload extends past the end of the file")
            }
            // Too short for a header: only zeros are valid.
            Self::Short(_) if is_zero(rest) => Found::Nothing,
            Self::Short(_) => Found::Bad("the file ends too early"),
        }
    }
}

/// Verifies the record at the start of `rest`, at `offset` of a segment.
pub(crate) fn check(rest: &[u8], seed: u32, offset: u32) -> Result<Head, Incomplete> {
    let header: &[u8; HEADER_BYTES] = rest.first_chunk().ok_or(Incomplete::Short(HEADER_BYTES))?;
    if is_zero(header) {
        return Err(Incomplete::Nothing);
    }
    if header_checksum(seed, offset, header) != header.u32_at(0) {
        return Err(Incomplete::Bad("the checksum of the record's header does not match"));
    }
    let head = head(header).ok_or(Incomplete::Bad("the record is of an unknown kind"))?;
    if head.length as usize > MAX_PAYLOAD_BYTES {
        return Err(Incomplete::Bad("the record exceeds the maximum length"));
    }
    let end = head.stored_bytes() as usize;
    let payload = rest.get(HEADER_BYTES..end).ok_or(Incomplete::Short(end))?;
    if crc32c::crc32c(payload) != header.u32_at(4) {
        return Err(Incomplete::Bad("the checksum of the record's payload does not match"));
    }
    Ok(head)
}

/// The fields of the record at the start of `rest`, at `offset`, if its header is intact. Its
/// payload may be bad.
pub(crate) fn intact_head(rest: &[u8], seed: u32, offset: u32) -> Option<Head> {
    let header = intact_header(rest, seed, offset)?;
    head(header)
}

fn head(header: &[u8; HEADER_BYTES]) -> Option<Head> {
    let (term, index) = (header.u64_at(8), header.u64_at(16));
    let (length, level) = (header.u32_at(36), header.u32_at(40));
    Some(Head { kind: RecordKind::from_byte(header[44])?, term, index, level, length })
}

/// The position up to which data was durable when this record was written, from an intact header at
/// the start of `rest`, at `offset`; the payload may be bad.
pub(crate) fn testimony(rest: &[u8], seed: u32, offset: u32) -> Option<Position> {
    let header = intact_header(rest, seed, offset)?;
    Some(Position { segment: header.u64_at(24), offset: header.u32_at(32) })
}

fn intact_header(rest: &[u8], seed: u32, offset: u32) -> Option<&[u8; HEADER_BYTES]> {
    let header: &[u8; HEADER_BYTES] = rest.first_chunk()?;
    // Cheap tests first: this runs at every eighth byte of a torn tail.
    if RecordKind::from_byte(header[44]).is_none() || header[45..] != [0; 3] {
        return None;
    }
    (header_checksum(seed, offset, header) == header.u32_at(0)).then_some(header)
}

/// The seed of all header checksums of a segment.
pub(crate) fn seed(salt: u64, sequence: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &sequence.to_le_bytes())
}

fn header_checksum(seed: u32, offset: u32, header: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(seed, &offset.to_le_bytes());
    crc32c::crc32c_append(seed, &header[4..])
}

/// Whether all bytes are zero, a cache line at a time.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (lines, rest) = bytes.as_chunks::<64>();
    lines.iter().all(|line| line == &[0; 64]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Position = Position { segment: 3, offset: 64 };

    fn encoded(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let record = RecordRef { kind: RecordKind::Entry, term: 7, index: 9, level: 2, payload };
        let synced = Position { segment: 2, offset: 4096 };
        encode(&mut bytes, seed(1, 3), HERE, synced, &record);
        bytes
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        for length in [0, 1, 7, 8, 9, 1000] {
            let payload: Vec<u8> = (0..=255).cycle().take(length).collect();
            let bytes = encoded(&payload);
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            let Found::Record(record) = decode(&bytes, seed(1, 3), HERE) else {
                panic!("no record of {length} bytes");
            };
            assert_eq!((record.term, record.index, record.level), (7, 9, 2));
            assert_eq!(record.payload, payload);
            assert_eq!(record.end() as usize, bytes.len());
        }
    }

    #[test]
    fn every_bit_is_covered() {
        let bytes = encoded(b"payload");
        for bit in 64 * 8..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(decode(&flipped, seed(1, 3), HERE), Found::Bad(_)),
                "bit {bit} may be flipped"
            );
        }
    }

    #[test]
    fn a_record_is_valid_only_in_its_place() {
        let bytes = encoded(b"payload");
        let moved = [&[0; 8], &bytes[..]].concat();
        let there = Position { offset: 72, ..HERE };
        assert!(matches!(decode(&moved, seed(1, 3), there), Found::Bad(_)));
        assert!(matches!(decode(&bytes, seed(2, 3), HERE), Found::Bad(_)));
        assert!(matches!(decode(&bytes, seed(1, 4), HERE), Found::Bad(_)));
    }

    #[test]
    fn a_header_testifies_for_a_torn_payload() {
        let mut bytes = encoded(b"payload");
        let last = bytes.len() - 4;
        bytes[last] ^= 1;
        assert!(matches!(decode(&bytes, seed(1, 3), HERE), Found::Bad(_)));
        let synced = Position { segment: 2, offset: 4096 };
        assert_eq!(testimony(&bytes[64..], seed(1, 3), 64), Some(synced));
        assert_eq!(testimony(&bytes[72..], seed(1, 3), 72), None);
    }
}
