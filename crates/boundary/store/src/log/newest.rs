//! The number of the newest segment, stored beside the log: without it, a log whose newest files
//! were deleted would look like one that ends earlier.
//!
//! | offset | bytes | `newest-segment` (24 bytes) |
//! |---|---|---|
//! | 0 | 8 | magic `BOURGNEW` |
//! | 8 | 8 | sequence number, little-endian |
//! | 16 | 4 | crc32c of the bytes 0–16 |
//! | 20 | 4 | zero |
//!
//! The file is written in place, within one sector, so that it can be written on a full disk. It is
//! written after its segment has been renamed into place: it may be behind, but never ahead. If it
//! is missing or damaged it is ignored and written again.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::disk::{self, Fields as _};
use crate::{Error, Result};

/// The name of the file in the log's directory.
pub(super) const FILE: &str = "newest-segment";

const MAGIC: [u8; 8] = *b"BOURGNEW";
const BYTES: usize = 24;

/// Reads the recorded number of the newest segment.
pub(super) fn read(directory: &Path) -> Option<u64> {
    let bytes = fs::read(directory.join(FILE)).ok()?;
    let bytes: &[u8; BYTES] = bytes.as_slice().try_into().ok()?;
    let is_whole = bytes[..8] == MAGIC && crc32c::crc32c(&bytes[..16]) == bytes.u32_at(16);
    is_whole.then(|| bytes.u64_at(8))
}

/// Records the newest segment, durably.
pub(super) fn write(directory: &Path, sequence: u64) -> Result<()> {
    let path = directory.join(FILE);
    let is_new = !path.exists();
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(Error::io("open", &path, 0))?;
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..16]);
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_data());
    written.map_err(Error::io("write", &path, BYTES as u64))?;
    match is_new {
        true => disk::sync_directory(directory),
        false => Ok(()),
    }
}
