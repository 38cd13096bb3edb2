//! The event stream as seen by its appender and its readers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::time::Duration;

use store::Error;
use store::events::{Cursor, Event, Events, Limit, MAX_EVENT_BYTES, Options, Reader};
use store::log::Repair;
use store::retention::Retention;
use support::stream::{self, SMALL, append, at, cursors, event_files, open, operation, read_all};

#[test]
fn an_empty_directory_is_an_empty_stream() {
    let dir = tempfile::tempdir().unwrap();
    let (mut events, opened) = Events::open(dir.path(), SMALL).unwrap();
    assert_eq!((opened.repair, opened.damage.len()), (Repair::None, 0));
    assert_eq!((events.last(), events.complete_up_to(), events.bytes()), (None, 0, 0));
    assert!(!events.resume(1).unwrap(), "nothing can be missing");
    assert_eq!(events.append(&[]).unwrap(), 0);
    events.sync(0).unwrap();
    let mut reader = events.reader();
    assert_eq!(reader.read(at(7, 3), Limit::NONE, stream::unexpected).unwrap(), at(7, 3));
    assert_eq!((reader.first_at(0).unwrap(), reader.oldest().unwrap()), (None, None));
    assert_eq!(event_files(dir.path()).len(), 0);
}

#[test]
fn appended_events_are_read_back_for_any_batch_size() {
    for batch in [1, 2, 7, 1000] {
        let dir = tempfile::tempdir().unwrap();
        let mut events = open(dir.path());
        let all: Vec<_> = (1..=100).flat_map(operation).collect();
        let mut appended = 0;
        for some in all.chunks(batch) {
            let batch: Vec<_> = some.iter().map(stream::Owned::event).collect();
            appended += events.append(&batch).unwrap();
        }
        assert_eq!(appended, all.len());
        assert_eq!(events.last(), all.last().map(|event| event.cursor));
        assert_eq!(read_all(&mut events.reader(), Cursor::START), all);
        assert!(event_files(dir.path()).len() > 4, "it took several segments");
    }
}

#[test]
fn stored_events_are_skipped_when_appended_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=10);
    assert_eq!(append(&mut events, 5..=12), operation(11).len() + operation(12).len());
    // In the middle of an operation's events.
    let next = operation(15);
    assert_eq!(next.len(), 3);
    events.append(&[next[0].event(), next[1].event()]).unwrap();
    assert_eq!(events.last(), Some(at(15, 1)));
    assert_eq!(append(&mut events, 1..=15), 1);
    drop(events);
    let mut events = open(dir.path());
    assert_eq!(append(&mut events, 1..=16), operation(16).len());
    let expected = cursors(1..=12).into_iter().chain(cursors(15..=16));
    let found = read_all(&mut events.reader(), Cursor::START);
    assert_eq!(found.iter().map(|e| e.cursor).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn an_out_of_order_batch_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    let event = |index, sub, time_us| Event { index, sub, time_us, payload: b"" };
    events.append(&[event(3, 0, 30)]).unwrap();
    for batch in [
        vec![event(4, 0, 40), event(4, 0, 40)],
        vec![event(4, 1, 40), event(4, 0, 40)],
        vec![event(5, 0, 40), event(4, 0, 40)],
        vec![event(4, 0, 40), event(5, 0, 39)],
        vec![event(4, 0, 29)],
    ] {
        let error = events.append(&batch).unwrap_err();
        assert!(matches!(error, Error::EventOrder { .. }), "{error}");
        assert_eq!(events.last(), Some(at(3, 0)));
    }
    let large = vec![7; MAX_EVENT_BYTES + 1];
    let too_large = Event { payload: &large, ..event(4, 0, 40) };
    assert!(matches!(events.append(&[too_large]), Err(Error::TooLarge { .. })));
    // An event of the maximum size has its own segment.
    let largest = Event { payload: &large[1..], ..event(4, 0, 40) };
    events.append(&[largest, event(5, 0, 40)]).unwrap();
    let found = read_all(&mut events.reader(), at(4, 0));
    assert_eq!(found.iter().map(|e| e.payload.len()).collect::<Vec<_>>(), [MAX_EVENT_BYTES, 0]);
}

