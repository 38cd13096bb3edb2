//! A log of one to three segments, and what a crash or a bad disk does to it. Whatever is in the
//! files, opening them does not panic; what it gives is the log as it was after some prefix of the
//! records that were written; it gives the same when opened again; and it goes on from there.
//!
//! What was never durable is the crash's to damage: then opening succeeds, with all that was.

use crate::{Fault, RECORDS_AT, Scratch, SegmentWriter, arbitrary_from, assert_harmless};
use arbitrary::Arbitrary;
use store::history::History;
use store::log::{Log, Options, Position, RecordKind, RecordRef, Recovered, Repair};

/// A log, and what happens to it.
#[derive(Arbitrary, Debug)]
struct Script<'a> {
    steps: Vec<WriterStep<'a>>,
    /// Whether the damage is that of a crash: in the last segment, behind what was durable.
    crash: bool,
    faults: [Option<Fault>; 3],
    /// Which segment is damaged, unless it is a crash that does it.
    segment: u8,
    /// Bytes behind the last record.
    tail: &'a [u8],
    /// Zeros behind them.
    room: u8,
}

/// One step of whoever writes the log.
#[derive(Arbitrary, Debug)]
enum WriterStep<'a> {
    /// An entry, so far below the index that would follow.
    Entry {
        back: u8,
        term: u8,
        payload: &'a [u8],
    },
    HardState {
        payload: &'a [u8],
    },
    /// The log goes on after an index so far above the last.
    Restart {
        ahead: u8,
        term: u8,
    },
    Sync,
    Roll,
}

/// What a log holds: entries as index, term and payload, and what stands beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    entries: Vec<(u64, u64, Vec<u8>)>,
    last: Option<(u64, u64)>,
    hard_state: Option<Vec<u8>>,
}

/// The writer, and the state after each of its records.
struct Written {
    sealed: Vec<SegmentWriter>,
    active: SegmentWriter,
    /// The lowest index from which entries of the active segment replaced earlier ones.
    replaced_from: u64,
    synced: Position,
    states: Vec<State>,
    /// How many records are durable.
    durable: usize,
}

pub(crate) fn run(bytes: &[u8]) {
    if let Some(script) = arbitrary_from(bytes) {
        check(&script);
    }
}

fn check(script: &Script<'_>) {
    let written = Written::of(&script.steps);
    let Written { sealed, active, synced, states, durable, .. } = written;
    let mut segments: Vec<_> = sealed.into_iter().chain([active]).collect();
    let last = segments.len() - 1;
    let mut files: Vec<(String, Vec<u8>)> =
        segments.drain(..).map(|writer| (writer.name(), writer.into_bytes())).collect();

    // A stranger's bytes may not testify that what is there was durable, which a header with a
    // good checksum would; the fuzzer does find the checksum. A crash leaves none.
    if !script.crash {
        let tail = &script.tail[..script.tail.len().min(47)];
        files[last].1.extend_from_slice(tail);
    }
    files[last].1.extend(std::iter::repeat_n(0, usize::from(script.room) * 16));
    let faults = script.faults.iter().flatten();
    if script.crash {
        let first = (synced.offset as usize).max(RECORDS_AT);
        faults.for_each(|fault| fault.tear(&mut files[last].1, first));
    } else {
        let segment = usize::from(script.segment) % files.len();
        faults.for_each(|fault| fault.damage(&mut files[segment].1, 0));
    }

    let scratch = Scratch::new();
    for (name, bytes) in &files {
        scratch.write(name, bytes);
    }
    let options = Options { segment_bytes: 4 << 10, keep_bytes: 0 };
    let (mut log, recovered) = match Log::open(scratch.path(), options) {
        Ok(opened) => opened,
        Err(error) => {
            assert_harmless(&error.to_string());
            assert!(!script.crash, "a crash is refused: {error}");
            return;
        }
    };
    let state = State::of(&recovered);
    let prefix = states.iter().rposition(|known| *known == state);
    let prefix = prefix.unwrap_or_else(|| panic!("{state:?} is none of {states:?}"));
    assert!(!script.crash || prefix >= durable, "of {durable} records {prefix} are left");

    let inspected = Recovered::inspect(scratch.path()).expect("it was opened");
    assert_eq!(inspected.repair(), &Repair::None, "the tail was cut");
    assert_eq!(State::of(&inspected), state, "when it is read again");

    // Nor does it matter how much of it is read.
    for from in [1, state.next() / 2, state.next()] {
        let (_, recovered) = Log::open_from(scratch.path(), options, from).expect("it was opened");
        assert_eq!(State::of(&recovered), state, "when it is read from {from}");
    }
    let history = History::open(scratch.path(), scratch.path()).expect("it was opened");
    let mut past = Vec::new();
    let read = history.for_each(history.first_record()..=u64::MAX, |record| -> store::Result<()> {
        past.push((record.index, record.term, record.payload.to_vec()));
        Ok(())
    });
    read.expect("it was opened");
    assert_eq!(past, state.entries, "as the past");

    let index = state.last.map_or(1, |(index, _)| index.saturating_add(1));
    let (term, level, payload) = (9, 1, &b"one more"[..]);
    let one_more = RecordRef { kind: RecordKind::Entry, term, index, level, payload };
    log.append(&[one_more]).expect("there is room");
    log.sync().expect("it can be synced");
    drop(log);
    let (_, recovered) = Log::open(scratch.path(), options).expect("it goes on");
    let mut expected = state;
    expected.entry(index, term, payload);
    assert_eq!(State::of(&recovered), expected, "with one more");
}

