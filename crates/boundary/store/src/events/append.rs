//! The open stream: appending, syncing, and recording losses.

use std::path::Path;

use super::open::{self, Opened};
use super::{Cursor, Event, MAX_EVENT_BYTES, Options, Reader, Segment, mark};
use crate::segments::Appender;
use crate::segments::record::stored_bytes;
use crate::{Error, Result};

/// The maximum number of bytes per write, unless a single event is larger.
const WRITE_BYTES: u64 = 256 << 10;

/// An open event stream. Only one process and one thread may append at a time: the lock on the
/// [`crate::DataDirectory`] and `&mut self` ensure that.
///
/// Dropping it does not sync.
#[derive(Debug)]
pub struct Events {
    pub(super) options: Options,
    pub(super) appender: Appender,
    /// Oldest first; the last one takes appends unless it is damaged.
    pub(super) segments: Vec<Segment>,
    pub(super) last: Option<Cursor>,
    /// Events before this are stored or lost.
    pub(super) next: Cursor,
    pub(super) last_time_us: u64,
    /// All events up to this index are stored or recorded as lost.
    pub(super) through: u64,
    /// The value of the newest mark in the files.
    pub(super) mark: u64,
}

impl Events {
    /// Opens the stream in `directory`, which exists and may be empty, and reports what was found.
    /// Call [`Self::resume`] next.
    ///
    /// A torn tail is cut, durably. Damage is reported and ends its segment. After this, all
    /// remaining events are durable, even if the process that appended them died before syncing.
    ///
    /// # Errors
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<(Self, Opened)> {
        open::open(directory.as_ref(), options)
    }

