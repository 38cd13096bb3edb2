//! The retained history: every state since its start can be rebuilt while the log is being written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::checkpoint::{self, CheckpointReader, CheckpointWriter};
use store::history::{History, Start};
use store::log::{Log, RecordKind, RecordRef};
use store::retention::{Retention, plan};
use store::{DataDirectory, Error};
use support::{SMALL, append, entry, hard_state, segments};

/// Records are ten microseconds apart; every seventh has no time.
fn time_of(record: store::log::Record<'_>) -> Result<Option<u64>, Error> {
    Ok((!record.index.is_multiple_of(7)).then_some(record.index * 10))
}

/// The state of this test: the sum of all indexes up to one.
fn sum(index: u64) -> u64 {
    index * (index + 1) / 2
}

fn write_checkpoint(directory: &Path, index: u64) {
    let mut writer = CheckpointWriter::create_at(directory, index, 1, index * 10).unwrap();
    writer.section(1, &sum(index).to_le_bytes()).unwrap();
    writer.finish().unwrap();
}

/// Rebuilds the state as of an index.
fn rebuild(history: &History, index: u64) -> Result<u64, Error> {
    let Start { checkpoint, records } = history.starts(index)?.swap_remove(0);
    let mut state = 0;
    if let Some(checkpoint) = checkpoint {
        let mut reader = match CheckpointReader::open(&checkpoint.path) {
            // Deleted since the history was opened.
            Err(Error::Io { .. }) if !checkpoint.path.exists() => {
                return Err(Error::Deleted { path: checkpoint.path.clone() });
            }
            opened => opened?,
        };
        reader.for_each(|_, section| {
            state = u64::from_le_bytes(section.try_into().unwrap());
            Ok::<_, Error>(())
        })?;
    }
    history.for_each(records, |record| {
        state += record.index;
        Ok::<_, Error>(())
    })?;
    Ok(state)
}

/// Logs of 400 records in small segments, with checkpoints at each hundred.
fn data(path: &Path) -> (DataDirectory, Log) {
    let data = DataDirectory::create(path.join("data")).unwrap();
    let (mut log, _) = Log::open(data.log(), SMALL).unwrap();
    log.append(&[hard_state(b"agreed")]).unwrap();
    for index in 1..=400 {
        append(&mut log, 1, [index]);
        if index % 100 == 0 {
            write_checkpoint(&data.checkpoints(), index);
        }
    }
    (data, log)
}

#[test]
fn every_kept_state_is_rebuilt_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mut log) = data(dir.path());
    let keep = |bytes, age_us, records_between| {
        let age = Duration::from_micros(age_us);
        Retention { bytes, age, records_between }
    };
    let cases = [
        // What is retained, then the start of the history, and the checkpoints.
        (keep(u64::MAX, u64::MAX, 100), 0, vec![400, 300, 200, 100]),
        (keep(u64::MAX, u64::MAX, 200), 0, vec![400, 300, 200]),
        (keep(u64::MAX, 2_100, 200), 0, vec![400, 300, 200]),
        (keep(u64::MAX, 1_900, 200), 200, vec![400, 300, 200]),
        (keep(0, u64::MAX, 200), 300, vec![400, 300]),
        (keep(0, 0, 200), 300, vec![400, 300]),
    ];
    for (retention, begins, checkpoints) in cases {
        let history = History::of_data_directory(data.path()).unwrap();
        let planned = plan(&retention, history.checkpoints(), history.segments(), u64::MAX, 4_000);
        assert_eq!(planned.begins, begins, "{retention:?}");
        log.truncate_prefix(planned.log_from).unwrap();
        planned.delete_checkpoints().unwrap();
        planned.delete_checkpoints().unwrap();

        let history = History::of_data_directory(data.path()).unwrap();
        let left: Vec<_> = history.checkpoints().iter().map(|c| c.index).collect();
        assert_eq!(left, checkpoints);
        assert_eq!((history.begins(), history.last_index()), (Some(begins), 400));
        assert_eq!(history.hard_state().unwrap().payload, b"agreed");
        for index in 0..=400 {
            match rebuild(&history, index) {
                Ok(state) => assert_eq!(state, sum(index), "as of {index}"),
                Err(Error::TooEarly { begins: said }) => {
                    assert!(index < begins && said == begins, "as of {index}");
                }
                Err(error) => panic!("as of {index}: {error}"),
            }
        }
        let early = begins.checked_sub(1).map(|index| rebuild(&history, index));
        assert!(early.is_none_or(|early| early.is_err()));
        assert!(matches!(rebuild(&history, 401), Err(Error::NotYet { asked: 401, last: 400 })));
    }
    // A replica starts from there.
    drop(log);
    let (log, recovered) = Log::open_from(data.log(), SMALL, 300).unwrap();
    assert_eq!((log.last_index(), recovered.last()), (Some(400), Some((400, 1))));
}

