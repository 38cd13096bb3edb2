//! Retention: decides which checkpoints and which part of the log to delete.
//!
//! The caller chooses the settings; a pure function here decides what they mean. What recovery
//! needs is never deleted: the newest two checkpoints, and the log after the older of them.
//!
//! The retained history beyond that is a contiguous part of the log that starts at a checkpoint, or
//! at the first record, and extends to the last record, so that every state since then can be
//! rebuilt. Its checkpoints are far enough apart to be few, and close enough for a state to be
//! rebuilt in the time that [`Retention::records_between`] records take.
//!
//! # Executing a plan
//! Call [`crate::log::Log::truncate_prefix`] with [`Plan::log_from`], and
//! [`Plan::delete_checkpoints`]. Each deletes durably, one by one, oldest first. If a crash comes
//! in between, truncating the log first leaves a checkpoint before the log that connects to
//! nothing, and deleting checkpoints first leaves records before the oldest checkpoint that cannot
//! be used. Both are recognised and deleted by the next plan: either order is safe, also
//! concurrently.

use std::time::Duration;

use crate::checkpoint::{self, Checkpoint};
use crate::log::SegmentInfo;
use crate::{Error, Result};

/// Retention settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The maximum total size of all files, unless recovery needs more.
    pub bytes: u64,
    /// Every state up to this age can be rebuilt, as far as `bytes` allows, and older history is
    /// deleted. If `bytes` does not suffice, as much as fits is kept.
    pub age: Duration,
    /// The maximum number of records between adjacent checkpoints of the history, as far as
    /// checkpoints exist. Not used for events.
    pub records_between: u64,
}

impl Retention {
    /// A maximum size and age, with at most 1,000,000 records between checkpoints.
    #[must_use]
    pub fn new(bytes: u64, age: Duration) -> Self {
        Self { bytes, age, records_between: 1_000_000 }
    }

    /// The time, in microseconds since 1970, before which everything is too old.
    pub(crate) fn limit_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(u64::try_from(self.age.as_micros()).unwrap_or(u64::MAX))
    }
}

/// What to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The checkpoints to delete, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The index below which the log may be deleted, in whole segments.
    pub log_from: u64,
    /// The first index from which every state can be rebuilt afterwards.
    pub begins: u64,
}

