//! The byte format of a checkpoint file; see the tables in the parent module.

use crate::disk::Fields as _;

/// The maximum payload of one section, in bytes: 256 MiB. A reader holds one section in memory.
pub const MAX_SECTION_BYTES: usize = 256 << 20;

pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 40;
pub(super) const SECTION_BYTES: usize = 24;
pub(super) const TRAILER_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"BOURGCKP";
const END_MAGIC: [u8; 8] = *b"BOURGEND";
const SUFFIX: &str = ".checkpoint";

pub(super) fn name(index: u64, term: u64) -> String {
    format!("{index:020}-{term:020}{SUFFIX}")
}

pub(super) fn parse_name(file: &str) -> Option<(u64, u64)> {
    let (index, term) = file.strip_suffix(SUFFIX)?.split_once('-')?;
    let (index, term) = (index.parse().ok()?, term.parse().ok()?);
    (name(index, term) == file).then_some((index, term))
}

/// The state that a checkpoint's header describes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stated {
    pub(super) index: u64,
    pub(super) term: u64,
    /// 0 if the writer did not set it.
    pub(super) time_us: u64,
}

pub(super) fn header(stated: Stated) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&stated.index.to_le_bytes());
    bytes[24..32].copy_from_slice(&stated.term.to_le_bytes());
    bytes[32..40].copy_from_slice(&stated.time_us.to_le_bytes());
    let checksum = header_checksum(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A header is invalid.
pub(super) enum BadHeader {
    Newer(u32),
    Damaged { offset: u64, why: &'static str },
}

pub(super) fn parse_header(bytes: &[u8; HEADER_BYTES]) -> Result<Stated, BadHeader> {
    if bytes[..8] != MAGIC {
        return Err(BadHeader::Damaged {
            offset: 0,
            why: "it does not start with a checkpoint's magic number",
        });
    }
    if bytes.u32_at(8) > VERSION {
        return Err(BadHeader::Newer(bytes.u32_at(8)));
    }
    if header_checksum(bytes) != bytes.u32_at(12) {
        return Err(BadHeader::Damaged { offset: 12, why: "the header's checksum does not match" });
    }
    let (index, term, time_us) = (bytes.u64_at(16), bytes.u64_at(24), bytes.u64_at(32));
    Ok(Stated { index, term, time_us })
}

fn header_checksum(bytes: &[u8; HEADER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..])
}

pub(super) fn section(kind: u32, payload: &[u8]) -> [u8; SECTION_BYTES] {
    let mut bytes = [0; SECTION_BYTES];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    bytes[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The header of a section.
pub(super) struct Section {
    pub(super) kind: u32,
    pub(super) checksum: u32,
    pub(super) bytes: u64,
}

pub(super) fn parse_section(bytes: &[u8; SECTION_BYTES]) -> Option<Section> {
    (crc32c::crc32c(&bytes[..20]) == bytes.u32_at(20)).then(|| Section {
        kind: bytes.u32_at(0),
        checksum: bytes.u32_at(4),
        bytes: bytes.u64_at(8),
    })
}

/// The trailer, which describes the whole file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trailer {
    pub(super) sections: u64,
    pub(super) file_bytes: u64,
    pub(super) digest: [u8; 32],
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&END_MAGIC);
        bytes[8..16].copy_from_slice(&self.sections.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.digest);
        let checksum = crc32c::crc32c(&bytes[..56]);
        bytes[56..60].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; TRAILER_BYTES]) -> Option<Self> {
        let valid = bytes[..8] == END_MAGIC
            && crc32c::crc32c(&bytes[..56]) == bytes.u32_at(56)
            && bytes[60..] == [0; 4];
        valid.then(|| Self {
            sections: bytes.u64_at(8),
            file_bytes: bytes.u64_at(16),
            digest: std::array::from_fn(|i| bytes[24 + i]),
        })
    }
}
