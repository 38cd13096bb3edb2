//! Finding a place in a segment without reading all of it.

use super::chunks::{CHUNK_BYTES, Chunks};
use super::record::Head;
use crate::Result;

/// Goes to a record not far before the first one for which `before` does not hold, where it holds
/// for all up to some record and for none after that: what is left to read is a chunk or two.
/// `end` is where the records end, or the file; no record has more than `longest` bytes.
///
/// A header is known by its checksum wherever it is, so that a record can be found from the middle
/// of another one.
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
        // Where so much holds no record, none follows.
        match chunks.find_entry(middle, high.min(middle.saturating_add(longest)))? {
            Some((offset, head)) if before(&head) => low = offset,
            _ => high = middle,
        }
    }
    chunks.seek(low);
    Ok(())
}
