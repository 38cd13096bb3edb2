//! The retained history of a replica: which checkpoint and which records of the log rebuild the
//! state as of an index or a time.
//!
//! For tools and other processes: it locks and changes nothing while the replica keeps appending,
//! writing checkpoints and deleting old ones. It shows the log as it was when the [`History`] was
//! opened; records that were incomplete then are not included. Reading what retention deletes
//! meanwhile fails with [`Error::Deleted`]: open the history again.
//!
//! The newest entries of the log may still be replaced until they are committed. The commit index
//! is in the hard state, for the caller to read: do not request anything above it.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::checkpoint::{self, Checkpoint};
use crate::log::{HardState, Record, Recovered, SegmentInfo};
use crate::{Error, Result, directory};

/// How often the log's directory is listed again when segments disappear during a read.
const ATTEMPTS: usize = 5;

/// The history as retained when this was opened.
#[derive(Debug)]
pub struct History {
    log: Recovered,
    /// Newest first.
    checkpoints: Vec<Checkpoint>,
}

/// A starting point for rebuilding the state as of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start<'a> {
    /// The checkpoint to load. `None` is the empty state before the first record.
    pub checkpoint: Option<&'a Checkpoint>,
    /// The records to apply then, with [`History::for_each`]; empty if the checkpoint is at that
    /// index.
    pub records: RangeInclusive<u64>,
}