impl Written {
    fn of(steps: &[WriterStep<'_>]) -> Self {
        let mut this = Self {
            sealed: Vec::new(),
            active: SegmentWriter::new(1, 1, 0, Position::default()),
            replaced_from: u64::MAX,
            synced: Position::default(),
            states: vec![State::default()],
            durable: 0,
        };
        for step in steps.iter().take(64) {
            this.step(step);
        }
        this
    }

    fn step(&mut self, step: &WriterStep<'_>) {
        let mut state = self.states.last().cloned().unwrap_or_default();
        match step {
            WriterStep::Sync => self.sync(),
            WriterStep::Roll => {
                if self.sealed.len() == 2 {
                    return;
                }
                self.sync();
                let index = state.next();
                let previous = self.active.end();
                let replaced_from = std::mem::replace(&mut self.replaced_from, u64::MAX);
                let sequence = previous.segment + 1;
                let next = SegmentWriter::new(sequence, index, replaced_from, previous);
                self.sealed.push(std::mem::replace(&mut self.active, next));
                self.synced = self.active.end();
                if let Some(payload) = &state.hard_state {
                    self.active.record(RecordKind::HardState, 0, index, payload, previous);
                    self.synced = self.active.end();
                    self.states.push(state);
                    self.durable = self.states.len() - 1;
                }
            }
            WriterStep::Entry { back, term, payload } => {
                let (index, term) = (state.next().saturating_sub((*back).into()), (*term).into());
                // Raft's first index is 1.
                let index = index.max(1);
                if state.last.is_some_and(|(last, _)| index <= last) {
                    self.replaced_from = self.replaced_from.min(index);
                }
                self.active.record(RecordKind::Entry, term, index, payload, self.synced);
                state.entry(index, term, payload);
                self.states.push(state);
            }
            WriterStep::HardState { payload } => {
                self.active.record(RecordKind::HardState, 0, 0, payload, self.synced);
                state.hard_state = Some(payload.to_vec());
                self.states.push(state);
            }
            WriterStep::Restart { ahead, term } => {
                let index = state.next() + u64::from(*ahead);
                self.replaced_from = 0;
                self.active.record(RecordKind::Restart, (*term).into(), index, &[], self.synced);
                state.entries.clear();
                state.last = Some((index, (*term).into()));
                self.states.push(state);
            }
        }
    }

    fn sync(&mut self) {
        self.synced = self.active.end();
        self.durable = self.states.len() - 1;
    }
}

impl State {
    fn of(recovered: &Recovered) -> Self {
        let mut entries = Vec::new();
        let read = recovered.for_each(0, |record| -> store::Result<()> {
            entries.push((record.index, record.term, record.payload.to_vec()));
            Ok(())
        });
        read.expect("what was whole when it was opened is read");
        assert_eq!(entries.len() as u64, recovered.entries());
        assert_eq!(entries.first().map(|(index, ..)| *index), recovered.first_index());
        let hard_state = recovered.hard_state().map(|state| state.payload.clone());
        Self { entries, last: recovered.last(), hard_state }
    }

    fn next(&self) -> u64 {
        self.last.map_or(1, |(index, _)| index + 1)
    }

    fn entry(&mut self, index: u64, term: u64, payload: &[u8]) {
        self.entries.retain(|(kept, ..)| *kept < index);
        self.entries.push((index, term, payload.to_vec()));
        self.last = Some((index, term));
    }
}
