//! The event stream after crashes and disk errors: every loss is reported, and no event occurs
//! twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use store::Error;
use store::events::{Cursor, Events, Limit, Reader};
use support::stream::{self, Owned, SMALL, append, cursors, event_files, open, operation};

/// A stream of several segments, all of it durable and marked.
fn durable(directory: &Path, last: u64) -> Events {
    let mut events = open(directory);
    append(&mut events, 1..=last);
    events.sync(last).unwrap();
    events
}

fn flip(file: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

/// The events that a follower sees when it continues wherever it is told to, and the gaps reported
/// to it.
fn follow(reader: &mut Reader) -> (Vec<Owned>, Vec<(Cursor, Cursor)>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let mut from = Cursor::START;
    for _ in 0..10_000 {
        match stream::read(reader, from, Limit::events(5)) {
            Ok((more, next)) if next == from => {
                assert_eq!(more, []);
                return (found, missing);
            }
            Ok((more, next)) => {
                found.extend(more);
                from = next;
            }
            Err(
                Error::EventsTooLate { oldest: next }
                | Error::EventsLost { complete_from: next, .. }
                | Error::DamagedEvents { next: Some(next), .. },
            ) => {
                assert!(next > from, "{next} is not behind {from}");
                missing.push((from, next));
                from = next;
            }
            Err(Error::DamagedEvents { next: None, .. }) => return (found, missing),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there is no end to it");
}

/// Asserts that missing events were reported as missing, and returns how many are missing.
fn assert_told(reader: &mut Reader, all: &[Owned]) -> usize {
    let (found, missing) = follow(reader);
    let said =
        |event: &&Owned| missing.iter().any(|(from, to)| (*from..*to).contains(&event.cursor));
    let mut there = found.iter();
    let mut lost = 0;
    for event in all {
        match there.as_slice().first() {
            Some(next) if next == event => {
                there.next();
            }
            _ => {
                assert!(said(&event), "{} is missing: {missing:?}", event.cursor);
                lost += 1;
            }
        }
    }
    assert_eq!(there.as_slice(), []);
    lost
}

#[test]
fn damage_anywhere_is_told_and_ends_nothing() {
    let original = tempfile::tempdir().unwrap();
    drop(durable(original.path(), 40));
    let files = event_files(original.path());
    assert!(files.len() > 2);
    for (number, file) in files.iter().enumerate() {
        let end = u64::try_from(stream::end(&fs::read(file).unwrap())).unwrap();
        for offset in (0..end).step_by(11) {
            let dir = tempfile::tempdir().unwrap();
            for file in &files {
                fs::copy(file, dir.path().join(file.file_name().unwrap())).unwrap();
            }
            flip(&event_files(dir.path())[number], offset);
            let (mut events, opened) = match Events::open(dir.path(), SMALL) {
                Ok(opened) => opened,
                Err(Error::NewerFormat { .. }) if (8..12).contains(&offset) => continue,
                Err(error) => panic!("{error}"),
            };
            for error in &opened.damage {
                assert!(matches!(error, Error::DamagedEvents { .. }), "{error}");
            }
            // A replica that starts from a checkpoint at 40.
            events.resume(41).unwrap();
            append(&mut events, 41..=45);
            events.sync(45).unwrap();
            let all: Vec<_> = (1..=45).flat_map(operation).collect();
            let lost = assert_told(&mut events.reader(), &all);
            assert!(lost < all.len() - cursors(41..=45).len() + 1, "{lost} are lost");
            drop(events);
            // Once more: the same, and nothing new.
            let mut events = open_damaged(dir.path());
            assert!(!events.resume(46).unwrap());
            assert_eq!(assert_told(&mut events.reader(), &all), lost);
        }
    }
}

fn open_damaged(directory: &Path) -> Events {
    Events::open(directory, SMALL).unwrap().0
}

#[test]
fn damage_under_a_reader_is_an_error_naming_the_next_event() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = durable(dir.path(), 60);
    append(&mut events, 61..=61);
    let files = event_files(dir.path());
    flip(&files[1], 1000);
    let mut reader = events.reader();
    let mut from = Cursor::START;
    let error = loop {
        match stream::read(&mut reader, from, Limit::NONE) {
            Ok((_, next)) => from = next,
            Err(error) => break error,
        }
    };
    let Error::DamagedEvents { path, offset, next, .. } = &error else { panic!("{error}") };
    assert_eq!((path, *next), (&files[1], Some(stream::first_of(&files[2]))));
    assert!((900..=1000).contains(offset));
    assert!(error.to_string().contains("it continues at"), "{error}");

    // In the newest segment, followed only by a record written later.
    flip(&files[1], 1000);
    let newest = files.last().unwrap();
    flip(newest, 100);
    let mut reader = events.reader();
    let before = stream::first_of(newest);
    let error = stream::read(&mut reader, before, Limit::NONE).unwrap_err();
    assert!(matches!(error, Error::DamagedEvents { next: None, .. }), "{error}");
    assert!(error.to_string().contains("restart this replica"), "{error}");
}

#[test]
fn a_missing_segment_is_told() {
    for missing in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        drop(durable(dir.path(), 60));
        fs::remove_file(&event_files(dir.path())[missing]).unwrap();
        let events = open(dir.path());
        let all: Vec<_> = (1..=60).flat_map(operation).collect();
        let lost = assert_told(&mut events.reader(), &all);
        assert!((20..60).contains(&lost), "{lost} are lost");
    }
}

/// The newest segment's file, and the end of its records.
fn newest_end(directory: &Path) -> Option<(PathBuf, usize)> {
    let file = event_files(directory).pop()?;
    let end = stream::end(&fs::read(&file).unwrap()).max(64);
    Some((file, end))
}

/// One step of a replica that applies operations and stores their events.
#[derive(Debug, Clone)]
enum Step {
    /// The events of a number of operations, in batches of a number of events.
    Apply(u64, usize),
    /// A checkpoint.
    Checkpoint,
    /// The process ends; the operating system continues.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..20_u64, 1..9_usize).prop_map(|(operations, batch)| Step::Apply(operations, batch)),
        2 => Just(Step::Checkpoint),
        1 => Just(Step::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_event_is_there_once_after_any_crash(
        steps in prop::collection::vec(step(), 1..15),
        again in prop::collection::vec(step(), 0..5),
        // Which unsynced sectors reached the disk.
        reached in prop::collection::vec(any::<bool>(), 64),
        sector in prop_oneof![Just(8_usize), Just(64), Just(512)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut events = open(dir.path());
        let (mut applied, mut checkpoint) = (0, 0);
        let mut durable = None;
        for (crashes, steps) in [(true, steps), (false, again)] {
            for step in steps {
                match step {
                    Step::Apply(operations, batch) => {
                        let owned: Vec<_> =
                            (applied + 1..=applied + operations).flat_map(operation).collect();
                        for some in owned.chunks(batch) {
                            let batch: Vec<_> = some.iter().map(Owned::event).collect();
                            prop_assert_eq!(events.append(&batch).unwrap(), batch.len());
                        }
                        applied += operations;
                    }
                    Step::Checkpoint => {
                        events.sync(applied).unwrap();
                        checkpoint = applied;
                        durable = newest_end(dir.path());
                    }
                    Step::Kill => {
                        drop(events);
                        events = open(dir.path());
                        // What is there was synced by that.
                        durable = newest_end(dir.path());
                        prop_assert!(!events.resume(checkpoint + 1).unwrap());
                        append(&mut events, checkpoint + 1..=applied);
                    }
                }
            }
            if crashes {
                drop(events);
                if let Some(file) = event_files(dir.path()).pop() {
                    let mut content = fs::read(&file).unwrap();
                    let from = durable.clone().filter(|(synced, _)| *synced == file);
                    // A new segment has a header and perhaps a mark.
                    let from = from.map_or(64 + 48, |(_, end)| end);
                    let from = from.min(content.len());
                    for (i, sector) in content[from..].chunks_mut(sector).enumerate() {
                        if !reached[i % reached.len()] {
                            sector.fill(0);
                        }
                    }
                    fs::write(&file, content).unwrap();
                }
                events = open(dir.path());
                prop_assert!(!events.resume(checkpoint + 1).unwrap(), "nothing can be lost");
                append(&mut events, checkpoint + 1..=applied);
            }
            let found = stream::read_all(&mut events.reader(), Cursor::START);
            prop_assert_eq!(found, (1..=applied).flat_map(operation).collect::<Vec<_>>());
        }
    }
}
