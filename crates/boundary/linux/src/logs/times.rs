//! The index of times beside each log file.
//!
//! Records of 16 bytes, two little-endian numbers each. The first record is a header: the stream
//! position of the file's first byte, and when the file was created. Each following one is an
//! offset in the file and the time when the byte there was written. Offsets ascend, and records are
//! at least [`INTERVAL_US`] apart, so the bytes after a record were written within that time after
//! it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The minimum time between two records, in microseconds.
pub(super) const INTERVAL_US: u64 = 100_000;
/// The size of a record.
pub(super) const RECORD_BYTES: u64 = 16;

/// An offset (in the stream for the header, otherwise in the file) and a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeRecord {
    pub(super) offset: u64,
    pub(super) unix_us: u64,
}

impl TimeRecord {
    pub(super) fn encode(self) -> [u8; 16] {
        let both = u128::from(self.offset) | u128::from(self.unix_us) << 64;
        both.to_le_bytes()
    }

    fn decode(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        let half = |shift: u32| u64::try_from(both >> shift & u128::from(u64::MAX));
        Self { offset: half(0).unwrap_or(0), unix_us: half(64).unwrap_or(0) }
    }
}

/// Reads an index that may be growing, truncated by a full disk, or missing.
#[derive(Debug)]
pub(super) struct Times {
    file: Option<File>,
}

impl Times {
    pub(super) fn new(file: Option<File>) -> Self {
        Self { file }
    }

    fn record(&self, index: u64) -> Option<TimeRecord> {
        let mut bytes = [0; 16];
        let file = self.file.as_ref()?;
        file.read_exact_at(&mut bytes, index * RECORD_BYTES).ok()?;
        Some(TimeRecord::decode(bytes))
    }

    /// The stream position of the file's first byte, and when it was created.
    pub(super) fn header(&self) -> Option<TimeRecord> {
        self.record(0)
    }

    /// Record `index` of those after the header.
    pub(super) fn get(&self, index: u64) -> Option<TimeRecord> {
        self.record(index + 1)
    }

    /// The current number of complete records after the header.
    pub(super) fn count(&self) -> io::Result<u64> {
        let Some(file) = &self.file else { return Ok(0) };
        Ok((file.metadata()?.len() / RECORD_BYTES).saturating_sub(1))
    }

    /// The index of the first record for which `reached` holds; `reached` must be monotonic.
    pub(super) fn first(&self, reached: impl Fn(TimeRecord) -> bool) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.count()?);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&reached) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn records_round_trip(offset: u64, unix_us: u64) {
            let record = TimeRecord { offset, unix_us };
            proptest::prop_assert_eq!(TimeRecord::decode(record.encode()), record);
        }
    }

    #[test]
    fn records_are_two_little_endian_numbers() {
        let bytes = TimeRecord { offset: 1, unix_us: 2 }.encode();
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
