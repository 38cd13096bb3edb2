//! The in-memory part of the log, as consensus reads it. Records are here as soon as they are
//! handed to the disk; durability is reported to consensus separately.

use std::cell::Cell as Shared;
use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use cell::Cell;
use model::{Level, LogIndex, Term};
use raft::eraftpb::{self, ConfState, Entry, EntryType};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::{HardState, LogEntry};

/// Recognises records that change the membership, which consensus must know before they are
/// applied.
pub(crate) trait Memberships {
    fn is_membership(&self, entry: &LogEntry) -> bool;
}

/// A cell to go on from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The term of its last record.
    pub term: Term,
    /// The cell, which has its index and who its replicas are.
    pub cell: Cell,
}

#[derive(Debug)]
pub(crate) struct Memory {
    /// The record before the first one in memory: that of the snapshot, or zero.
    base: (LogIndex, Term),
    entries: VecDeque<LogEntry>,
    /// The indexes of records that change the membership.
    memberships: BTreeSet<LogIndex>,
    hard_state: HardState,
    conf_state: ConfState,
    /// The cell to send to a replica that is too far behind.
    offered: Option<Snapshot>,
    /// Consensus needs a newer one.
    wanted: Shared<bool>,
}

impl Memory {
    pub(crate) fn new(
        cell: &Cell,
        term: Term,
        entries: Vec<LogEntry>,
        hard_state: HardState,
        kinds: &impl Memberships,
    ) -> Self {
        let memberships = entries.iter().filter(|entry| kinds.is_membership(entry));
        let memberships = memberships.map(|entry| entry.index).collect();
        Self {
            base: (cell.index(), term),
            entries: entries.into(),
            memberships,
            hard_state,
            conf_state: conf_state(cell),
            offered: None,
            wanted: Shared::new(false),
        }
    }

    /// Appends records; those that conflict with earlier ones replace them and all following ones.
    /// Returns the number of replaced records.
    pub(crate) fn append(&mut self, entries: &[LogEntry], kinds: &impl Memberships) -> usize {
        let mut replaced = 0;
        for entry in entries {
            while self.entries.back().is_some_and(|last| last.index >= entry.index) {
                self.entries.pop_back();
                replaced += 1;
            }
            if self.memberships.last().is_some_and(|last| *last >= entry.index) {
                self.memberships.split_off(&entry.index);
            }
            if kinds.is_membership(entry) {
                self.memberships.insert(entry.index);
            }
            self.entries.push_back(entry.clone());
        }
        replaced
    }

    /// Drops records up to an index that a checkpoint covers.
    pub(crate) fn compact(&mut self, to: LogIndex) {
        while self.entries.front().is_some_and(|first| first.index <= to) {
            if let Some(dropped) = self.entries.pop_front() {
                self.memberships.remove(&dropped.index);
                self.base = (dropped.index, dropped.term);
            }
        }
    }

    /// Continues from a snapshot.
    pub(crate) fn restore(&mut self, cell: &Cell, term: Term) {
        self.base = (cell.index(), term);
        self.entries.clear();
        self.memberships.clear();
        self.offered = None;
    }

    /// Whether consensus needs a snapshot for a replica that is too far behind.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.wanted.replace(false)
    }

    /// Sets the snapshot for replicas that are too far behind.
    pub(crate) fn offer(&mut self, snapshot: Snapshot) {
        self.offered = Some(snapshot);
    }

    /// The current snapshot.
    pub(crate) fn offered(&self) -> Option<&Snapshot> {
        self.offered.as_ref()
    }

    /// Drops the snapshot, which is no longer needed.
    pub(crate) fn withdraw(&mut self) {
        self.offered = None;
    }

    /// Whether a record changes the membership.
    pub(crate) fn is_membership(&self, index: LogIndex) -> bool {
        self.memberships.contains(&index)
    }

    /// Whether no record here changes the membership.
    pub(crate) fn has_no_membership(&self) -> bool {
        self.memberships.is_empty()
    }

    /// The index of the last record.
    pub(crate) fn last(&self) -> LogIndex {
        self.entries.back().map_or(self.base.0, |entry| entry.index)
    }

    /// The records after one of that term and up to another; `None` if some of them are not here.
    pub(crate) fn between(
        &self,
        after: LogIndex,
        term: Term,
        to: LogIndex,
    ) -> Option<Vec<LogEntry>> {
        if after > to || self.term(after.0).ok() != Some(term.0) {
            return None;
        }
        (after.0.saturating_add(1)..=to.0).map(|index| self.get(index).cloned()).collect()
    }

    fn get(&self, index: u64) -> Option<&LogEntry> {
        let position = index.checked_sub(self.base.0.0 + 1)?;
        self.entries.get(usize::try_from(position).ok()?)
    }
}

