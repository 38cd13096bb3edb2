//! The disk of a replica: what is written, what of it survives a power loss, and what a restarted
//! process finds.

use std::collections::VecDeque;

use cell::Cell;
use model::{LogIndex, Random, RestoreEpoch, Span, Term};
use replica::{HardState, LogEntry, Persist, Recovered};

use crate::injected_bug::InjectedBug;

/// One record of the log.
#[derive(Clone, Debug)]
enum LogRecord {
    Promise(HardState),
    Entry(LogEntry),
    /// The log restarts after this record: the cell up to there came from another replica.
    Restart(LogIndex),
}

/// The records that are written for it.
fn records(persist: Persist) -> impl Iterator<Item = LogRecord> {
    let restart = persist.restart.map(|(index, _)| LogRecord::Restart(index));
    let promise = persist.hard_state.map(LogRecord::Promise);
    let entries = persist.entries.into_iter().map(LogRecord::Entry);
    restart.into_iter().chain(promise).chain(entries)
}

/// A durable checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) cell: Cell,
    pub(crate) term: Term,
}

/// How a replica's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It was killed: what it had written is in the kernel's buffers and survives.
    Killed,
    /// Its machine lost power: what was not synced survives only in part.
    PowerLost,
}

/// A simulated disk.
#[derive(Debug)]
pub(crate) struct Disk {
    random: Random,
    /// The two newest, newest last.
    checkpoints: Vec<Checkpoint>,
    written: Vec<LogRecord>,
    /// Number of records that survive a power loss.
    synced: usize,
    /// Number of records that it claimed to have synced.
    said: usize,
    /// Submitted but not yet written.
    queue: VecDeque<Persist>,
    pub(crate) restore_epoch: RestoreEpoch,
    /// The disk is full: nothing is written until there is room.
    pub(crate) full: bool,
    /// Additional duration of each write.
    pub(crate) slow: Span,
    /// It claims to have synced, but has not.
    pub(crate) lies: bool,
    /// Something that it claimed to have synced is lost.
    pub(crate) lost: bool,
    /// A bug to inject.
    pub(crate) injected_bug: Option<InjectedBug>,
}

