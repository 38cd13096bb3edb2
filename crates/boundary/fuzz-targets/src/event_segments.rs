//! An event stream of one to four segments, and what a crash or a bad disk does to it. Whatever is in
//! the files, opening and reading them does not panic. A crash loses nothing that is not appended
//! again, and nothing is there twice; after damage every event is there or said to be missing.

use crate::{Fault, RECORDS_AT, Scratch, SegmentWriter, arbitrary_from, assert_harmless};
use arbitrary::Arbitrary;
use store::Error;
use store::events::{Cursor, Event, Events, Limit, Options, Reader};
use store::log::Position;

/// A stream, and what happens to it.
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
    /// How many events are read at once.
    limit: u8,
}

/// One step of whoever writes the stream.
#[derive(Arbitrary, Debug)]
enum WriterStep<'a> {
    /// An event of the operation so far above the last, so much later.
    Event {
        above: u8,
        later: u8,
        payload: &'a [u8],
    },
    /// All events so far are there, and there are none of so many operations more.
    Mark {
        none: u8,
    },
    Sync,
    /// The next segment, which states that the events of so many operations are lost.
    Roll {
        lost: u8,
    },
}

/// An event: its name, its time, its payload.
type WrittenEvent = (Cursor, u64, Vec<u8>);

/// The writer, and what it wrote.
struct Written {
    sealed: Vec<SegmentWriter>,
    active: SegmentWriter,
    synced: Position,
    events: Vec<WrittenEvent>,
    /// Where the next event may be.
    next: Cursor,
    time_us: u64,
    /// All events up to there are there or stated as lost.
    mark: u64,
    /// The newest mark that is durable.
    durable_mark: u64,
}

pub(crate) fn run(bytes: &[u8]) {
    if let Some(script) = arbitrary_from(bytes) {
        check(&script);
    }
}

fn check(script: &Script<'_>) {
    let written = Written::of(&script.steps);
    let Written { sealed, active, synced, events: known, next, time_us, mark, durable_mark } =
        written;
    let mut files: Vec<(String, Vec<u8>)> = sealed
        .into_iter()
        .chain([active])
        .map(|writer| (writer.name(), writer.into_bytes()))
        .collect();
    let last = files.len() - 1;

    // A stranger's bytes may not testify that what is there was durable, which a header with a
    // good checksum would; the fuzzer does find the checksum.
    files[last].1.extend_from_slice(&script.tail[..script.tail.len().min(47)]);
    files[last].1.extend(std::iter::repeat_n(0, usize::from(script.room) * 16));
    let faults = script.faults.iter().flatten();
    if script.crash {
        let first = (synced.offset as usize).max(RECORDS_AT);
        faults.for_each(|fault| fault.damage(&mut files[last].1, first));
    } else {
        let segment = usize::from(script.segment) % files.len();
        faults.for_each(|fault| fault.damage(&mut files[segment].1, 0));
    }
    let scratch = Scratch::new();
    for (name, bytes) in &files {
        scratch.write(name, bytes);
    }

    // Whoever reads before the stream is opened again sees nothing else than what was written.
    let limit = Limit { events: usize::from(script.limit) + 1, bytes: 1000 };
    let seen = Followed::of(scratch.path(), limit);
    seen.assert_of(&known);
    let times: Vec<_> =
        known.iter().map(|(_, time_us, _)| *time_us).chain([0, time_us + 1]).collect();
    for time in times.iter().take(4) {
        if let Err(error) = Reader::open(scratch.path()).first_at(*time) {
            assert_harmless(&error.to_string());
        }
    }

    let options = Options { segment_bytes: 4 << 10, ..Options::default() };
    let (mut events, opened) = match Events::open(scratch.path(), options) {
        Ok(opened) => opened,
        Err(error @ Error::NewerFormat { .. }) if !script.crash => {
            return assert_harmless(&error.to_string());
        }
        Err(error) => panic!("it is not opened: {error}"),
    };
    opened.damage.iter().for_each(|error| assert_harmless(&error.to_string()));

    let mut expected = known.clone();
    if script.crash {
        assert!(opened.damage.is_empty(), "a crash is taken for damage: {:?}", opened.damage);
        let lost = events.resume(durable_mark + 1).expect("there is room");
        assert!(!lost, "up to {durable_mark} all was durable");
        let again = known.iter().filter(|(cursor, ..)| cursor.index > durable_mark);
        let batch: Vec<_> = again.map(event).collect();
        events.append(&batch).expect("there is room");
    }
    // Whatever was found, it goes on from here.
    let index = next.index.max(mark) + 1;
    if !script.crash {
        events.resume(index).expect("there is room");
    }
    let one_more = (Cursor::at(index), time_us + 1, b"one more".to_vec());
    events.append(&[event(&one_more)]).expect("there is room");
    events.sync(index).expect("it can be synced");
    expected.push(one_more);
    drop(events);

    let followed = Followed::of(scratch.path(), limit);
    if followed.newer {
        return;
    }
    followed.assert_of(&expected);
    for known in &expected {
        let cursor = known.0;
        let told = followed.missing.iter().any(|(from, to)| (*from..*to).contains(&cursor));
        let there = followed.events.contains(known);
        assert!(there || told, "{cursor} is missing, and only {:?} is said", followed.missing);
        assert!(there || !script.crash, "{cursor} is lost by a crash");
    }
    assert!(followed.events.ends_with(&expected[expected.len() - 1..]), "with one more");
    let (events, _) = Events::open(scratch.path(), options).expect("it goes on");
    assert_eq!((events.last(), events.complete_up_to()), (Some(Cursor::at(index)), index));
}