/// The members of consensus.
pub(crate) fn conf_state(cell: &Cell) -> ConfState {
    let voters = cell.voters().map(|id| id.0).collect();
    let learners = cell.learners().map(|id| id.0).collect();
    ConfState { voters, learners, ..Default::default() }
}

/// The metadata of a snapshot that consensus needs.
pub(crate) fn snapshot(snapshot: &Snapshot) -> eraftpb::Snapshot {
    let mut to = eraftpb::Snapshot::default();
    let metadata = to.mut_metadata();
    metadata.index = snapshot.cell.index().0;
    metadata.term = snapshot.term.0;
    metadata.set_conf_state(conf_state(&snapshot.cell));
    to
}

/// A record that changes the membership carries its operation in the context: the library parses
/// the data of such records, when they are proposed, in its own format.
pub(crate) fn to_raft(entry: &LogEntry, membership: bool) -> Entry {
    let mut to = Entry::default();
    to.set_index(entry.index.0);
    to.set_term(entry.term.0);
    if membership {
        to.set_entry_type(EntryType::EntryConfChangeV2);
        to.set_context(context(entry.level, &entry.data).into());
    } else {
        to.set_context(context(entry.level, &[]).into());
        to.set_data(entry.data.clone());
    }
    to
}

/// The context of a record.
pub(crate) fn context(level: Level, data: &[u8]) -> Vec<u8> {
    [&level.0.to_le_bytes(), data].concat()
}

pub(crate) fn from_raft(entry: &Entry) -> LogEntry {
    let context = entry.get_context();
    let level = context.first_chunk().map_or(0, |level| u32::from_le_bytes(*level));
    let data = match entry.get_entry_type() {
        EntryType::EntryNormal => entry.data.clone(),
        _ => Bytes::copy_from_slice(context.get(size_of::<u32>()..).unwrap_or_default()),
    };
    LogEntry { term: Term(entry.term), index: LogIndex(entry.index), level: Level(level), data }
}

impl Storage for Memory {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard_state = eraftpb::HardState {
            term: self.hard_state.term.0,
            vote: self.hard_state.vote,
            commit: self.hard_state.agreed.clamp(self.base.0, self.last()).0,
            ..Default::default()
        };
        Ok(RaftState::new(hard_state, self.conf_state.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base.0.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let most = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0;
        let mut entries = Vec::new();
        for index in low..high {
            let Some(entry) = self.get(index) else {
                return Err(raft::Error::Store(StorageError::Unavailable));
            };
            size += entry.data.len() as u64;
            if size > most && !entries.is_empty() {
                break;
            }
            entries.push(to_raft(entry, self.memberships.contains(&entry.index)));
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.0.0 {
            return Ok(self.base.1.0);
        }
        if index < self.base.0.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let unavailable = raft::Error::Store(StorageError::Unavailable);
        self.get(index).map(|entry| entry.term.0).ok_or(unavailable)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().0)
    }

    fn snapshot(&self, at_least: u64, _: u64) -> raft::Result<eraftpb::Snapshot> {
        let good = |offered: &&Snapshot| {
            let index = offered.cell.index();
            index.0 >= at_least && index >= self.base.0
        };
        self.offered.as_ref().filter(good).map(snapshot).ok_or_else(|| {
            self.wanted.set(true);
            raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable)
        })
    }
}
