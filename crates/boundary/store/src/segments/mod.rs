//! Files of checksummed records that are appended, synced and cut: the common base of the log and
//! the event stream. The bytes are described in [`crate::log`].
//!
//! This module knows neither the meaning nor the order of records, and decides nothing about
//! retention.

mod appender;
mod chunks;
mod file;
mod header;
pub(crate) mod record;
mod scan;
mod search;

pub(crate) use appender::{Active, Appender};
pub(crate) use chunks::Chunks;
pub(crate) use file::{preallocate, read, remove_unfinished, settle};
pub(crate) use header::{Begin, Format, Header, Name, SEGMENT_HEADER_BYTES, file_bytes};
pub(crate) use scan::{
    Extent, Walked, check_order, list, read_header, read_headers, read_live, walk,
};
pub(crate) use search::narrow;

/// The size of a segment in bytes, clamped to 4 KiB to 1 GiB.
pub(crate) fn segment_bytes(asked: u64) -> u32 {
    u32::try_from(asked.clamp(4 << 10, 1 << 30)).unwrap_or(1 << 30)
}
