//! The log as consensus reads it: the part that is in memory. Records are here as soon as they are
//! handed to the disk; what is durable is reported to consensus separately.

use std::collections::VecDeque;

use model::{Level, LogIndex, Term};
use raft::eraftpb::{ConfState, Entry, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::{HardState, LogEntry};

#[derive(Debug)]
pub(crate) struct Memory {
    /// The record before the first that is kept: that of the snapshot, or nothing.
    base: (LogIndex, Term),
    entries: VecDeque<LogEntry>,
    hard_state: HardState,
    voter: u64,
}

impl Memory {
    pub(crate) fn new(
        voter: u64,
        base: (LogIndex, Term),
        entries: Vec<LogEntry>,
        hard_state: HardState,
    ) -> Self {
        Self { base, entries: entries.into(), hard_state, voter }
    }

    /// Adds records; those that contradict earlier ones replace them and all that followed.
    pub(crate) fn append(&mut self, entries: &[LogEntry]) {
        for entry in entries {
            while self.entries.back().is_some_and(|last| last.index >= entry.index) {
                self.entries.pop_back();
            }
            self.entries.push_back(entry.clone());
        }
    }

    /// Drops records up to an index that a checkpoint covers.
    pub(crate) fn compact(&mut self, to: LogIndex) {
        while self.entries.front().is_some_and(|first| first.index <= to) {
            if let Some(dropped) = self.entries.pop_front() {
                self.base = (dropped.index, dropped.term);
            }
        }
    }

    fn get(&self, index: u64) -> Option<&LogEntry> {
        let position = index.checked_sub(self.base.0.0 + 1)?;
        self.entries.get(usize::try_from(position).ok()?)
    }
}

pub(crate) fn to_raft(entry: &LogEntry) -> Entry {
    let mut to = Entry::default();
    to.set_index(entry.index.0);
    to.set_term(entry.term.0);
    to.set_context(entry.level.0.to_le_bytes().to_vec().into());
    to.set_data(entry.data.clone());
    to
}

pub(crate) fn from_raft(entry: &Entry) -> LogEntry {
    let level = entry.get_context().try_into().map_or(0, u32::from_le_bytes);
    LogEntry {
        term: Term(entry.term),
        index: LogIndex(entry.index),
        level: Level(level),
        data: entry.data.clone(),
    }
}

impl Storage for Memory {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard_state = raft::eraftpb::HardState {
            term: self.hard_state.term.0,
            vote: self.hard_state.vote,
            commit: self.base.0.0,
            ..Default::default()
        };
        let conf_state = ConfState { voters: vec![self.voter], ..Default::default() };
        Ok(RaftState::new(hard_state, conf_state))
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
            entries.push(to_raft(entry));
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
        Ok(self.entries.back().map_or(self.base.0.0, |entry| entry.index.0))
    }

    fn snapshot(&self, _: u64, _: u64) -> raft::Result<Snapshot> {
        // A cell of one replica has nobody to send a snapshot to.
        Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
