//! Finds a position in a segment without reading all of it.

use super::chunks::{CHUNK_BYTES, Chunks};
use super::record::Head;
use crate::Result;

/// Moves to a record shortly before the first one for which `before` does not hold, given that it
/// holds for all records up to some point and for none after: at most a chunk or two remain to be
/// read. `end` is where the records end, or the file; no record is larger than `longest` bytes.
///
/// A header is recognised by its checksum anywhere, so a record can be found starting from the
/// middle of another one.
pub(crate) fn narrow(
    chunks: &mut Chunks,
    end: u32,
    longest: u32,
    before: impl Fn(&Head) -> bool,
) -> Result<()> {
    let mut low = chunks.position().offset;
    let mut high = end;
    while high.saturating_sub(low) as usize > CHUNK_BYTES {
        let middle = low + (high - low) / 2;
        // If a stretch this long contains no record, none follows.
        match chunks.find_entry(middle, high.min(middle.saturating_add(longest)))? {
            Some((offset, head)) if before(&head) => low = offset,
            _ => high = middle,
        }
    }
    chunks.seek(low);
    Ok(())
}