impl Disk {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            checkpoints: Vec::new(),
            written: Vec::new(),
            synced: 0,
            said: 0,
            queue: VecDeque::new(),
            restore_epoch: RestoreEpoch::NEVER,
            full: false,
            slow: Span::ZERO,
            lies: false,
            lost: false,
            injected_bug: None,
        }
    }

    /// Submits records; returns how long until they are durable, if the disk has room.
    pub(crate) fn write(&mut self, persist: Persist) -> Span {
        self.queue.push_back(persist);
        Span(80 + self.random.below(60)) + Span(self.random.below(self.slow.0.max(1)))
    }

    /// Finishes every write up to a number; returns whether they can be acknowledged.
    pub(crate) fn finish(&mut self, number: u64) -> bool {
        if self.full {
            return false;
        }
        if self.injected_bug == Some(InjectedBug::LostWrite) {
            return true;
        }
        while let Some(persist) = self.queue.pop_front_if(|persist| persist.number <= number) {
            self.written.extend(records(persist));
        }
        self.said = self.written.len();
        if !self.lies {
            self.synced = self.written.len();
        }
        true
    }

    /// Appends a hard state without syncing it, if no other write is pending.
    pub(crate) fn note(&mut self, promise: HardState) {
        if self.queue.is_empty() && !self.full && self.injected_bug != Some(InjectedBug::LostWrite)
        {
            self.written.push(LogRecord::Promise(promise));
        }
    }

    /// The newest write that waits for room.
    pub(crate) fn waiting(&self) -> Option<u64> {
        self.queue.back().map(|persist| persist.number)
    }

    /// The process or machine crashes: pending writes survive in part.
    pub(crate) fn crash(&mut self, how: Crash) {
        let unwritten: Vec<LogRecord> = self.queue.drain(..).flat_map(records).collect();
        if !self.full && self.injected_bug != Some(InjectedBug::LostWrite) {
            let some = self.random.index(unwritten.len() + 1);
            self.written.extend(unwritten.into_iter().take(some));
        }
        if how == Crash::PowerLost {
            let unsynced = self.written.len() - self.synced;
            let survive = self.random.index(unsynced + 1);
            self.written.truncate(self.synced + survive);
            self.lost |= self.written.len() < self.said;
        }
        if how == Crash::PowerLost || !self.lies {
            self.synced = self.written.len();
        }
        self.said = self.said.min(self.written.len());
    }

    /// Everything is lost.
    pub(crate) fn forget(&mut self) {
        self.checkpoints.clear();
        self.written.clear();
        (self.synced, self.said, self.lost) = (0, 0, true);
    }

    /// Whether there is a backup to restore.
    pub(crate) fn has_checkpoint(&self) -> bool {
        !self.checkpoints.is_empty()
    }

    /// Whether a checkpoint up to an index can be stored and is newer than the existing one: while
    /// it was being written, a newer one may have come from another replica.
    pub(crate) fn takes_checkpoint(&self, index: LogIndex) -> bool {
        let newest = self.checkpoints.last().map_or(LogIndex(0), |newest| newest.cell.index());
        !self.full && !self.lies && newest < index
    }

    /// Stores a checkpoint; the log is kept back to the one before. Returns the index up to which
    /// the log is no longer needed.
    pub(crate) fn checkpoint(&mut self, checkpoint: Checkpoint) -> LogIndex {
        self.checkpoints.push(checkpoint);
        if self.checkpoints.len() > 2 {
            self.checkpoints.remove(0);
        }
        let oldest = self.checkpoints.first();
        let needed_from = oldest.map_or(LogIndex(0), |oldest| oldest.cell.index());
        let (promise, unsynced) = (self.promise(), self.written.len() - self.synced);
        let unsaid = self.written.len().saturating_sub(self.said);
        let covered = |record: &LogRecord| match record {
            LogRecord::Promise(_) => true,
            LogRecord::Entry(LogEntry { index, .. }) | LogRecord::Restart(index) => {
                *index <= needed_from
            }
        };
        // Only a synced prefix is removed; hard states are rewritten before what is left.
        let goes = self.written[..self.synced].iter().take_while(|record| covered(record)).count();
        self.written.drain(..goes);
        if goes > 0 {
            self.written.insert(0, LogRecord::Promise(promise));
        }
        self.synced = self.written.len() - unsynced;
        self.said = self.written.len().saturating_sub(unsaid);
        needed_from
    }

    fn promise(&self) -> HardState {
        let newest = self.written.iter().rev().find_map(|record| match record {
            LogRecord::Promise(promise) => Some(*promise),
            LogRecord::Entry(_) | LogRecord::Restart(_) => None,
        });
        newest.unwrap_or_default()
    }

    /// What a starting process finds; `None` if the log begins after the checkpoint.
    pub(crate) fn recover(&mut self) -> Option<Recovered> {
        let newest = self.checkpoints.last();
        let mut recovered = Recovered {
            checkpoint: newest.map(|newest| (newest.cell.clone(), newest.term)),
            hard_state: self.promise(),
            restore_epoch: self.restore_epoch,
            ..Recovered::default()
        };
        match self.injected_bug {
            Some(InjectedBug::ForgottenVote) => recovered.hard_state.vote = 0,
            Some(InjectedBug::ForgottenAgreement) => recovered.hard_state.agreed = LogIndex(0),
            _ => {}
        }
        let (from, term) =
            newest.map_or_else(Default::default, |newest| (newest.cell.index(), newest.term));
        let (mut begins, mut last) = (LogIndex(0), LogIndex(0));
        for record in &self.written {
            match record {
                LogRecord::Promise(_) => {}
                LogRecord::Restart(index) => {
                    recovered.entries.clear();
                    recovered.diverged = false;
                    (begins, last) = (*index, *index);
                }
                LogRecord::Entry(entry) => {
                    while recovered.entries.pop_if(|last| last.index >= entry.index).is_some() {}
                    last = entry.index;
                    if entry.index > from {
                        recovered.entries.push(entry.clone());
                    } else {
                        recovered.diverged = entry.index == from && entry.term != term;
                    }
                }
            }
        }
        if recovered.diverged || last < from {
            recovered.entries.clear();
            self.written.push(LogRecord::Restart(from));
            (self.synced, self.said) = (self.written.len(), self.written.len());
        }
        (begins <= from).then_some(recovered)
    }

    /// Whether the cell could be recovered without the newest checkpoint.
    pub(crate) fn can_do_without_newest(&self) -> bool {
        let before = self.checkpoints.iter().rev().nth(1).map(|before| before.cell.index());
        let restarts = |record: &LogRecord| match record {
            LogRecord::Restart(index) => Some(*index),
            LogRecord::Promise(_) | LogRecord::Entry(_) => None,
        };
        let begins = self.written.iter().filter_map(restarts).max();
        before.is_some_and(|before| begins.is_none_or(|begins| begins <= before))
    }

    /// The newest checkpoint becomes unreadable. The log is kept back to the one before for this
    /// case; without an earlier one, nothing happens.
    pub(crate) fn newest_checkpoint_rots(&mut self) {
        self.checkpoints.truncate(1);
    }

    /// Restores the older checkpoint, as an operator does who loads a backup: later operations are
    /// lost, and machines obey only the restored cell. `known` is the highest counter of a restore
    /// epoch that the operator learns of. Returns the cell of that checkpoint; `None` if there is no
    /// checkpoint yet.
    pub(crate) fn restore(&mut self, known: u64, alone: impl Fn(Cell) -> Cell) -> Option<Cell> {
        let oldest = self.checkpoints.first()?.clone();
        let restored = Checkpoint { cell: alone(oldest.cell.restored()), term: oldest.term };
        let cell = restored.cell.clone();
        self.checkpoints = vec![restored];
        self.written.clear();
        (self.synced, self.said) = (0, 0);
        self.queue.clear();
        let own = self.restore_epoch.counter;
        self.restore_epoch = match self.injected_bug {
            Some(InjectedBug::EpochTwice) => RestoreEpoch::after(own, 0),
            _ => RestoreEpoch::after(own.max(known), self.random.number()),
        };
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::Op;
    use model::{Level, Time};

    fn entries(range: std::ops::RangeInclusive<u64>) -> Vec<LogEntry> {
        let entry = |index| LogEntry {
            term: Term(1),
            index: LogIndex(index),
            level: Level(1),
            data: Vec::new().into(),
        };
        range.map(entry).collect()
    }

    fn persist(number: u64, range: std::ops::RangeInclusive<u64>) -> Persist {
        let hard_state =
            (number == 1).then_some(HardState { term: Term(1), vote: 1, ..HardState::default() });
        Persist { number, restart: None, entries: entries(range), hard_state }
    }

    fn checkpoint(index: u64) -> Checkpoint {
        let mut cell = Cell::default();
        (0..index).for_each(|_| drop(cell.apply(Time(1), &Op::Nothing)));
        Checkpoint { cell, term: Term(1) }
    }

    /// What is recovered: the checkpoint's index, and the last record's.
    fn found(disk: &mut Disk) -> (u64, u64) {
        let recovered = disk.recover().expect("a complete log");
        let from = recovered.checkpoint.map_or(0, |(cell, _)| cell.index().0);
        let indexes: Vec<u64> = recovered.entries.iter().map(|entry| entry.index.0).collect();
        let expected: Vec<u64> = (from + 1..).take(indexes.len()).collect();
        assert_eq!(indexes, expected, "no record is missing");
        (from, from + indexes.len() as u64)
    }

    /// The minimum and maximum recovered by several disks, after ten records were written and
    /// synced, five more submitted, and then `happens`.
    fn survive(happens: impl Fn(&mut Disk)) -> (u64, u64) {
        let last = (0..200).map(|seed| {
            let mut disk = Disk::new(Random::new(seed));
            disk.write(persist(1, 1..=10));
            assert!(disk.finish(1));
            disk.write(persist(2, 11..=15));
            happens(&mut disk);
            assert_eq!(disk.promise().term, Term(1));
            found(&mut disk).1
        });
        let last: Vec<u64> = last.collect();
        let (least, most) = (last.iter().min(), last.iter().max());
        (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
    }

    #[test]
    fn each_kind_of_crash_preserves_the_expected_records() {
        let full = |how: Crash| {
            move |disk: &mut Disk| {
                disk.full = true;
                assert!(!disk.finish(2), "nothing is written without room");
                disk.crash(how);
            }
        };
        let table = [
            ("killed while it wrote", survive(|disk| disk.crash(Crash::Killed)), (10, 15)),
            ("power lost while it wrote", survive(|disk| disk.crash(Crash::PowerLost)), (10, 15)),
            (
                "power lost after the sync",
                survive(|disk| {
                    assert!(disk.finish(2));
                    disk.crash(Crash::PowerLost);
                }),
                (15, 15),
            ),
            ("killed without room", survive(full(Crash::Killed)), (10, 10)),
            ("power lost without room", survive(full(Crash::PowerLost)), (10, 10)),
        ];
        for (what, survived, expected) in table {
            assert_eq!(survived, expected, "{what}");
        }
    }

    #[test]
    fn a_disk_that_lies_keeps_what_it_says_until_power_is_lost() {
        let lied = |how: Crash| {
            survive(move |disk| {
                disk.lies = true;
                assert!(disk.finish(2), "it claims so");
                disk.crash(how);
            })
        };
        assert_eq!(lied(Crash::Killed), (15, 15));
        assert_eq!(lied(Crash::PowerLost), (10, 15));
    }

    #[test]
    fn waiting_writes_finish_in_order_once_the_disk_has_room() {
        let mut disk = Disk::new(Random::new(1));
        disk.full = true;
        disk.write(persist(1, 1..=3));
        disk.write(persist(2, 4..=6));
        assert_eq!((disk.finish(1), disk.waiting(), found(&mut disk)), (false, Some(2), (0, 0)));
        disk.full = false;
        assert!(disk.finish(2));
        assert_eq!((disk.waiting(), found(&mut disk)), (None, (0, 6)));
    }

    #[test]
    fn a_rewritten_record_replaces_itself_and_all_later_records() {
        let mut disk = Disk::new(Random::new(1));
        for (number, range) in [(1, 1..=6), (2, 4..=5)] {
            disk.write(persist(number, range));
            assert!(disk.finish(number));
        }
        assert_eq!(found(&mut disk), (0, 5));
    }

    #[test]
    fn the_log_reaches_back_to_the_older_of_two_checkpoints() {
        let mut disk = Disk::new(Random::new(1));
        disk.write(persist(1, 1..=20));
        assert!(disk.finish(1) && !disk.has_checkpoint());
        for (at, needed_from) in [(5, 5), (9, 5), (14, 9)] {
            assert_eq!(disk.checkpoint(checkpoint(at)), LogIndex(needed_from));
            assert_eq!(found(&mut disk), (at, 20));
            assert_eq!(disk.promise().term, Term(1), "a hard state outlives the log before it");
        }
        disk.newest_checkpoint_rots();
        assert_eq!(found(&mut disk), (9, 20));
        disk.newest_checkpoint_rots();
        assert_eq!(found(&mut disk), (9, 20));
    }

    #[test]
    fn a_backup_is_the_older_checkpoint_and_nothing_after_it() {
        let mut disk = Disk::new(Random::new(1));
        assert!(disk.restore(0, |cell| cell).is_none());
        disk.write(persist(1, 1..=20));
        assert!(disk.finish(1));
        disk.checkpoint(checkpoint(5));
        disk.checkpoint(checkpoint(9));
        let restored = disk.restore(3, |cell| cell).map(|cell| cell.index());
        assert_eq!(
            (restored, disk.restore_epoch.counter, found(&mut disk)),
            (Some(LogIndex(5)), 4, (5, 5))
        );
    }
}
