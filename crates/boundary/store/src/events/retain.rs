//! Deletes the oldest part of the stream.

use std::fs;

use super::Segment;
use super::append::Events;
use crate::retention::Retention;
use crate::{Error, Result, disk};

impl Events {
    /// Deletes the oldest segments, one by one and durably, and returns how many: those whose
    /// events are all too old at `now_us`, and as many as needed for the rest to fit into the
    /// maximum bytes. The segment that takes appends is never deleted.
    ///
    /// A reader whose position was deleted gets [`Error::EventsTooLate`].
    ///
    /// # Errors
    /// [`Error::Io`]; segments deleted before the failure stay deleted, and the stream continues.
    /// [`Error::Poisoned`] after a failed sync.
    pub fn retain(&mut self, retention: &Retention, now_us: u64) -> Result<usize> {
        self.appender.check_poison()?;
        let sizes: Vec<_> = self.segments.iter().map(|s| (s.file_bytes, s.last_time_us)).collect();
        self.delete_oldest(surplus(&sizes, retention, now_us))
    }

    /// Deletes as many of the oldest segments as are needed for a new one to fit into the maximum size.
    pub(super) fn make_room(&mut self, new_bytes: u64) -> Result<()> {
        let mut bytes = self.bytes().saturating_add(new_bytes);
        let beyond = |segment: &&Segment| {
            let beyond = bytes > self.options.bytes_max;
            bytes = bytes.saturating_sub(segment.file_bytes);
            beyond
        };
        let (_, sealed) = self.segments.split_last().unzip();
        let surplus = sealed.unwrap_or_default().iter().take_while(beyond).count();
        self.delete_oldest(surplus).map(drop)
    }

    /// Deletes so many of the oldest segments; returns how many were there.
    fn delete_oldest(&mut self, surplus: usize) -> Result<usize> {
        for deleted in 0..surplus {
            let Some(oldest) = self.segments.first() else { return Ok(deleted) };
            fs::remove_file(&oldest.path).map_err(Error::io("delete", &oldest.path, 0))?;
            self.segments.remove(0);
            // One by one: a crash may leave older segments missing, never a later one.
            disk::sync_directory(self.appender.directory())?;
        }
        Ok(surplus)
    }
}

/// How many of the oldest segments to delete. Each is given as its bytes and the time of its last
/// event.
fn surplus(segments: &[(u64, u64)], retention: &Retention, now_us: u64) -> usize {
    let limit = retention.limit_us(now_us);
    let Some((_, sealed)) = segments.split_last() else { return 0 };
    let mut bytes = segments.iter().fold(0_u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
    let goes = |(its, last): &&(u64, u64)| {
        let goes = bytes > retention.bytes || *last < limit;
        bytes = bytes.saturating_sub(*its);
        goes
    };
    sealed.iter().take_while(goes).count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_segments_are_surplus_until_size_and_age_are_within_bounds() {
        let segments = [(10, 100), (20, 200), (10, 300), (10, 400)];
        for (bytes, age, now, goes) in [
            (u64::MAX, 1000, 500, 0),
            (50, 1000, 500, 0),
            (49, 1000, 500, 1),
            (39, 1000, 500, 2),
            (0, 1000, 500, 3),
            (u64::MAX, 400, 500, 0),
            (u64::MAX, 399, 500, 1),
            (u64::MAX, 250, 500, 2),
            (u64::MAX, 0, 5000, 3),
            (39, 399, 500, 2),
        ] {
            let retention = Retention::new(bytes, Duration::from_micros(age));
            assert_eq!(surplus(&segments, &retention, now), goes, "{bytes} bytes, {age} µs");
        }
        let retention = Retention::new(0, Duration::ZERO);
        assert_eq!(surplus(&[], &retention, 5), 0);
        assert_eq!(surplus(&segments[..1], &retention, 5000), 0);
    }
}
