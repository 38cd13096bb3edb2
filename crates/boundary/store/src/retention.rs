//! How much of the past is kept: which checkpoints and which part of the log may go.
//!
//! The figures are the caller's; what they mean is decided here, by a function that touches
//! nothing. What recovery needs is never among what may go: the newest two checkpoints, and the log
//! after the older of them.
//!
//! What is kept beyond is a stretch of the log that begins where a checkpoint is, or with its
//! first record, and ends with its last, so that every state since then can be rebuilt; with
//! checkpoints in it that are far enough apart to be few, and near enough for a state to be
//! rebuilt in the time that [`Retention::records_between`] records take.
//!
//! # Carrying it out
//! [`crate::log::Log::truncate_prefix`] with [`Plan::log_from`], and [`Plan::delete_checkpoints`].
//! Each deletes from the oldest on, durably, one after the other. The log first leaves a checkpoint
//! in front of it that leads nowhere, if a crash comes between; the checkpoints first, records
//! before the oldest of them that can be used no more. Both are known as what they are, and go
//! with the next plan: either order is safe, also at the same time.

use std::time::Duration;

use crate::checkpoint::{self, Checkpoint};
use crate::log::SegmentInfo;
use crate::{Error, Result};

/// How much of the past is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// All files together may have so many bytes, unless what is needed has more.
    pub bytes: u64,
    /// Every moment that is not older can be looked at, if `bytes` allows it, and what that does not
    /// take goes. If `bytes` does not, as many moments as it allows.
    pub age: Duration,
    /// Between two neighbouring checkpoints of the past are no more records, where there are
    /// checkpoints for it. Of no meaning for events.
    pub records_between: u64,
}

impl Retention {
    /// So many bytes and so long, with at most 1,000,000 records between checkpoints.
    #[must_use]
    pub fn new(bytes: u64, age: Duration) -> Self {
        Self { bytes, age, records_between: 1_000_000 }
    }

    /// What is before this time, in microseconds since 1970, is too old.
    pub(crate) fn limit_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(u64::try_from(self.age.as_micros()).unwrap_or(u64::MAX))
    }
}

/// What may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The checkpoints to delete, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The index below which the log may go, in whole segments.
    pub log_from: u64,
    /// The first index as of which, and as of every later one, a state can be rebuilt then.
    pub begins: u64,
}

impl Plan {
    /// Deletes the checkpoints of the plan. One that is gone already is none to delete.
    ///
    /// # Errors
    /// [`Error::Io`]; those before the failure are gone, and the others go with the next plan.
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

/// Decides what may go of these checkpoints, in any order, and of the log with these segments,
/// oldest first. `needed_from` is the lowest index of a record that somebody needs, say a replica
/// that lags; above the older of the newest two checkpoints it means nothing. `now_us` is the
/// time by which the checkpoints' are to be judged.
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
    // The newest from which the oldest moment that is wanted can still be rebuilt.
    let wanted = begins.iter().rposition(|begin| begin.time_us <= limit).unwrap_or(0);
    // An older one can take less: from some, fewer checkpoints are needed on the way.
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

/// Where the kept past could begin.
#[derive(Debug, Clone, Copy)]
struct Begin {
    index: u64,
    time_us: u64,
}

/// What there is, and what of it is needed.
struct Past<'a> {
    /// Oldest first.
    checkpoints: Vec<&'a Checkpoint>,
    segments: &'a [SegmentInfo],
    records_between: u64,
    needed_from: u64,
    /// The index of the older of the newest two checkpoints; the empty state is one, too, where
    /// the log begins with its first record.
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

    /// Where the kept past could begin, oldest first; never nothing. With the last of them nothing
    /// is kept but what recovery needs.
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

    /// The checkpoints to keep where the past begins at `begin`: the newest two, and as few as lead
    /// from there to them in steps that are not too long.
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

    /// How much is left where the past begins at `begin`.
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
