//! The log as its caller sees it: what was appended and synced is recovered, in order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::Write as _;

use store::Error;
use store::log::{Log, MAX_PAYLOAD_BYTES, Options, RecordKind, RecordRef, Recovered, Repair};
use support::{SMALL, append, entries, entry, hard_state, segments};

#[test]
fn an_empty_directory_is_an_empty_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!((recovered.first_index(), recovered.last()), (None, None));
    assert_eq!(recovered.hard_state(), None);
    assert_eq!(*recovered.repair(), Repair::None);
    log.append(&[]).unwrap();
    log.sync().unwrap();
    assert_eq!(log.truncate_prefix(1000).unwrap(), 0);
    assert_eq!(segments(dir.path()).len(), 0);
}

#[test]
fn synced_entries_are_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=3);
    log.append(&[hard_state(b"voted for 2")]).unwrap();
    append(&mut log, 2, 4..=4);
    assert_eq!((log.first_index(), log.last_index()), (Some(1), Some(4)));
    drop(log);

    let (log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(entries(&recovered), [(1, 1), (2, 1), (3, 1), (4, 2)]);
    let hard_state = recovered.hard_state().unwrap();
    assert_eq!((hard_state.level, &hard_state.payload[..]), (3, &b"voted for 2"[..]));
    assert_eq!(*recovered.repair(), Repair::None);
    assert_eq!((log.first_index(), log.last_index()), (Some(1), Some(4)));
    assert_eq!(log.synced(), log.end());
}

#[test]
fn a_log_may_begin_at_any_index_and_have_empty_payloads() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    log.append(&[entry(900, 7, b""), entry(901, 7, b"x")]).unwrap();
    log.sync().unwrap();
    let recovered = Recovered::inspect(dir.path()).unwrap();
    let mut lengths = Vec::new();
    recovered
        .for_each(901, |record| {
            lengths.push((record.index, record.payload.len()));
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(lengths, [(901, 1)]);
}

#[test]
fn a_conflicting_suffix_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=90);
    append(&mut log, 2, 60..=61);
    append(&mut log, 3, 61..=63);
    assert_eq!(log.last_index(), Some(63));
    drop(log);

    let (mut log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    let mut expected: Vec<_> = (1..=59).map(|i| (i, 1)).collect();
    expected.extend([(60, 2), (61, 3), (62, 3), (63, 3)]);
    assert_eq!(entries(&recovered), expected);
    // Before all existing entries.
    append(&mut log, 4, 1..=1);
    assert_eq!(entries(&Recovered::inspect(dir.path()).unwrap()), [(1, 4)]);
}

#[test]
fn an_installed_snapshot_restarts_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=5);
    let restart =
        RecordRef { kind: RecordKind::Restart, term: 4, index: 100, level: 0, payload: b"" };
    log.append(&[restart]).unwrap();
    log.sync().unwrap();
    let (mut log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!((recovered.restart(), recovered.last()), (Some((100, 4)), Some((100, 4))));
    assert_eq!(entries(&recovered), []);
    assert!(matches!(log.append(&[entry(102, 4, b"")]), Err(Error::Gap { expected: 101, .. })));
    append(&mut log, 4, 101..=102);
    assert_eq!(entries(&Recovered::inspect(dir.path()).unwrap()), [(101, 4), (102, 4)]);
}

#[test]
fn a_log_that_begins_with_a_restart_says_from_where() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    let restart =
        RecordRef { kind: RecordKind::Restart, term: 4, index: 100, level: 0, payload: b"" };
    log.append(&[restart]).unwrap();
    log.sync().unwrap();
    append(&mut log, 4, 101..=102);
    let recovered = Recovered::inspect(dir.path()).unwrap();
    assert_eq!(recovered.segments()[0].first_index, 101);
    assert_eq!(entries(&recovered), [(101, 4), (102, 4)]);
}

#[test]
fn batches_that_must_not_be_written_are_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=5);
    let end = log.end();
    let gap = log.append(&[entry(6, 1, b"a"), entry(8, 1, b"b")]);
    assert!(matches!(gap, Err(Error::Gap { expected: 7, found: 8 })), "{gap:?}");
    let large = vec![1; MAX_PAYLOAD_BYTES + 1];
    let refused = log.append(&[entry(6, 1, &large)]);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(log.end(), end);
}

#[test]
fn segments_roll_and_each_begins_with_the_hard_state() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    log.append(&[hard_state(b"the only one")]).unwrap();
    for index in 1..=200 {
        append(&mut log, 1, [index]);
    }
    let files = segments(dir.path());
    assert!(files.len() > 4, "{files:?}");
    assert_eq!(log.segments().count(), files.len());
    assert!(files.iter().all(|f| fs::metadata(f).unwrap().len() == 4096));

    // All segments but the newest may be deleted, and the hard state is still there.
    let deleted = log.truncate_prefix(201).unwrap();
    assert_eq!(deleted, files.len() - 1);
    drop(log);
    let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(recovered.hard_state().unwrap().payload, b"the only one");
    assert_eq!(recovered.hard_state().unwrap().level, 3);
    assert_eq!(recovered.last(), Some((200, 1)));
}

#[test]
fn a_batch_larger_than_a_segment_gets_a_larger_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=2);
    append(&mut log, 1, 3..=200);
    append(&mut log, 1, 201..=202);
    let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(entries(&recovered).len(), 202);
    assert_eq!(segments(dir.path()).len(), 3);
}