#[test]
fn a_damaged_checkpoint_gives_way_to_older_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (data, _log) = data(dir.path());
    let history = History::of_data_directory(data.path()).unwrap();
    let starts = history.starts(250).unwrap();
    let found: Vec<_> = starts
        .iter()
        .map(|start| (start.checkpoint.map(|c| (c.index, c.time_us)), start.records.clone()))
        .collect();
    let expected =
        [(Some((200, 2000)), 201..=250), (Some((100, 1000)), 101..=250), (None, 1..=250)];
    assert_eq!(found, expected);
    assert!(history.starts(300).unwrap()[0].records.is_empty());
}

#[test]
fn the_last_record_at_a_time_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mut log) = data(dir.path());
    let history = History::of_data_directory(data.path()).unwrap();
    for time in (0..4_100_u64).step_by(3) {
        let at = (time / 10).min(400);
        let expected = if at.is_multiple_of(7) { at.saturating_sub(1) } else { at };
        match history.last_at(time, time_of) {
            Ok(index) => assert_eq!(index, expected, "at {time}"),
            Err(Error::TooEarly { begins: 0 }) => assert!(time < 10, "at {time}"),
            Err(error) => panic!("at {time}: {error}"),
        }
    }
    // Without a connected checkpoint there is no history.
    log.truncate_prefix(150).unwrap();
    let history = History::of_data_directory(data.path()).unwrap();
    assert!(matches!(history.last_at(1_990, time_of), Err(Error::TooEarly { begins: 200 })));
    assert_eq!(history.last_at(2_000, time_of).unwrap(), 200);
    let failed = history.last_at(2_000, |_| Err(Error::Gap { expected: 1, found: 2 }));
    assert!(matches!(failed, Err(Error::Gap { .. })));
}

#[test]
fn looking_locks_and_changes_nothing_and_an_unfinished_tail_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mut log) = data(dir.path());
    let end = usize::try_from(log.end().offset).unwrap();
    support::append_unsynced(&mut log, 1, [401]);
    let file = segments(&data.log()).pop().unwrap();
    let whole = fs::read(&file).unwrap();
    for torn in 0..support::RECORD_BYTES {
        let mut content = whole.clone();
        content[end + usize::try_from(torn).unwrap()..].fill(0);
        fs::write(&file, &content).unwrap();
        let history = History::of_data_directory(data.path()).unwrap();
        assert_eq!(history.last_index(), 400, "torn at {torn}");
        assert_eq!(rebuild(&history, 400).unwrap(), sum(400));
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    fs::write(&file, &whole).unwrap();
    assert_eq!(History::of_data_directory(data.path()).unwrap().last_index(), 401);
    assert!(matches!(DataDirectory::open(data.path()), Err(Error::Locked { .. })));
    let no_data = History::of_data_directory(dir.path());
    assert!(matches!(no_data, Err(Error::NotADataDirectory { .. })));
}

#[test]
fn a_segment_deleted_meanwhile_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mut log) = data(dir.path());
    let history = History::of_data_directory(data.path()).unwrap();
    log.truncate_prefix(300).unwrap();
    let error = rebuild(&history, 150).unwrap_err();
    assert!(matches!(error, Error::Deleted { .. }), "{error}");
    assert!(error.to_string().contains("list what is retained now"), "{error}");
    assert_eq!(rebuild(&history, 390).unwrap(), sum(390));
}