    /// Declares that from now on every event of the operations from `index` on is appended,
    /// starting with the first event of each operation. If earlier events may be missing, that is
    /// recorded durably for readers; then the result is `true`.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    pub fn resume(&mut self, index: u64) -> Result<bool> {
        self.appender.check_poison()?;
        if index <= self.through.saturating_add(1) {
            return Ok(false);
        }
        self.roll(Cursor::at(index), 0)?;
        self.through = index - 1;
        Ok(true)
    }

    /// Records that the events between those that are stored and a position are lost.
    pub(super) fn skip_to(&mut self, begin: Cursor) -> Result<()> {
        self.roll(begin, 0)?;
        self.through = self.through.max(begin.index.saturating_sub(1));
        Ok(())
    }

    /// Appends the events that are not stored yet and returns how many were new. Events must be in
    /// order and continue what was appended before; batch boundaries have no meaning. Readers see
    /// them at once; they are durable only after [`Self::sync`], or after many more appends.
    ///
    /// # Errors
    /// Part of the batch may be stored, and the same batch may be appended again: [`Error::NoRoom`]
    /// and [`Error::Io`]. The whole batch is rejected: [`Error::EventOrder`], and
    /// [`Error::TooLarge`] for a payload above [`MAX_EVENT_BYTES`]. Permanent: [`Error::Poisoned`]
    /// after a failed sync.
    pub fn append(&mut self, batch: &[Event<'_>]) -> Result<usize> {
        self.appender.check_poison()?;
        let known = self.check(batch)?;
        let mut rest = &batch[known..];
        while let Some(first) = rest.first() {
            let needed = stored_bytes(first.payload.len());
            if self.appender.room() < u64::from(needed) {
                self.roll(self.next, needed)?;
            }
            let mut room = self.appender.room().min(WRITE_BYTES.max(u64::from(needed)));
            let fits = |event: &&Event<'_>| {
                let left = room.checked_sub(u64::from(stored_bytes(event.payload.len())));
                room = left.unwrap_or_default();
                left.is_some()
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count());
            self.appender.append(now.iter().map(Event::record))?;
            if let Some(event) = now.last() {
                self.note(event);
            }
            rest = later;
        }
        Ok(batch.len() - known)
    }

    /// Makes everything appended durable, together with a mark that these are all events of the
    /// operations up to `through`: after a crash those need not be appended again.
    ///
    /// # Errors
    /// [`Error::NoRoom`], after which it may be retried; [`Error::Poisoned`], from this and all
    /// later calls, if the disk failed: only a restart can tell what is durable.
    pub fn sync(&mut self, through: u64) -> Result<()> {
        self.appender.check_poison()?;
        if through > self.mark {
            let before = std::mem::replace(&mut self.mark, through);
            let marked = if self.appender.room() < u64::from(stored_bytes(0)) {
                // A new segment starts with the mark.
                self.roll(self.next, 0)
            } else {
                self.appender.append([mark(through)])
            };
            if marked.is_err() {
                self.mark = before;
            }
            marked?;
            self.through = self.through.max(through);
        }
        self.appender.sync()
    }

    /// The last stored event. `None` before the first.
    #[must_use]
    pub fn last(&self) -> Option<Cursor> {
        self.last
    }

    /// All events up to this index are stored or recorded as lost. Some events of the next index
    /// may be stored.
    #[must_use]
    pub fn complete_up_to(&self) -> u64 {
        self.through
    }

    /// The total size of the files, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file_bytes).fold(0, u64::saturating_add)
    }

    /// A reader of this stream, usable from any thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::open(self.appender.directory())
    }

    /// Validates a batch and returns how many of its events are stored already.
    fn check(&self, batch: &[Event<'_>]) -> Result<usize> {
        let mut before: Option<&Event<'_>> = None;
        for event in batch {
            if event.payload.len() > MAX_EVENT_BYTES {
                let (bytes, limit) = (event.payload.len() as u64, MAX_EVENT_BYTES as u64);
                return Err(Error::TooLarge { what: "an event", bytes, limit });
            }
            let follows = before.is_none_or(|before| {
                before.cursor() < event.cursor() && before.time_us <= event.time_us
            });
            if !follows {
                let (last, time) = before.map(|b| (b.cursor(), b.time_us)).unwrap_or_default();
                return Err(out_of_order(last, time, event));
            }
            before = Some(event);
        }
        let known = batch.partition_point(|event| event.cursor() < self.next);
        if let Some(event) = batch.get(known).filter(|event| event.time_us < self.last_time_us) {
            let last = self.last.unwrap_or_default();
            return Err(out_of_order(last, self.last_time_us, event));
        }
        Ok(known)
    }

    fn note(&mut self, event: &Event<'_>) {
        self.last = Some(event.cursor());
        self.next = event.cursor().after();
        self.last_time_us = event.time_us;
        self.through = self.through.max(event.index.saturating_sub(1));
        if let Some(segment) = self.segments.last_mut() {
            segment.last_time_us = event.time_us;
        }
    }

    /// Starts a new segment that contains all events from `begin` on.
    fn roll(&mut self, begin: Cursor, needed_bytes: u32) -> Result<()> {
        let new = u64::from(self.options.segment_bytes().max(needed_bytes));
        self.make_room(new)?;
        let header = begin.begin_after(self.last_time_us);
        let mark = (self.mark > 0).then(|| mark(self.mark));
        let bytes = self.options.segment_bytes();
        let active = self.appender.roll(header, mark.as_ref(), bytes, needed_bytes)?;
        self.segments.push(Segment {
            path: active.path.clone(),
            last_time_us: self.last_time_us,
            file_bytes: active.file_bytes,
        });
        self.next = begin;
        Ok(())
    }
}

fn out_of_order(last: Cursor, last_time_us: u64, event: &Event<'_>) -> Error {
    let (found, time_us) = (event.cursor(), event.time_us);
    Error::EventOrder { last, last_time_us, found, time_us }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_failed_sync_blocks_all_writes_until_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut events, _) = Events::open(dir.path(), Options::default()).unwrap();
        let event = |index| Event { index, sub: 0, time_us: index, payload: b"happened" };
        events.append(&[event(1)]).unwrap();
        events.sync(1).unwrap();
        // The null device accepts writes and fails to sync.
        let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        events.appender.active_mut().file = null;
        events.append(&[event(2)]).unwrap();
        let retention = crate::retention::Retention::new(0, std::time::Duration::ZERO);
        let failed = [
            events.sync(2).unwrap_err(),
            events.sync(2).unwrap_err(),
            events.append(&[event(3)]).unwrap_err(),
            events.resume(9).unwrap_err(),
            events.retain(&retention, 0).unwrap_err(),
        ];
        for error in failed {
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        }
        drop(events);
        let (mut events, _) = Events::open(dir.path(), Options::default()).unwrap();
        assert_eq!((events.last(), events.complete_up_to()), (Some(Cursor::at(1)), 1));
        events.append(&[event(2)]).unwrap();
        events.sync(2).unwrap();
    }
}