#[test]
fn reading_begins_anywhere_and_ends_at_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=120);
    let all: Vec<_> = (1..=120).flat_map(operation).collect();
    for index in 0..=121 {
        for sub in 0..5 {
            let from = at(index, sub);
            let expected: Vec<_> = all.iter().filter(|event| event.cursor >= from).collect();
            let found = read_all(&mut events.reader(), from);
            assert!(found.iter().eq(expected), "from {from}");
        }
    }
    // In steps, with the same reader, and a jump back.
    let mut reader = events.reader();
    let mut from = Cursor::START;
    for chunk in all.chunks(7).chain(all.chunks(50)) {
        if chunk[0].cursor == all[0].cursor {
            from = Cursor::START;
        }
        let (found, next) = stream::read(&mut reader, from, Limit::events(chunk.len())).unwrap();
        assert_eq!(found, chunk);
        assert_eq!(next, found.last().unwrap().cursor.after());
        from = next;
    }
    assert_eq!(reader.read(from, Limit::NONE, stream::unexpected).unwrap(), from);
    let limit = Limit { bytes: 1, ..Limit::NONE };
    assert_eq!(stream::read(&mut reader, Cursor::START, limit).unwrap().0, all[..1]);
    // An event that a visitor rejects is visited again.
    let stopped = reader.read(at(50, 0), Limit::NONE, |event| match event.index {
        60.. => Err(Error::Gap { expected: 0, found: 0 }),
        _ => Ok(()),
    });
    assert!(matches!(stopped, Err(Error::Gap { .. })));
    assert_eq!(read_all(&mut reader, at(60, 0))[0].cursor.index, 60);
}

#[test]
fn the_first_event_at_a_time_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=120);
    let all: Vec<_> = (1..=120).flat_map(operation).collect();
    let reader = events.reader();
    for time in 0..=1_300 {
        let expected = all.iter().find(|event| event.time_us >= time).map(|event| event.cursor);
        assert_eq!(reader.first_at(time).unwrap(), expected, "at {time}");
    }
    events.retain(&Retention::new(5 * 4096, Duration::MAX), 0).unwrap();
    let oldest = reader.oldest().unwrap().unwrap();
    assert!(oldest > Cursor::START);
    for time in 0..=1_300 {
        let expected = all.iter().find(|event| event.time_us >= time).map(|event| event.cursor);
        let gone = all.iter().rfind(|event| event.cursor < oldest).unwrap().time_us;
        match reader.first_at(time) {
            Ok(found) => assert!(found == expected && time > gone, "at {time}"),
            Err(Error::EventsTooLate { .. }) => assert!(time <= gone, "at {time}"),
            Err(error) => panic!("at {time}: {error}"),
        }
    }
}

#[test]
fn a_place_in_a_large_segment_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (mut events, _) = Events::open(dir.path(), Options::default()).unwrap();
    append(&mut events, 1..=30_000);
    // Payloads that contain bytes like records, which must not be found.
    let copied = fs::read(&event_files(dir.path())[0]).unwrap()[64..500_064].to_vec();
    let payload = &copied[..];
    events.append(&[Event { index: 30_001, sub: 0, time_us: 300_010, payload }]).unwrap();
    append(&mut events, 30_002..=31_000);
    assert_eq!(event_files(dir.path()).len(), 1);
    for index in [1, 2, 777, 15_000, 29_999, 30_001, 30_002, 30_999, 31_001] {
        let (found, _) =
            stream::read(&mut events.reader(), at(index, 0), Limit::events(1)).unwrap();
        let first = (index..=31_000).flat_map(operation).map(|event| event.cursor).next();
        let first = if index == 30_001 { Some(at(index, 0)) } else { first };
        assert_eq!(found.first().map(|event| event.cursor), first);
        assert_eq!(events.reader().first_at(index * 10).unwrap(), first);
    }
}

#[test]
fn a_torn_tail_is_cut_and_appended_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=9);
    events.sync(9).unwrap();
    let file = event_files(dir.path()).pop().unwrap();
    let synced = stream::end(&fs::read(&file).unwrap());
    append(&mut events, 10..=11);
    drop(events);
    let whole = fs::read(&file).unwrap();
    let mut lasts = Vec::new();
    for torn in synced..=stream::end(&whole) {
        let mut content = whole.clone();
        content[torn..].fill(0);
        fs::write(&file, &content).unwrap();
        // A reader sees only complete events.
        let seen = read_all(&mut Reader::open(dir.path()), Cursor::START);
        let (mut events, opened) = Events::open(dir.path(), SMALL).unwrap();
        assert!(opened.damage.is_empty(), "{:?}", opened.damage);
        assert_eq!(events.last(), seen.last().map(|event| event.cursor));
        lasts.push(events.last().unwrap());
        assert_eq!((events.complete_up_to() >= 9, events.resume(10).unwrap()), (true, false));
        append(&mut events, 10..=12);
        let found = read_all(&mut events.reader(), Cursor::START);
        assert!(found.iter().eq(&(1..=12).flat_map(operation).collect::<Vec<_>>()), "at {torn}");
    }
    lasts.dedup();
    let expected = cursors(8..=11).into_iter().filter(|cursor| *cursor >= lasts[0]);
    assert_eq!(lasts, expected.collect::<Vec<_>>(), "a tear at every event");
}