#[test]
fn the_prefix_goes_in_whole_segments_and_never_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    for index in 1..=200 {
        append(&mut log, 1, [index]);
    }
    let first: Vec<_> = log.segments().map(|s| (s.first_index, s.last_index.unwrap())).collect();
    assert_eq!(log.truncate_prefix(first[0].1).unwrap(), 0, "its last entry is needed");
    assert_eq!(log.truncate_prefix(first[0].1 + 1).unwrap(), 1);
    assert_eq!(log.first_index(), Some(first[1].0));
    assert_eq!(log.truncate_prefix(first[2].1 + 1).unwrap(), 2);
    drop(log);

    let (log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(recovered.first_index(), Some(first[3].0));
    assert_eq!(entries(&recovered).last(), Some(&(200, 1)));
    drop(log);

    // What the options keep is not deleted.
    let keep = Options { keep_bytes: 1 << 30, ..SMALL };
    let (mut log, _) = Log::open(dir.path(), keep).unwrap();
    assert_eq!(log.truncate_prefix(201).unwrap(), 0);
}

#[test]
fn other_names_are_left_alone_and_unfinished_segments_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=3);
    let end = log.end();
    drop(log);
    let unfinished = "0000000000000002-00000000000000000004.log.tmp";
    for name in ["README", "2-4.log", "x.tmp", unfinished] {
        fs::File::create(dir.path().join(name)).unwrap().write_all(b"whatever").unwrap();
    }
    let (log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(log.end(), end);
    assert_eq!(entries(&recovered).len(), 3);
    assert_eq!(recovered.ignored_files(), ["2-4.log", "README", "x.tmp"]);
    assert!(!dir.path().join(unfinished).exists());
    assert!(dir.path().join("x.tmp").exists());
}

#[test]
fn missing_renamed_and_foreign_segments_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    for index in 1..=150 {
        append(&mut log, 1, [index]);
    }
    drop(log);
    let refused = |change: &dyn Fn(&[std::path::PathBuf])| {
        let copy = support::copy(dir.path());
        change(&segments(copy.path()));
        match Log::open(copy.path(), SMALL) {
            Err(Error::DamagedLog { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = refused(&|files| fs::remove_file(&files[1]).unwrap());
    assert!(why.contains("segment 2, whose file is missing"), "{why}");
    let why = refused(&|files| {
        let name = "0000000000000099-00000000000000000200.log";
        fs::copy(&files[0], files[0].with_file_name(name)).map(|_| ()).unwrap();
    });
    assert!(why.contains("renamed"), "{why}");
    let why = refused(&|files| fs::write(&files[2], b"short").unwrap());
    assert!(why.contains("shorter"), "{why}");
    let why = refused(&|files| {
        let content = fs::read(&files[1]).unwrap();
        fs::write(&files[1], &content[..2000]).unwrap();
    });
    assert!(why.contains("durable"), "{why}");
}

#[test]
fn a_newer_format_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=3);
    drop(log);
    let file = &segments(dir.path())[0];
    let mut content = fs::read(file).unwrap();
    content[8] = 2;
    fs::write(file, content).unwrap();
    let error = Log::open(dir.path(), SMALL).unwrap_err();
    assert!(matches!(error, Error::NewerFormat { found: 2, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("run the newer program"), "{error}");
}

#[test]
fn kept_history_below_a_checkpoint_is_not_read_at_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    for index in 1..=200 {
        append(&mut log, 1, [index]);
    }
    let known: Vec<_> = log.segments().cloned().collect();
    drop(log);
    let check = |from: u64| {
        let (log, recovered) = Log::open_from(dir.path(), SMALL, from).unwrap();
        assert_eq!(log.segments().cloned().collect::<Vec<_>>(), known, "from {from}");
        assert_eq!((log.first_index(), recovered.last()), (Some(1), Some((200, 1))));
        assert_eq!(entries(&recovered), (1..=200).map(|i| (i, 1)).collect::<Vec<_>>());
    };
    for from in [0, 1, 2, known[2].first_index, 199, 200, 201, 10_000] {
        check(from);
    }
    // A segment that was created and not written to.
    let mut files = segments(dir.path());
    let last = files.pop().unwrap();
    let mut content = fs::read(&last).unwrap();
    content[64..].fill(0);
    fs::write(&last, content).unwrap();
    let (log, recovered) = Log::open_from(dir.path(), SMALL, 10_000).unwrap();
    let end = known.last().unwrap().first_index - 1;
    assert_eq!((log.last_index(), recovered.last()), (Some(end), Some((end, 1))));
    drop(log);

    // Damage far below is found when it is read.
    let mut content = fs::read(&files[0]).unwrap();
    content[200] ^= 1;
    fs::write(&files[0], content).unwrap();
    assert!(matches!(Log::open(dir.path(), SMALL), Err(Error::DamagedLog { .. })));
    let (_, recovered) = Log::open_from(dir.path(), SMALL, end).unwrap();
    let read = |from| recovered.for_each(from, |_| Ok::<_, Error>(()));
    assert!(matches!(read(1), Err(Error::DamagedLog { .. })));
    read(known[1].first_index).unwrap();
}

#[test]
fn replaced_entries_stay_replaced_however_much_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    for (term, range) in [(1, 1..=100), (2, 90..=130), (3, 101..=160), (3, 161..=300)] {
        for index in range {
            append(&mut log, term, [index]);
        }
    }
    let known: Vec<_> = log.segments().cloned().collect();
    assert!(known.iter().any(|s| s.replaced_from == Some(90)), "{known:?}");
    drop(log);
    let (_, whole) = Log::open(dir.path(), SMALL).unwrap();
    let whole = entries(&whole);
    for from in (0..=300).step_by(7) {
        let (log, recovered) = Log::open_from(dir.path(), SMALL, from).unwrap();
        assert_eq!(entries(&recovered), whole, "from {from}");
        assert_eq!(log.last_index(), Some(300));
    }
}