impl Plan {
    /// Deletes the checkpoints of the plan. Those already gone are skipped.
    ///
    /// # Errors
    /// [`Error::Io`]; those before the failure stay deleted, and the next plan contains the others.
    pub fn delete_checkpoints(&self) -> Result<()> {
        for checkpoint in &self.checkpoints {
            match checkpoint::remove(checkpoint) {
                Err(Error::Deleted { .. }) => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

/// Decides what to delete of these checkpoints, in any order, and of the log with these segments,
/// oldest first. `needed_from` is the lowest index of a record that someone needs, such as a
/// lagging replica; it has no effect above the older of the newest two checkpoints. The
/// checkpoints' ages are relative to `now_us`.
#[must_use]
pub fn plan(
    retention: &Retention,
    checkpoints: &[Checkpoint],
    segments: &[SegmentInfo],
    needed_from: u64,
    now_us: u64,
) -> Plan {
    let past = Past::of(retention, checkpoints, segments, needed_from);
    let limit = retention.limit_us(now_us);
    let begins = past.begins();
    // The newest start from which the oldest wanted state can still be rebuilt.
    let wanted = begins.iter().rposition(|begin| begin.time_us <= limit).unwrap_or(0);
    // An older start can need less space: fewer checkpoints may be needed on the way.
    let (older, newer) = begins.split_at(wanted + 1);
    let fits = |begin: &&Begin| past.bytes(begin.index) <= retention.bytes;
    let begin = older.iter().rev().chain(newer).find(fits).or(begins.last());
    let begin = begin.map_or(0, |begin| begin.index);
    let kept = past.kept(begin);
    let gone = past.checkpoints.iter().filter(|c| !kept.contains(c));
    Plan {
        checkpoints: gone.map(|checkpoint| (*checkpoint).clone()).collect(),
        log_from: past.log_from(begin),
        begins: begin,
    }
}

/// A possible start of the history.
#[derive(Debug, Clone, Copy)]
struct Begin {
    index: u64,
    time_us: u64,
}

/// The existing data, and what of it is needed.
struct Past<'a> {
    /// Oldest first.
    checkpoints: Vec<&'a Checkpoint>,
    segments: &'a [SegmentInfo],
    records_between: u64,
    needed_from: u64,
    /// The index of the older of the newest two checkpoints; the empty state counts as one if the
    /// log starts with its first record.
    older: u64,
    /// The index of the log's first record.
    first_record: u64,
}

impl<'a> Past<'a> {
    fn of(
        retention: &Retention,
        checkpoints: &'a [Checkpoint],
        segments: &'a [SegmentInfo],
        needed_from: u64,
    ) -> Self {
        let mut checkpoints: Vec<_> = checkpoints.iter().collect();
        checkpoints.sort_unstable_by_key(|c| (c.index, c.term));
        let first_record = segments.first().map_or(u64::MAX, |s| s.first_index.max(1));
        let older = match &checkpoints[..] {
            [.., older, _] => older.index,
            [only] if first_record > 1 => only.index,
            _ => 0,
        };
        let records_between = retention.records_between;
        Self { checkpoints, segments, records_between, needed_from, older, first_record }
    }

    /// The possible starts of the history, oldest first and never empty. With the last one, only
    /// what recovery needs is kept.
    fn begins(&self) -> Vec<Begin> {
        let empty = (self.first_record == 1).then_some(Begin { index: 0, time_us: 0 });
        let usable = self.checkpoints.iter().filter(|c| {
            c.index == self.older
                || c.index < self.older && c.index.saturating_add(1) >= self.first_record
        });
        let usable = usable.map(|c| Begin { index: c.index, time_us: c.time_us });
        let mut begins: Vec<_> = empty.into_iter().chain(usable).collect();
        if begins.is_empty() {
            begins.push(Begin { index: self.older, time_us: 0 });
        }
        begins
    }

    /// The checkpoints to keep if the history starts at `begin`: the newest two, and as few as
    /// connect the start to them in steps that are not too long.
    fn kept(&self, begin: u64) -> Vec<&'a Checkpoint> {
        let (past, newest) = self.checkpoints.split_at(self.checkpoints.len().saturating_sub(2));
        let mut kept: Vec<_> =
            past.iter().rfind(|c| c.index == begin).copied().into_iter().collect();
        let mut at = begin;
        while at < self.older {
            let after = || past.iter().filter(|c| c.index > at && c.index < self.older);
            let reach = at.saturating_add(self.records_between);
            if reach >= self.older {
                break;
            }
            let furthest = after().rfind(|c| c.index <= reach).or_else(|| after().next());
            let Some(next) = furthest else { break };
            kept.push(*next);
            at = next.index;
        }
        kept.extend(newest.iter().copied());
        kept
    }

    fn log_from(&self, begin: u64) -> u64 {
        begin.saturating_add(1).min(self.needed_from)
    }

    /// The remaining size if the history starts at `begin`.
    fn bytes(&self, begin: u64) -> u64 {
        let from = self.log_from(begin);
        let sealed = self.segments.len().saturating_sub(1);
        let goes = |s: &SegmentInfo| s.last_index.is_none_or(|last| last < from);
        let gone = self.segments[..sealed].iter().take_while(|s| goes(s)).count();
        let log = self.segments[gone..].iter().map(|s| s.file_bytes);
        let checkpoints = self.kept(begin).into_iter().map(|c| c.bytes);
        log.chain(checkpoints).fold(0, u64::saturating_add)
    }
}