#[test]
fn a_loss_of_events_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=10);
    events.sync(20).unwrap();
    assert_eq!(events.complete_up_to(), 20);
    // Up to there nothing is missing, although there were no events.
    assert!(!events.resume(21).unwrap());
    assert!(events.resume(31).unwrap());
    assert!(!events.resume(31).unwrap(), "it is stated");
    drop(events);
    let mut events = open(dir.path());
    assert_eq!((events.complete_up_to(), events.resume(31).unwrap()), (30, false));
    append(&mut events, 31..=40);

    let mut reader = events.reader();
    let (before, from) = stream::read(&mut reader, at(8, 0), Limit::NONE).unwrap();
    assert_eq!(before, (8..=10).flat_map(operation).collect::<Vec<_>>());
    for from in [from, at(15, 0), at(30, 9)] {
        let error = reader.read(from, Limit::NONE, stream::unexpected).unwrap_err();
        let Error::EventsLost { from: lost, complete_from } = &error else { panic!("{error}") };
        assert_eq!((*lost, *complete_from), (from, at(31, 0)));
        assert!(error.to_string().contains("a state as of index 31"), "{error}");
    }
    assert_eq!(read_all(&mut reader, at(31, 0)), (31..=40).flat_map(operation).collect::<Vec<_>>());

    // A stream that starts at a high index of an old cell.
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    assert!(events.resume(500).unwrap());
    append(&mut events, 500..=510);
    assert_eq!(events.reader().oldest().unwrap(), Some(at(500, 0)));
    let error = events.reader().read(Cursor::START, Limit::NONE, stream::unexpected).unwrap_err();
    assert!(matches!(error, Error::EventsTooLate { oldest } if oldest == at(500, 0)), "{error}");
    assert_eq!(read_all(&mut events.reader(), at(500, 0)).len(), cursors(500..=510).len());
}

#[test]
fn marks_last_over_segments_and_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    // Before any event.
    events.sync(70).unwrap();
    assert_eq!(events.complete_up_to(), 70);
    drop(events);
    let mut events = open(dir.path());
    assert_eq!(events.complete_up_to(), 70);
    for through in (100..10_000).step_by(10) {
        events.sync(through).unwrap();
    }
    assert!(event_files(dir.path()).len() > 5, "marks take room, too");
    drop(events);
    let mut events = open(dir.path());
    assert_eq!((events.complete_up_to(), events.last()), (9_990, None));
    append(&mut events, 9_991..=9_999);
    assert_eq!(read_all(&mut events.reader(), Cursor::START).len(), cursors(9_991..=9_999).len());
    assert_eq!(events.complete_up_to(), 9_998, "more events of 9999 may come");
}

#[test]
fn only_deleted_events_are_reported_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=120);
    let files = event_files(dir.path());
    // Directly after the last event of a deleted segment, and before the first of the next.
    let mut waiting = events.reader();
    let first = stream::first_of(&files[2]);
    let before = cursors(1..=120).into_iter().rfind(|cursor| *cursor < first).unwrap();
    waiting.read(before, Limit::events(1), |_| Ok::<_, Error>(())).unwrap();
    let mut behind = events.reader();
    behind.read(at(1, 0), Limit::events(1), |_| Ok::<_, Error>(())).unwrap();

    let keep = u64::try_from(files.len() - 2).unwrap() * 4096;
    let retention = Retention::new(keep, Duration::MAX);
    assert_eq!(events.retain(&retention, 0).unwrap(), 2);
    assert_eq!(events.bytes(), keep);
    assert_eq!(event_files(dir.path()), files[2..]);
    let kept: Vec<_> = cursors(1..=120).into_iter().filter(|cursor| *cursor > before).collect();
    let found = |reader: &mut Reader, from| -> Vec<_> {
        read_all(reader, from).iter().map(|event| event.cursor).collect()
    };
    assert_eq!(found(&mut waiting, before.after()), kept);
    assert_eq!(found(&mut events.reader(), before.after()), kept);
    let oldest = events.reader().oldest().unwrap().unwrap();
    assert_eq!(oldest, before.after());
    for reader in [&mut events.reader(), &mut waiting] {
        let error = reader.read(at(2, 0), Limit::NONE, stream::unexpected).unwrap_err();
        assert!(
            matches!(error, Error::EventsTooLate { oldest: said } if said == oldest),
            "{error}"
        );
    }
    // A reader with an open segment reads it to its end, and then gets the error.
    let (rest, from) = stream::read(&mut behind, at(1, 1), Limit::NONE).unwrap();
    assert!(!rest.is_empty());
    let error = behind.read(from, Limit::NONE, stream::unexpected).unwrap_err();
    assert!(matches!(error, Error::EventsTooLate { .. }), "{error}");

    // The same after a restart, and by age.
    drop(events);
    let mut events = open(dir.path());
    // Directly after the last event of the fourth.
    let limit = stream::first_of(&files[4]).index * 10 + 1;
    let retention = Retention::new(u64::MAX, Duration::from_micros(1_000_000));
    assert_eq!(events.retain(&retention, 1_000_000 + limit).unwrap(), 2);
    assert_eq!(event_files(dir.path()), files[4..]);
    append(&mut events, 121..=122);
    assert_eq!(
        events.retain(&Retention::new(0, Duration::ZERO), u64::MAX).unwrap(),
        files.len() - 5
    );
    let left = read_all(&mut events.reader(), events.reader().oldest().unwrap().unwrap());
    assert_eq!(left.last().map(|e| e.cursor), cursors(121..=122).last().copied());
}

