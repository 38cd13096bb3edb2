//! Data that is part of the program, packed by `gzip -n`.

use std::io::Read as _;

use flate2::bufread::GzDecoder;

/// The longest that any of it is unpacked.
const BYTES_MAX: u64 = 64 << 20;

/// What a file holds: nothing where it is none of `gzip`'s, which a test of each file refuses.
pub(crate) fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    match GzDecoder::new(file).take(BYTES_MAX).read_to_end(&mut unpacked) {
        Ok(_) => unpacked,
        Err(_) => Vec::new(),
    }
}
