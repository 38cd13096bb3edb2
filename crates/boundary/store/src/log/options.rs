//! The options of a log, and its fixed limits.

/// The maximum batch of one [`super::Log::append`], in bytes including headers: 1 GiB.
pub const MAX_BATCH_BYTES: usize = 1 << 30;

/// How a log stores its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size at which a segment is preallocated, in bytes. A batch is stored in one segment, so
    /// a larger batch gets a larger segment. Clamped to 4 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// [`super::Log::truncate_prefix`] keeps at least this many bytes of the newest records, even
    /// if all of them are below the given index. In bytes of records, not of files.
    pub keep_bytes: u64,
}

impl Default for Options {
    /// Segments of 64 MiB, nothing kept beyond the caller's index.
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, keep_bytes: 0 }
    }
}
