//! Tracks which entries remain when later ones replaced the end of the log, as runs of consecutive
//! entries, so that a million entries need a few bytes.

use crate::segments::SEGMENT_HEADER_BYTES;
use crate::segments::record::{Position, Record, RecordKind};

use super::segment::SegmentInfo;

/// The newest hard state of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardState {
    /// The level of the state machine that the payload requires.
    pub level: u32,
    /// The bytes as appended.
    pub payload: Vec<u8>,
}

/// Consecutive entries of one segment, with only hard states between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryRun {
    /// The start of the run, or of a hard state before its first entry.
    pub(super) start: Position,
    pub(super) first_index: u64,
    pub(super) entries: u64,
}

/// The remaining entries after all records processed so far, in the order of writing.
#[derive(Debug, Clone, Default)]
pub(super) struct Survivors {
    /// Ordered by index, which is also the order of positions.
    pub(super) runs: Vec<EntryRun>,
    /// The index and term of the last entry, or of the restart record if no entry followed it.
    pub(super) last: Option<(u64, u64)>,
    /// The index and term of the last restart record.
    pub(super) restart: Option<(u64, u64)>,
    pub(super) hard_state: Option<HardState>,
}

/// Checks that `index` may follow `last`; the error is the highest index that may.
pub(super) fn check_next(last: Option<u64>, index: u64) -> Result<(), u64> {
    match last {
        Some(last) if index > last.saturating_add(1) => Err(last.saturating_add(1)),
        _ => Ok(()),
    }
}

impl Survivors {
    /// Processes the next record and returns the lowest index from which it voids earlier entries.
    /// An entry that leaves a gap changes nothing and returns the highest acceptable index as the
    /// error.
    pub(super) fn note(&mut self, record: &Record<'_>) -> Result<Option<u64>, u64> {
        match record.kind {
            RecordKind::Entry => return self.note_entry(record),
            RecordKind::HardState => {
                let state = self.hard_state.get_or_insert_with(|| HardState {
                    level: 0,
                    payload: Vec::with_capacity(record.payload.len()),
                });
                state.level = record.level;
                state.payload.clear();
                state.payload.extend_from_slice(record.payload);
            }
            RecordKind::Restart => {
                self.runs.clear();
                self.restart = Some((record.index, record.term));
                self.last = self.restart;
                return Ok(Some(0));
            }
        }
        Ok(None)
    }

    /// Processes a whole segment whose entries are known to be consecutive. The term of the last
    /// one is taken as 0.
    pub(super) fn note_plain(&mut self, segment: &SegmentInfo) {
        let Some(last) = segment.last_index else { return };
        let first_index = segment.first_index;
        let start = Position { segment: segment.sequence, offset: SEGMENT_HEADER_BYTES };
        self.runs.push(EntryRun { start, first_index, entries: last - first_index + 1 });
        self.last = Some((last, 0));
    }

    fn note_entry(&mut self, record: &Record<'_>) -> Result<Option<u64>, u64> {
        let last = self.last.map(|(index, _)| index);
        check_next(last, record.index)?;
        let follows = last.and_then(|last| last.checked_add(1)) == Some(record.index);
        self.last = Some((record.index, record.term));
        if follows
            && let Some(run) = self.runs.last_mut()
            && run.start.segment == record.position.segment
        {
            run.entries += 1;
            return Ok(None);
        }
        let replaces = !follows && last.is_some();
        if replaces {
            self.cut_from(record.index);
        }
        self.runs.push(EntryRun { start: record.position, first_index: record.index, entries: 1 });
        Ok(replaces.then_some(record.index))
    }

    /// Drops the entries from `index` on.
    fn cut_from(&mut self, index: u64) {
        while let Some(run) = self.runs.last_mut() {
            if run.first_index < index {
                run.entries = run.entries.min(index - run.first_index);
                break;
            }
            self.runs.pop();
        }
    }

    /// Forgets the entries of a deleted segment and of those before it.
    pub(super) fn forget_segment(&mut self, sequence: u64) {
        self.runs.retain(|run| run.start.segment > sequence);
    }

    pub(super) fn first_index(&self) -> Option<u64> {
        self.runs.first().map(|run| run.first_index)
    }

    pub(super) fn last_index(&self) -> Option<u64> {
        self.last.map(|(index, _)| index)
    }

    pub(super) fn entries(&self) -> u64 {
        self.runs.iter().map(|run| run.entries).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes entries given as `index`, and checks the runs, given as `first+entries@offset`.
    fn check(script: &[(RecordKind, u64)], runs: &[(u64, u64, u32)]) {
        let mut survivors = Survivors::default();
        for (&(kind, index), offset) in script.iter().zip(0..) {
            let position = Position { segment: 1, offset };
            let record = Record { position, kind, term: 1, index, level: 0, payload: &[] };
            survivors.note(&record).unwrap();
        }
        let found: Vec<_> = survivors
            .runs
            .iter()
            .map(|run| (run.first_index, run.entries, run.start.offset))
            .collect();
        assert_eq!(found, runs);
    }

    #[test]
    fn consecutive_entries_are_one_run() {
        use RecordKind::{Entry, HardState};
        check(&[(Entry, 5), (HardState, 0), (Entry, 6), (Entry, 7)], &[(5, 3, 0)]);
    }

    #[test]
    fn an_earlier_index_replaces_the_suffix() {
        let entries = |indexes: &[u64]| -> Vec<_> {
            indexes.iter().map(|index| (RecordKind::Entry, *index)).collect()
        };
        check(&entries(&[1, 2, 3, 4, 3, 4]), &[(1, 2, 0), (3, 2, 4)]);
        check(&entries(&[1, 2, 3, 3, 2]), &[(1, 1, 0), (2, 1, 4)]);
        check(&entries(&[4, 5, 2, 3]), &[(2, 2, 2)]);
        check(&entries(&[1, 2, 3, 1]), &[(1, 1, 3)]);
        // After a cut, the run must not grow over the replaced entries in between.
        check(&entries(&[1, 2, 3, 2, 3]), &[(1, 1, 0), (2, 2, 3)]);
    }

    #[test]
    fn a_restart_voids_what_was_before() {
        use RecordKind::{Entry, Restart};
        check(&[(Entry, 1), (Entry, 2), (Restart, 90)], &[]);
        check(&[(Entry, 1), (Restart, 90), (Entry, 91)], &[(91, 1, 2)]);
    }

    #[test]
    fn a_gap_is_refused() {
        let mut survivors = Survivors { last: Some((4, 1)), ..Survivors::default() };
        let position = Position::default();
        let kind = RecordKind::Entry;
        let record = Record { position, kind, term: 1, index: 6, level: 0, payload: &[] };
        assert_eq!(survivors.note(&record), Err(5));
        assert_eq!(survivors.last, Some((4, 1)));
    }
}