impl History {
    /// Opens the log and the checkpoints in these directories.
    ///
    /// # Errors
    /// [`Error::DamagedLog`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn open(log: impl AsRef<Path>, checkpoints: impl AsRef<Path>) -> Result<Self> {
        // In this order, so that the records up to the newest checkpoint are included.
        let checkpoints = checkpoint::list(checkpoints)?;
        let log = look(log.as_ref())?;
        Ok(Self { log, checkpoints })
    }

    /// Opens the log and the checkpoints of a data directory, which another process may hold.
    ///
    /// # Errors
    /// [`Error::NotADataDirectory`], and those of [`Self::open`].
    pub fn of_data_directory(path: impl AsRef<Path>) -> Result<Self> {
        let look = |name| directory::look(path.as_ref(), name);
        let [log, checkpoints]: [PathBuf; 2] =
            [look(directory::LOG)?, look(directory::CHECKPOINTS)?];
        Self::open(log, checkpoints)
    }

    /// The checkpoints, newest first. Some may lack records after them: see [`Self::starts`].
    #[must_use]
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// The segments of the log, oldest first.
    #[must_use]
    pub fn segments(&self) -> &[SegmentInfo] {
        self.log.segments()
    }

    /// The newest hard state in the log, which contains the commit index.
    #[must_use]
    pub fn hard_state(&self) -> Option<&HardState> {
        self.log.hard_state()
    }

    /// The index of the first retained record; one above the last if there is none.
    #[must_use]
    pub fn first_record(&self) -> u64 {
        let after_last = || self.log.last().map(|(index, _)| index.saturating_add(1));
        let announced = || self.log.segments().first().map(|segment| segment.first_index);
        let after_checkpoint = || self.checkpoints.first().map(|c| c.index.saturating_add(1));
        let first = self.log.first_index().or_else(after_last);
        let first = first.or_else(|| announced().filter(|index| *index > 0));
        first.or_else(after_checkpoint).unwrap_or(1)
    }

    /// The highest known index of a record or a checkpoint; 0 if there is neither.
    #[must_use]
    pub fn last_index(&self) -> u64 {
        let record = self.last_record();
        self.checkpoints.first().map_or(record, |newest| newest.index.max(record))
    }

    /// The index of the last record; 0 if there is none.
    fn last_record(&self) -> u64 {
        self.log.last().map_or(0, |(index, _)| index)
    }

    /// The first index from which every state can be rebuilt. 0 is the empty state before the first
    /// record. `None` if no checkpoint connects to the rest of the log.
    #[must_use]
    pub fn begins(&self) -> Option<u64> {
        if self.first_record() == 1 {
            return Some(0);
        }
        self.usable().last().map(|oldest| oldest.index)
    }

    /// The starting points for rebuilding the state as of `index`, best first and never empty: the
    /// newest checkpoint at or before it, and, in case that one is damaged, the older ones.
    ///
    /// # Errors
    /// [`Error::TooEarly`] if it is before the retained history, [`Error::NotYet`] if it is after
    /// it, or between the last record and a checkpoint that came from another replica.
    pub fn starts(&self, index: u64) -> Result<Vec<Start<'_>>> {
        let last = self.last_record();
        // Above the last record only checkpoints exist.
        let there = |c: &&Checkpoint| c.index == index || c.index < index && index <= last;
        let before = self.usable().filter(there);
        let mut starts: Vec<_> = before
            .map(|checkpoint| Start {
                checkpoint: Some(checkpoint),
                records: checkpoint.index.saturating_add(1)..=index,
            })
            .collect();
        if self.first_record() == 1 && index <= last {
            starts.push(Start { checkpoint: None, records: 1..=index });
        }
        if starts.is_empty() {
            let early = self.begins().is_some_and(|begins| index < begins);
            let late = index > last && !early;
            return Err(if late { Error::NotYet { asked: index, last } } else { self.too_early() });
        }
        Ok(starts)
    }

    /// Visits every record of the log in the range, in order, with its payload borrowed. Replaced
    /// entries are skipped.
    ///
    /// # Errors
    /// Those of `visit`; [`Error::TooEarly`] if the range begins before the first record;
    /// [`Error::Deleted`] if a segment was deleted since this was opened; [`Error::DamagedLog`] and
    /// [`Error::Io`].
    pub fn for_each<E: From<Error>>(
        &self,
        range: RangeInclusive<u64>,
        visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if *range.start() < self.first_record() && !range.is_empty() {
            return Err(self.too_early().into());
        }
        self.log.for_range(range, visit)
    }

    /// The last index at or before a time whose state can be rebuilt. `time_of` returns the time of
    /// a record, in the same units and never decreasing; `None` for a record without a time.
    ///
    /// # Errors
    /// Those of `time_of`; [`Error::TooEarly`] if every retained record is later;
    /// [`Error::Deleted`], [`Error::DamagedLog`] and [`Error::Io`].
    pub fn last_at<E: From<Error>>(
        &self,
        time: u64,
        mut time_of: impl FnMut(Record<'_>) -> Result<Option<u64>, E>,
    ) -> Result<u64, E> {
        let (first, last) = (self.first_record(), self.last_record());
        // The first record of a segment tells whether to search there or before.
        let mut places: Vec<u64> = self.log.segments().iter().map(|s| s.first_index).collect();
        places.push(first);
        places.retain(|place| (first..=last).contains(place));
        places.sort_unstable();
        places.dedup();
        let (mut low, mut high) = (0, places.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.first_time(places[middle], &mut time_of)? {
                Some(found) if found <= time => low = middle + 1,
                _ => high = middle,
            }
        }
        let mut found = None;
        if let Some(from) = low.checked_sub(1).and_then(|segment| places.get(segment)) {
            let to = places.get(low).map_or(last, |next| next - 1);
            let looked = self.log.for_range(*from..=to, |record| {
                let index = record.index;
                match time_of(record).map_err(Stop::Failed)? {
                    Some(at) if at <= time => found = Some(index),
                    Some(_) => return Err(Stop::Enough),
                    None => {}
                }
                Ok(())
            });
            stopped(looked)?;
        }
        let begins = self.begins().unwrap_or(u64::MAX);
        found.filter(|index| *index >= begins).ok_or_else(|| self.too_early().into())
    }

    /// The time of the first record from `index` on that has one.
    fn first_time<E: From<Error>>(
        &self,
        index: u64,
        time_of: &mut impl FnMut(Record<'_>) -> Result<Option<u64>, E>,
    ) -> Result<Option<u64>, E> {
        let mut found = None;
        let looked = self.log.for_range(index..=u64::MAX, |record| {
            found = time_of(record).map_err(Stop::Failed)?;
            if found.is_some() { Err(Stop::Enough) } else { Ok(()) }
        });
        stopped(looked)?;
        Ok(found)
    }

    /// The checkpoints after which no record is missing, newest first.
    fn usable(&self) -> impl Iterator<Item = &Checkpoint> {
        let first = self.first_record();
        self.checkpoints.iter().take_while(move |c| c.index.saturating_add(1) >= first)
    }

    fn too_early(&self) -> Error {
        Error::TooEarly { begins: self.begins().unwrap_or_else(|| self.last_index()) }
    }
}

/// Why a visit of the records stopped early.
enum Stop<E> {
    Enough,
    Failed(E),
}

impl<E: From<Error>> From<Error> for Stop<E> {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

fn stopped<E>(looked: Result<(), Stop<E>>) -> Result<(), E> {
    match looked {
        Err(Stop::Failed(error)) => Err(error),
        Ok(()) | Err(Stop::Enough) => Ok(()),
    }
}

/// Reads a log. Its directory is listed and read in steps, between which segments may appear and
/// disappear.
fn look(directory: &Path) -> Result<Recovered> {
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        match Recovered::look(directory) {
            Err(Error::Deleted { .. } | Error::DamagedLog { .. }) if attempts > 0 => {}
            looked => return looked,
        }
    }
}