/// The size of a stream's files, as the disk has them.
fn on_disk(directory: &std::path::Path) -> u64 {
    event_files(directory).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

#[test]
fn the_maximum_size_holds_at_any_time_whatever_one_operation_appends() {
    for (bytes_max, of_an_event, events_each) in
        [(64 << 10, 900, 3), (64 << 10, 1, 900), (64 << 10, 3_000, 30), (32 << 10, 1_000, 1)]
    {
        let dir = tempfile::tempdir().unwrap();
        let (mut events, _) = Events::open(dir.path(), Options::of_at_most(bytes_max)).unwrap();
        let payload = vec![7; of_an_event];
        for index in 1..=30 {
            let batch: Vec<_> = (0..events_each)
                .map(|sub| Event { index, sub, time_us: index, payload: &payload })
                .collect();
            for some in batch.chunks(50) {
                events.append(some).unwrap();
                let (said, is) = (events.bytes(), on_disk(dir.path()));
                assert!(said <= bytes_max && is <= bytes_max, "{said} and {is} of {bytes_max}");
            }
        }
        // What is left is the newest, and without a gap.
        let from = events.reader().oldest().unwrap().unwrap();
        let left = read_all(&mut events.reader(), from);
        assert_eq!(left.last().map(|event| event.cursor), Some(at(30, events_each - 1)));
        assert!(on_disk(dir.path()) > bytes_max / 2, "as much is kept as fits");
    }
}

#[test]
fn other_names_are_left_alone_and_unfinished_segments_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = open(dir.path());
    append(&mut events, 1..=3);
    drop(events);
    let unfinished = "0000000000000002-00000000000000000004.events.tmp";
    for name in ["README", "0000000000000002-00000000000000000004.log", unfinished] {
        fs::write(dir.path().join(name), b"whatever").unwrap();
    }
    let events = open(dir.path());
    assert_eq!(read_all(&mut events.reader(), Cursor::START).len(), cursors(1..=3).len());
    assert!(!dir.path().join(unfinished).exists());
    assert!(dir.path().join("README").exists());
}

#[test]
fn a_stream_is_read_by_others_while_its_directory_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let data = store::DataDirectory::create(dir.path().join("data")).unwrap();
    let mut events = open(&data.events());
    append(&mut events, 1..=3);
    let mut reader = Reader::of_data_directory(data.path()).unwrap();
    assert_eq!(read_all(&mut reader, Cursor::START).len(), cursors(1..=3).len());
    let error = Reader::of_data_directory(dir.path()).unwrap_err();
    assert!(matches!(error, Error::NotADataDirectory { .. }), "{error}");
}

#[test]
fn each_event_is_read_once_during_writes_and_deletions() {
    const LAST: u64 = 4_000;
    let dir = tempfile::tempdir().unwrap();
    let expected = cursors(1..=LAST);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut events = open(dir.path());
            let retention = Retention::new(50 * 4096, Duration::MAX);
            for index in 1..=LAST {
                append(&mut events, index..=index);
                match index % 1000 {
                    0 => events.sync(index).unwrap(),
                    500 => assert!(events.retain(&retention, 0).unwrap() < 1000),
                    _ => {}
                }
            }
        });
        for batch in [1, 100, 10_000] {
            let (expected, dir) = (&expected, dir.path());
            scope.spawn(move || {
                let mut reader = Reader::open(dir);
                let (mut next, mut from) = (0, Cursor::START);
                while next < expected.len() {
                    let read = reader.read(from, Limit::events(batch), |event| {
                        assert_eq!(event.cursor(), expected[next]);
                        assert_eq!(event.payload, stream::payload(event.cursor()));
                        next += 1;
                        Ok(())
                    });
                    from = match read {
                        Ok(after) => after,
                        Err(Error::EventsTooLate { oldest }) => {
                            assert!(oldest > from);
                            next = expected.partition_point(|cursor| *cursor < oldest);
                            oldest
                        }
                        Err(error) => panic!("{error}"),
                    };
                }
                assert_eq!(from, expected[expected.len() - 1].after());
            });
        }
    });
}
