//! Closed windows on disk, until a reader has stored them: bounded by bytes and age.
//!
//! The cursor of a window is the number of the event that holds it. Numbers ascend, and those of a
//! new process begin at the wall clock's microseconds: what a crash lost is never confused with what
//! came later.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use api::v1;
use borglet::{UsageWindow, WINDOWS_MAX};
use model::{Span, Time};
use prost::Message as _;
use store::events::{Cursor, Event, Events, Limit, Options};
use store::{Error, Retention};

/// The directory in the data directory.
const DIRECTORY: &str = "usage";
/// The size of a file, which is the unit of deletion.
const FILE_BYTES: u64 = 1 << 20;
/// How much is kept for a reader that has not come yet, and for how long.
const BYTES_MAX: u64 = 64 << 20;
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How much of the past a master gets that has nothing yet.
const RECENT: Span = Span::from_secs(3_600);
/// How many gaps in the kept windows are skipped at once.
const GAPS_MAX: usize = 16;

/// The kept windows.
#[derive(Debug)]
pub(super) struct Spool {
    events: Events,
    next: u64,
    /// Windows before this time have been acknowledged.
    acknowledged: Time,
    /// Event times never go back.
    last: Time,
    needs_sync: bool,
}

impl Spool {
    /// Opens the spool in a data directory.
    pub(super) fn open(data: &Path, wall: Time) -> anyhow::Result<Self> {
        let directory = data.join(DIRECTORY);
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let (mut events, found) =
            Events::open(&directory, Options { segment_bytes: FILE_BYTES, ..Options::default() })?;
        for damage in found.damage {
            tracing::warn!("kept usage is damaged: {damage}");
        }
        events.resume(events.complete_up_to() + 1)?;
        let after_last = events.last().map_or(0, |last| last.index + 1);
        let mut last = Time::ZERO;
        if let Some(cursor) = events.last() {
            let time = |event: Event<'_>| {
                last = Time(event.time_us);
                Ok::<(), Error>(())
            };
            events.reader().read(cursor, Limit::events(1), time)?;
        }
        let next = wall.0.max(after_last);
        Ok(Self { events, next, acknowledged: Time::ZERO, last, needs_sync: false })
    }

    /// The cursor of the newest window; 0 if there is none.
    pub(super) fn newest(&self) -> u64 {
        self.events.last().map_or(0, |last| last.index)
    }

    pub(super) fn append(&mut self, windows: &[UsageWindow], wall: Time) -> anyhow::Result<()> {
        self.last = self.last.max(wall);
        for window in windows {
            let payload = v1::UsageWindow::from(window).encode_to_vec();
            let (index, time_us) = (self.next, self.last.0);
            self.events.append(&[Event { index, sub: 0, time_us, payload: &payload }])?;
            self.next += 1;
        }
        self.needs_sync = true;
        Ok(())
    }

    /// Makes what was appended durable, and deletes what is too much, too old, or acknowledged.
    pub(super) fn settle(&mut self, wall: Time) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.needs_sync) {
            return Ok(());
        }
        self.events.sync(self.newest())?;
        let age = AGE_MAX.min(wall.since(self.acknowledged).to_std());
        self.events.retain(&Retention::new(BYTES_MAX, age), wall.0)?;
        Ok(())
    }

    /// A reader has stored the windows up to this cursor; 0 means none.
    pub(super) fn acknowledge(&mut self, cursor: u64) -> anyhow::Result<()> {
        let mut through = None;
        if cursor > 0 {
            self.visit(cursor.saturating_sub(1), 1, |event| {
                through = Some(Time(event.time_us)).filter(|_| event.index <= cursor);
                Ok(())
            })?;
        }
        if let Some(through) = through {
            self.acknowledged = self.acknowledged.max(through);
            self.needs_sync = true;
        }
        Ok(())
    }

    /// Windows after a cursor, and the cursor of the last of them. Without a cursor it begins a while
    /// ago.
    pub(super) fn recent(
        &mut self,
        after: u64,
        wall: Time,
    ) -> anyhow::Result<(Vec<UsageWindow>, u64)> {
        let mut from = after;
        if after == 0 {
            let begin = (wall - RECENT).0;
            from = match self.events.reader().first_at(begin) {
                Ok(first) => first.map_or(self.newest(), |first| first.index.saturating_sub(1)),
                Err(Error::EventsTooLate { .. }) => 0,
                Err(error) => return Err(error.into()),
            };
        }
        let mut windows = Vec::new();
        let (cursor, _) = self.visit(from, WINDOWS_MAX, |event| {
            windows.push(UsageWindow::try_from(v1::UsageWindow::decode(event.payload)?)?);
            Ok(())
        })?;
        Ok((windows, cursor))
    }

    /// Windows after a cursor, for a reader that stores them.
    pub(super) fn read(
        &mut self,
        after: u64,
        at_most: u32,
    ) -> anyhow::Result<v1::ReadUsageResponse> {
        let at_most = usize::try_from(at_most).unwrap_or(usize::MAX);
        let at_most = if at_most == 0 { WINDOWS_MAX } else { at_most.min(WINDOWS_MAX) };
        let mut windows = Vec::new();
        let (cursor, lost) = self.visit(after, at_most, |event| {
            windows.push(v1::UsageWindow::decode(event.payload)?);
            Ok(())
        })?;
        // To somebody who has read nothing, nothing is lost.
        let (lost, more) = (lost && after > 0, cursor < self.newest());
        Ok(v1::ReadUsageResponse { windows, cursor, lost, more })
    }

    /// Visits windows after a cursor; returns the cursor of the last one, and whether some were lost
    /// in between.
    fn visit(
        &self,
        after: u64,
        at_most: usize,
        mut visit: impl FnMut(&Event<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<(u64, bool)> {
        let mut reader = self.events.reader();
        let (mut from, mut last, mut lost) = (Cursor::at(after).after(), after, false);
        for _ in 0..=GAPS_MAX {
            let read = reader.read(from, Limit::events(at_most), |event| {
                last = event.index;
                visit(&event)
            });
            let continues = match read {
                Ok(_) => return Ok((last, lost)),
                Err(error) => error.downcast::<Error>()?,
            };
            from = match continues {
                Error::EventsTooLate { oldest } => oldest,
                Error::EventsLost { complete_from, .. } => complete_from,
                Error::DamagedEvents { next: Some(next), .. } => next,
                error => return Err(error.into()),
            };
            lost = true;
        }
        Ok((last, lost))
    }
}

#[cfg(test)]
mod tests {
    use borglet::{Measured, UsageSubject};

    use super::*;

    const HOUR: Span = Span::from_secs(3_600);

    fn window(number: u32) -> UsageWindow {
        UsageWindow {
            subject: UsageSubject::Machine,
            start: Time(u64::from(number)),
            length: Span(1),
            samples: number,
            average: Measured::default(),
            maximum: Measured::default(),
            random_cpu: None,
            cpu: None,
            cycles_per_instruction: None,
            memory_accesses_per_instruction: None,
        }
    }

    fn numbers(response: &v1::ReadUsageResponse) -> Vec<u32> {
        response.windows.iter().map(|window| window.samples).collect()
    }

    #[test]
    fn windows_are_read_from_a_cursor_on_also_by_the_next_process() {
        let place = tempfile::tempdir().expect("a directory");
        let wall = Time(1_000_000_000_000);
        let mut spool = Spool::open(place.path(), wall).expect("a spool");
        assert_eq!(spool.recent(0, wall).expect("nothing"), (vec![], 0));
        spool.append(&[window(1), window(2), window(3)], wall).expect("there is room");
        let first = spool.read(0, 2).expect("two");
        assert_eq!((numbers(&first), first.lost, first.more), (vec![1, 2], false, true));
        spool.settle(wall).expect("it is synced");
        drop(spool);
        // Whatever its clock says.
        let mut spool = Spool::open(place.path(), Time(5)).expect("a spool");
        spool.append(&[window(4)], Time(5)).expect("there is room");
        let rest = spool.read(first.cursor, 0).expect("the rest");
        assert_eq!((numbers(&rest), rest.lost, rest.more), (vec![3, 4], false, false));
        assert_eq!(rest.cursor, spool.newest());
        assert!(spool.read(rest.cursor, 0).expect("nothing").windows.is_empty());
    }

    #[test]
    fn a_master_that_has_nothing_gets_the_last_hour() {
        let place = tempfile::tempdir().expect("a directory");
        let wall = Time(1_000_000_000_000);
        let mut spool = Spool::open(place.path(), wall).expect("a spool");
        for (number, at) in [(1, wall), (2, wall + HOUR), (3, wall + HOUR + Span(1))] {
            spool.append(&[window(number)], at).expect("there is room");
        }
        let recent = |spool: &mut Spool, now| {
            let (windows, cursor) = spool.recent(0, now).expect("windows");
            assert_eq!(cursor, spool.newest());
            windows.iter().map(|window| window.samples).collect::<Vec<_>>()
        };
        assert_eq!(recent(&mut spool, wall + HOUR), [1, 2, 3]);
        assert_eq!(recent(&mut spool, wall + HOUR + HOUR), [2, 3]);
        assert_eq!(recent(&mut spool, wall + HOUR + HOUR + HOUR), [0_u32; 0]);
    }

    #[test]
    fn acknowledged_windows_are_deleted_and_old_ones_are_lost() {
        let place = tempfile::tempdir().expect("a directory");
        let wall = Time(1_000_000_000_000);
        let mut spool = Spool::open(place.path(), wall).expect("a spool");
        let files = || fs::read_dir(place.path().join(DIRECTORY)).expect("a directory").count();
        let mut now = wall;
        let mut fill = |spool: &mut Spool| {
            let many: Vec<_> = (0..20_000).map(window).collect();
            for part in many.chunks(1_000) {
                now = now + Span::from_secs(60);
                spool.append(part, now).expect("there is room");
            }
            spool.settle(now).expect("it is synced");
            now
        };
        fill(&mut spool);
        let cursor = spool.newest();
        fill(&mut spool);
        let before = files();
        spool.acknowledge(cursor).expect("it is there");
        spool.settle(wall + HOUR).expect("files are deleted");
        assert!(files() < before, "{} of {before}", files());
        let rest = spool.read(cursor, 1).expect("the rest");
        assert_eq!((numbers(&rest), rest.lost), (vec![0], false));
        let late = spool.read(wall.0 + 5, 1).expect("what is left");
        assert!(late.lost && late.cursor > wall.0 + 6, "{late:?}");
    }
}
