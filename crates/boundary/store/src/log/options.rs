//! What a caller may choose about a log, and the limits that it may not.

/// The largest batch of one [`super::Log::append`], in bytes with its headers: 1 GiB.
pub const MAX_BATCH_BYTES: usize = 1 << 30;

/// How a log keeps its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size at which a segment is preallocated, in bytes. A batch goes into one segment, so
    /// that a larger batch gets a larger one. Taken as at least 4 KiB and at most 1 GiB.
    pub segment_bytes: u64,
    /// [`super::Log::truncate_prefix`] keeps at least this many bytes of the newest records, even
    /// where all of them are below the index it is given. In bytes of records, not of files.
    pub keep_bytes: u64,
}

impl Default for Options {
    /// Segments of 64 MiB, nothing kept beyond what the caller asks.
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, keep_bytes: 0 }
    }
}
