//! Embedded data, compressed with `gzip -n`.

use std::io::Read as _;

use flate2::bufread::GzDecoder;

/// The maximum decompressed size.
const BYTES_MAX: u64 = 64 << 20;

/// Decompresses a file; empty if it is not valid gzip, which a test of each file rules out.
pub(crate) fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    match GzDecoder::new(file).take(BYTES_MAX).read_to_end(&mut unpacked) {
        Ok(_) => unpacked,
        Err(_) => Vec::new(),
    }
}