#[test]
fn replaced_entries_are_not_history() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    for (term, range) in [(1, 1..=100), (2, 90..=130), (3, 101..=160), (4, 161..=400)] {
        for index in range {
            append(&mut log, term, [index]);
        }
    }
    let history = History::open(dir.path(), dir.path()).unwrap();
    let term = |index| match index {
        0..90 => 1,
        90..101 => 2,
        101..161 => 3,
        _ => 4,
    };
    for (from, to) in [(1, 400), (85, 110), (95, 95), (100, 101), (130, 170), (399, 400)] {
        let mut found = Vec::new();
        history
            .for_each(from..=to, |record| {
                found.push((record.index, record.term));
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(found, (from..=to).map(|i| (i, term(i))).collect::<Vec<_>>());
    }
    for index in [1, 89, 95, 105, 200, 399] {
        let expected = if index % 7 == 0 { index - 1 } else { index };
        assert_eq!(history.last_at(index * 10, time_of).unwrap(), expected);
    }

    // An installed snapshot voids everything before it.
    let restart =
        RecordRef { kind: RecordKind::Restart, term: 5, index: 900, level: 0, payload: b"" };
    log.append(&[restart]).unwrap();
    for index in 901..=1000 {
        append(&mut log, 5, [index]);
    }
    let history = History::open(dir.path(), dir.path()).unwrap();
    assert_eq!((history.first_record(), history.begins(), history.last_index()), (901, None, 1000));
    assert!(matches!(history.starts(950), Err(Error::TooEarly { .. })));
    write_checkpoint(dir.path(), 900);
    let history = History::open(dir.path(), dir.path()).unwrap();
    assert_eq!(history.begins(), Some(900));
    assert_eq!(rebuild(&history, 950).unwrap(), sum(950));
    assert!(matches!(history.starts(400), Err(Error::TooEarly { begins: 900 })));
}

#[test]
fn an_empty_directory_has_a_history() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::open(dir.path(), dir.path()).unwrap();
    assert_eq!((history.begins(), history.last_index(), history.first_record()), (Some(0), 0, 1));
    assert_eq!(rebuild(&history, 0).unwrap(), 0);
    assert!(matches!(history.last_at(5, time_of), Err(Error::TooEarly { begins: 0 })));
    // A replica that received a checkpoint and has no log yet.
    write_checkpoint(dir.path(), 70);
    let history = History::open(dir.path(), dir.path()).unwrap();
    assert_eq!((history.begins(), history.last_index()), (Some(70), 70));
    assert_eq!(rebuild(&history, 70).unwrap(), sum(70));
    assert!(matches!(rebuild(&history, 69), Err(Error::TooEarly { begins: 70 })));
}

#[test]
fn the_past_is_read_while_it_is_written_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let data = DataDirectory::create(dir.path().join("data")).unwrap();
    let (mut log, _) = Log::open(data.log(), SMALL).unwrap();
    let synced = AtomicU64::new(0);
    let retention = Retention { bytes: 60_000, age: Duration::MAX, records_between: 150 };
    const LAST: u64 = 4_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 1..=LAST {
                let payload = support::payload(index, 1);
                log.append(&[entry(index, 1, &payload)]).unwrap();
                if index % 3 == 0 {
                    log.sync().unwrap();
                    synced.store(index, Ordering::Release);
                }
                if index % 50 == 0 {
                    write_checkpoint(&data.checkpoints(), index);
                    let all = checkpoint::list(data.checkpoints()).unwrap();
                    let segments: Vec<_> = log.segments().cloned().collect();
                    let plan = plan(&retention, &all, &segments, u64::MAX, 0);
                    log.truncate_prefix(plan.log_from).unwrap();
                    plan.delete_checkpoints().unwrap();
                }
            }
            log.sync().unwrap();
            synced.store(LAST, Ordering::Release);
        });
        let (mut rebuilt, mut number) = (0, 0_u64);
        loop {
            let before = synced.load(Ordering::Acquire);
            let history = History::of_data_directory(data.path()).unwrap();
            let (begins, last) = (history.begins().unwrap(), history.last_index());
            assert!(last >= before, "{before} was there, and now {last} is the last");
            number += 7919;
            let index = begins + number % (last - begins + 1);
            match rebuild(&history, index) {
                Ok(state) => {
                    assert_eq!(state, sum(index), "as of {index}");
                    rebuilt += 1;
                }
                Err(Error::Deleted { .. }) => {}
                Err(error) => panic!("as of {index} of {begins} to {last}: {error}"),
            }
            if before == LAST {
                break;
            }
        }
        assert!(rebuilt > 10, "only {rebuilt} states were rebuilt");
    });
    let history = History::of_data_directory(data.path()).unwrap();
    assert!(history.begins().unwrap() > 0, "something was deleted");
}
