//! Bounds of what is imported.

use thiserror::Error;

use crate::tree::{MAX_ENTRIES, MAX_TREE_BYTES, printable};

/// How much an image has at most: all variants and layers that are imported together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportLimits {
    /// The bytes of all files, with holes.
    pub bytes: u64,
    /// How many entries the layers have.
    pub entries: u64,
    /// The bytes of layers and archives once they are decompressed.
    pub decompressed: u64,
    /// The bytes of paths, links, extended attributes and lists of chunks, which are in memory.
    pub metadata: u64,
}

impl Default for ImportLimits {
    /// 64 GiB of files, as many entries as a tree can have, 64 GiB decompressed, and 1 GiB of
    /// metadata.
    fn default() -> Self {
        let bytes = 64 << 30;
        Self { bytes, entries: MAX_ENTRIES, decompressed: bytes, metadata: MAX_TREE_BYTES }
    }
}

/// An image has more than its limits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// More than [`ImportLimits::bytes`].
    #[error(
        "with '{path}' and its {length} bytes (holes count) the files have more than {limit} bytes"
    )]
    Bytes {
        /// The file with which it was too much, escaped and not longer than a line.
        path: String,
        /// How long the file is.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// More than [`ImportLimits::entries`].
    #[error("there are more than {limit} files and directories")]
    Entries {
        /// The limit.
        limit: u64,
    },
    /// More than [`ImportLimits::decompressed`].
    #[error(
        "more than {limit} bytes come out of the decompression, which may be a decompression bomb"
    )]
    Decompressed {
        /// The limit.
        limit: u64,
    },
    /// More than [`ImportLimits::metadata`].
    #[error("paths, links, extended attributes and lists of chunks have more than {limit} bytes")]
    Metadata {
        /// The limit.
        limit: u64,
    },
}

/// How much may still be decompressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decompression {
    pub(super) left: u64,
    pub(super) limit: u64,
}

/// Counts up to the limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImportBudget {
    limits: ImportLimits,
    left: ImportLimits,
}

impl ImportBudget {
    pub(super) fn new(limits: &ImportLimits) -> Self {
        Self { limits: *limits, left: *limits }
    }

    /// Counts an entry with metadata of so many bytes.
    pub(super) fn entry(&mut self, metadata: usize) -> Result<(), LimitError> {
        let left = self.left.entries.checked_sub(1);
        self.left.entries = left.ok_or(LimitError::Entries { limit: self.limits.entries })?;
        self.metadata(metadata)
    }

    /// Counts metadata of so many bytes.
    pub(super) fn metadata(&mut self, bytes: usize) -> Result<(), LimitError> {
        let left = self.left.metadata.checked_sub(bytes as u64);
        self.left.metadata = left.ok_or(LimitError::Metadata { limit: self.limits.metadata })?;
        Ok(())
    }

    /// Counts a file before its content is read.
    pub(super) fn file(&mut self, path: &[u8], length: u64) -> Result<(), LimitError> {
        let limit = self.limits.bytes;
        let exceeded = || LimitError::Bytes { path: printable(path), length, limit };
        self.left.bytes = self.left.bytes.checked_sub(length).ok_or_else(exceeded)?;
        Ok(())
    }

    /// What may still be decompressed.
    pub(super) fn decompressed(&self) -> Decompression {
        Decompression { left: self.left.decompressed, limit: self.limits.decompressed }
    }

    /// Counts what was decompressed, which was at most what is left.
    pub(super) fn spend_decompressed(&mut self, bytes: u64) {
        self.left.decompressed = self.left.decompressed.saturating_sub(bytes);
    }
}
