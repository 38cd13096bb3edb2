//! How far a download is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a download is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownloadProgress {
    /// How many blobs the image has: layers and configurations, each counted once.
    pub blobs: u64,
    /// How many of them are there.
    pub blobs_done: u64,
    /// How many bytes all blobs have.
    pub bytes: u64,
    /// How many bytes of them are there. It falls if a blob has to be fetched again.
    pub bytes_done: u64,
}

/// What is told of a download: after each piece that arrives, on any thread, and so often that it has to be quick.
pub type ProgressReport = Arc<dyn Fn(DownloadProgress) + Send + Sync>;

/// The progress of one download.
pub(crate) struct DownloadTally {
    blobs: u64,
    bytes: u64,
    blobs_done: AtomicU64,
    bytes_done: AtomicU64,
    report: ProgressReport,
}

impl DownloadTally {
    pub(crate) fn new(blobs: u64, bytes: u64, report: ProgressReport) -> Self {
        let (blobs_done, bytes_done) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { blobs, bytes, blobs_done, bytes_done, report }
    }

    /// Some bytes are there.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Some bytes that were there are worth nothing.
    pub(crate) fn take(&self, bytes: u64) {
        self.bytes_done.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// A blob is there whole.
    pub(crate) fn finish_blob(&self) {
        self.blobs_done.fetch_add(1, Ordering::Relaxed);
        self.tell();
    }

    pub(crate) fn tell(&self) {
        (self.report)(DownloadProgress {
            blobs: self.blobs,
            blobs_done: self.blobs_done.load(Ordering::Relaxed),
            bytes: self.bytes,
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
        });
    }
}

impl fmt::Debug for DownloadTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadTally").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
