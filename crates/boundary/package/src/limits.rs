//! Bounds of a package that is made from something outside.

use model::Bytes;

use crate::tree::path::Printed;

/// What a directory or an image may have, all its layers together. Formats have further bounds,
/// which are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageLimits {
    /// The maximum number of entries.
    pub entries_max: u64,
    /// The maximum of all lengths of files, with holes.
    pub apparent_max: Bytes,
    /// The maximum of all that is decompressed: layers and archives.
    pub decompressed_max: Bytes,
}

impl Default for PackageLimits {
    /// 2,000,000 entries, 64 GiB of files, and 64 GiB decompressed.
    fn default() -> Self {
        Self {
            entries_max: crate::tree::ENTRIES_MAX,
            apparent_max: Bytes(64 << 30),
            decompressed_max: Bytes(64 << 30),
        }
    }
}

/// Something is larger than the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many entries.
    #[error(
        "there are more than {max} files and directories, the maximum of a package; leave \
             some out, or raise the limit"
    )]
    Entries {
        /// The limit.
        max: u64,
    },
    /// Too many bytes in files.
    #[error("files have more than {max}, the maximum of a package: '{}' with {bytes} \
             (holes count) exceeds it; leave it out, or raise the limit", Printed(.path))]
    Apparent {
        /// The limit.
        max: Bytes,
        /// The file that exceeds it.
        path: Vec<u8>,
        /// Its length.
        bytes: Bytes,
    },
    /// Too many bytes after decompression.
    #[error(
        "more than {max} come out of the decompression, the maximum of a package; this may \
             be a decompression bomb: raise the limit if it is not"
    )]
    Decompressed {
        /// The limit.
        max: Bytes,
    },
}

/// How much may be decompressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decompression {
    /// What is left of it.
    pub(crate) left: Bytes,
    /// The limit.
    pub(crate) max: Bytes,
}

/// Counts up to the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    max: PackageLimits,
    left: PackageLimits,
}

impl Budget {
    pub(crate) fn new(limits: &PackageLimits) -> Self {
        Self { max: *limits, left: *limits }
    }

    pub(crate) fn entry(&mut self) -> Result<(), LimitError> {
        let left = self.left.entries_max.checked_sub(1);
        self.left.entries_max = left.ok_or(LimitError::Entries { max: self.max.entries_max })?;
        Ok(())
    }

    /// Counts a file before its contents are read.
    pub(crate) fn file(&mut self, path: &[u8], bytes: u64) -> Result<(), LimitError> {
        let left = self.left.apparent_max.0.checked_sub(bytes);
        let exceeded = || LimitError::Apparent {
            max: self.max.apparent_max,
            path: path.to_vec(),
            bytes: Bytes(bytes),
        };
        self.left.apparent_max.0 = left.ok_or_else(exceeded)?;
        Ok(())
    }

    /// What may still be decompressed.
    pub(crate) fn decompressed(&self) -> Decompression {
        Decompression { left: self.left.decompressed_max, max: self.max.decompressed_max }
    }

    /// Counts what was decompressed, which was at most what is left.
    pub(crate) fn spend_decompressed(&mut self, bytes: u64) {
        self.left.decompressed_max.0 = self.left.decompressed_max.0.saturating_sub(bytes);
    }
}
