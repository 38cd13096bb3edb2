//! Data that is part of the program, packed by `gzip -n`.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// The longest that any of it is unpacked.
const BYTES_MAX: usize = 64 << 20;

/// What a file holds: nothing where it is none of `gzip -n`, which a test of each file refuses.
pub(crate) fn unpacked(file: &[u8]) -> Vec<u8> {
    // Ten bytes of header, as there is no name; at the end a checksum and a length.
    let packed = file.get(10..file.len().saturating_sub(8)).unwrap_or_default();
    decompress_to_vec_with_limit(packed, BYTES_MAX).unwrap_or_default()
}