fn event(written: &WrittenEvent) -> Event<'_> {
    let (cursor, time_us, payload) = written;
    Event { index: cursor.index, sub: cursor.sub, time_us: *time_us, payload }
}

/// What a follower sees that goes on wherever it is told to.
#[derive(Debug, Default)]
struct Followed {
    events: Vec<WrittenEvent>,
    /// What it was told is missing.
    missing: Vec<(Cursor, Cursor)>,
    /// Whether it came upon a segment of a newer version.
    newer: bool,
}

impl Followed {
    fn of(directory: &std::path::Path, limit: Limit) -> Self {
        let mut this = Self::default();
        let mut reader = Reader::open(directory);
        let mut from = Cursor::START;
        loop {
            let events = &mut this.events;
            let read = reader.read(from, limit, |event| -> store::Result<()> {
                events.push((event.cursor(), event.time_us, event.payload.to_vec()));
                Ok(())
            });
            let next = match read {
                Ok(next) if next == from => return this,
                Ok(next) => {
                    assert!(next > from, "reading goes back from {from} to {next}");
                    from = next;
                    continue;
                }
                Err(error) => {
                    assert_harmless(&error.to_string());
                    match error {
                        Error::EventsTooLate { oldest } => oldest,
                        Error::EventsLost { complete_from, .. } => complete_from,
                        Error::DamagedEvents { next: Some(next), .. } => next,
                        Error::DamagedEvents { next: None, .. } => return this,
                        Error::NewerFormat { .. } => {
                            this.newer = true;
                            return this;
                        }
                        other => panic!("reading fails: {other}"),
                    }
                }
            };
            assert!(next > from, "told at {from} to go on at {next}");
            this.missing.push((from, next));
            from = next;
        }
    }

    /// Asserts that what was seen are events of these, in their order.
    fn assert_of(&self, known: &[WrittenEvent]) {
        let mut rest = known.iter();
        for event in &self.events {
            assert!(rest.any(|known| known == event), "{event:?} was not written, or not there");
        }
    }
}

impl Written {
    fn of(steps: &[WriterStep<'_>]) -> Self {
        let mut this = Self {
            sealed: Vec::new(),
            active: SegmentWriter::events(1, Cursor::START, 0, Position::default()),
            synced: Position::default(),
            events: Vec::new(),
            // The log's first index is 1.
            next: Cursor::at(1),
            time_us: 0,
            mark: 0,
            durable_mark: 0,
        };
        for step in steps.iter().take(64) {
            this.step(step);
        }
        this
    }

    fn step(&mut self, step: &WriterStep<'_>) {
        match step {
            WriterStep::Event { above, later, payload } => {
                let mut cursor = self.next;
                if *above > 0 {
                    cursor = Cursor::at(cursor.index + u64::from(*above));
                }
                if cursor.index <= self.mark && self.mark > 0 {
                    cursor = Cursor::at(self.mark + 1);
                }
                self.time_us += u64::from(*later);
                let known = (cursor, self.time_us, payload.to_vec());
                self.active.event(event(&known), self.synced);
                self.events.push(known);
                self.next = cursor.after();
            }
            WriterStep::Mark { none } => {
                self.mark = self.mark.max(self.next.index) + u64::from(*none);
                self.active.mark(self.mark, self.synced);
            }
            WriterStep::Sync => self.sync(),
            WriterStep::Roll { lost } => {
                if self.sealed.len() == 3 {
                    return;
                }
                self.sync();
                if *lost > 0 {
                    let through = self.mark.max(self.next.index);
                    self.next = Cursor::at(through + u64::from(*lost) + 1);
                }
                let previous = self.active.end();
                let sequence = previous.segment + 1;
                let next = SegmentWriter::events(sequence, self.next, self.time_us, previous);
                self.sealed.push(std::mem::replace(&mut self.active, next));
                if self.mark > 0 {
                    self.active.mark(self.mark, previous);
                }
                self.sync();
            }
        }
    }

    fn sync(&mut self) {
        self.synced = self.active.end();
        self.durable_mark = self.mark;
    }
}
