//! Recovery after crashes and disk errors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use store::Error;
use store::log::{Log, Recovered, Repair, accept_loss};
use support::{RECORD_BYTES, SMALL, append, append_unsynced, copy, entries, segments};

/// A log whose segments 1 and 2 are sealed, and whose segment 3 ends with a record that was
/// appended and not synced. Returns the number of synced entries and the offset of that last
/// record.
fn unsynced_tail(directory: &Path) -> (u64, u64) {
    let (mut log, _) = Log::open(directory, SMALL).unwrap();
    let mut index = 0;
    while log.end().segment < 3 || log.end().offset < 1000 {
        index += 1;
        append(&mut log, 1, [index]);
    }
    let offset = u64::from(log.end().offset);
    append_unsynced(&mut log, 1, [index + 1]);
    assert_eq!(u64::from(log.end().offset), offset + RECORD_BYTES);
    (index, offset)
}

fn change(file: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, offset).unwrap();
}

fn flip(file: &Path, offset: u64, bit: u8) {
    let file = OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], offset).unwrap();
}

/// The atomic unit of a disk.
const SECTOR: u64 = 512;

/// The sectors, as first offset and bytes, that the bytes from `from` to `to` touch.
fn sectors(from: u64, to: u64) -> Vec<(u64, usize)> {
    let starts = std::iter::successors(Some(from), |at| Some((at / SECTOR + 1) * SECTOR));
    let starts = starts.take_while(|at| *at < to);
    let bytes = |at: u64| usize::try_from(((at / SECTOR + 1) * SECTOR).min(to) - at).unwrap();
    starts.map(|at| (at, bytes(at))).collect()
}

#[test]
fn a_tail_of_which_sectors_are_missing_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=4);
    let record = u64::from(log.end().offset);
    log.append(&[support::entry(5, 1, &[7; 1500])]).unwrap();
    let sectors = sectors(record, u64::from(log.end().offset));
    drop(log);
    assert_eq!(sectors.len(), 4);
    // Every choice of sectors that did not reach the disk.
    for missing in 1_u32..1 << sectors.len() {
        let copy = copy(dir.path());
        let file = segments(copy.path()).pop().unwrap();
        for (i, (at, bytes)) in sectors.iter().enumerate() {
            if missing & (1 << i) != 0 {
                change(&file, *at, &vec![0; *bytes]);
            }
        }
        let looked = Recovered::inspect(copy.path()).unwrap();
        let (mut log, recovered) = Log::open(copy.path(), SMALL).unwrap();
        assert_eq!(looked.repair(), recovered.repair());
        assert_eq!(recovered.last(), Some((4, 1)), "missing {missing:b}");
        match recovered.repair() {
            Repair::TornTail { segment, offset, .. } => {
                assert_eq!((segment, *offset), (&file, record));
            }
            Repair::None => assert_eq!(missing.count_ones(), 4, "torn and not reported"),
        }
        // The cut is permanent, and the log continues after it.
        append(&mut log, 2, 5..=6);
        drop(log);
        let (_, recovered) = Log::open(copy.path(), SMALL).unwrap();
        assert_eq!(*recovered.repair(), Repair::None);
        assert_eq!(recovered.last(), Some((6, 2)));
    }
}

#[test]
fn a_record_of_which_every_sector_was_written_is_never_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (_, record) = unsynced_tail(dir.path());
    let file = segments(dir.path()).pop().unwrap();
    assert_eq!(sectors(record, record + RECORD_BYTES).len(), 1, "it is within a sector");
    for offset in record..record + RECORD_BYTES {
        flip(&file, offset, u8::try_from(offset % 8).unwrap());
        let error = Log::open(dir.path(), SMALL).unwrap_err();
        let Error::DamagedLog { offset: found, .. } = &error else { panic!("{error}") };
        assert_eq!(*found, record);
        assert!(error.to_string().contains("and all of it was written"), "{error}");
        flip(&file, offset, u8::try_from(offset % 8).unwrap());
    }
    // Nor is one over several sectors.
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    let index = log.last_index().unwrap() + 1;
    let record = u64::from(log.end().offset);
    log.append(&[support::entry(index, 1, &[7; 1500])]).unwrap();
    drop(log);
    for offset in (record..record + 1548).step_by(7) {
        flip(&file, offset, 3);
        let error = Log::open(dir.path(), SMALL).unwrap_err();
        assert_eq!(error.loss().unwrap().rsplit_once(':').unwrap().1, record.to_string());
        flip(&file, offset, 3);
    }
}

#[test]
fn a_file_that_is_shorter_than_it_was_made_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, _) = unsynced_tail(dir.path());
    let bytes = fs::metadata(segments(dir.path()).pop().unwrap()).unwrap().len();
    for left in (0..bytes).filter(|left| left % 7 == 0 || *left > bytes - 9) {
        let copy = copy(dir.path());
        let file = segments(copy.path()).pop().unwrap();
        OpenOptions::new().write(true).open(&file).unwrap().set_len(left).unwrap();
        let error = Log::open(copy.path(), SMALL).unwrap_err();
        let Error::DamagedLog { path, offset, .. } = &error else { panic!("{error}") };
        assert_eq!(path, &file);
        assert!(*offset <= left, "at {offset} of {left}");
        // After accepting the loss, the rest is available.
        if left % 97 == 0 || left > bytes - 3 {
            accept_loss(copy.path(), 0, &error.loss().unwrap()).unwrap();
            let (mut log, recovered) = Log::open(copy.path(), SMALL).unwrap();
            let last = recovered.last().unwrap().0;
            assert!(last <= synced + 1);
            append(&mut log, 2, [last + 1]);
        }
    }
}

#[test]
fn a_missing_segment_is_damage_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    unsynced_tail(dir.path());
    let count = segments(dir.path()).len();
    assert_eq!(count, 3);
    let refused = |missing: &[usize]| {
        let aside = tempfile::tempdir().unwrap();
        for file in fs::read_dir(dir.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), aside.path().join(file.file_name())).unwrap();
        }
        let files = segments(aside.path());
        missing.iter().for_each(|i| fs::remove_file(&files[*i]).unwrap());
        let error = Log::open(aside.path(), SMALL).unwrap_err();
        let loss = error.loss().unwrap();
        accept_loss(aside.path(), 0, &loss).unwrap();
        let left = Log::open(aside.path(), SMALL).unwrap().1.segments().len();
        (error.to_string(), loss, left)
    };
    let (text, loss, left) = refused(&[1]);
    assert!(text.contains("it follows segment 2, whose file is missing"), "{text}");
    assert!(loss.starts_with("0000000000000003-"), "{loss}");
    assert_eq!(left, 1);
    let (text, loss, left) = refused(&[2]);
    assert!(text.contains("segment 3 was created, and the newest one found is 2"), "{text}");
    assert_eq!((loss.as_str(), left), ("segment-3", 2));
    let (text, loss, left) = refused(&[0, 1, 2]);
    assert!(text.contains("segment 3 was created, and no segment was found"), "{text}");
    assert_eq!((loss.as_str(), left), ("segment-3", 0));
}

#[test]
fn a_note_of_the_newest_segment_that_is_damaged_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    unsynced_tail(dir.path());
    let note = dir.path().join("newest-segment");
    let whole = fs::read(&note).unwrap();
    for bad in [b"".as_slice(), b"garbage", &whole[..23], &[whole.as_slice(), b"x"].concat()] {
        fs::write(&note, bad).unwrap();
        let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
        assert!(recovered.ignored_files().is_empty());
        assert_eq!(fs::read(&note).unwrap()[..24], whole[..], "it is made anew");
        fs::remove_file(&note).unwrap();
    }
}

#[test]
fn a_loss_is_accepted_by_its_name_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, _) = unsynced_tail(dir.path());
    let all = |directory: &Path| {
        let mut all: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        all.sort();
        all
    };
    let refused = |named: &str| {
        let before = all(dir.path());
        let error = accept_loss(dir.path(), 0, named).unwrap_err();
        assert_eq!(all(dir.path()), before, "nothing is changed");
        error.to_string()
    };
    assert_eq!(
        refused("segment-3"),
        "the damage found is none, not \"segment-3\": name the one found"
    );
    let second = segments(dir.path())[1].clone();
    let original = fs::read(&second).unwrap();
    flip(&second, 64 + 10 * RECORD_BYTES + 20, 2);
    let damaged = fs::read(&second).unwrap();
    let third = segments(dir.path())[2].clone();
    let last = fs::read(&third).unwrap();
    let loss = Log::open(dir.path(), SMALL).unwrap_err().loss().unwrap();
    assert!(refused("").contains(&loss));
    assert!(refused("segment-3").contains(&loss));

    let kept = accept_loss(dir.path(), 0, &loss).unwrap();
    let (mut log, recovered) = Log::open(dir.path(), SMALL).unwrap();
    let left = recovered.last().unwrap().0;
    assert!(left < synced && left > 10, "{left} of {synced}");
    assert!(recovered.ignored_files().is_empty());
    // What was given up is preserved for inspection.
    let kept: Vec<_> = kept.iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(kept, [last, damaged]);
    append(&mut log, 2, left + 1..=left + 60);
    drop(log);
    let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(recovered.last(), Some((left + 60, 2)));
    assert!(fs::read(&second).unwrap()[..64] == original[..64]);
}

#[test]
fn a_survivor_of_an_unsynced_batch_is_cut_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=4);
    let start = u64::from(log.end().offset);
    append_unsynced(&mut log, 1, 5..=14);
    append_unsynced(&mut log, 1, 15..=24);
    let end = u64::from(log.end().offset);
    drop(log);

    // Every non-empty choice of sectors that did not reach the disk; later ones did.
    let sectors = sectors(start, end);
    for lost in 1_u32..1 << sectors.len() {
        let copy = copy(dir.path());
        let file = &segments(copy.path())[0];
        for (i, (at, bytes)) in sectors.iter().enumerate() {
            if lost & (1 << i) != 0 {
                change(file, *at, &vec![0; *bytes]);
            }
        }
        let left = fs::read(file).unwrap();
        let (mut log, recovered) = Log::open(copy.path(), SMALL).unwrap();
        let whole = (sectors[lost.trailing_zeros() as usize].0 - start) / RECORD_BYTES;
        let kept = 4 + whole;
        assert_eq!(recovered.last(), Some((kept, 1)), "lost {lost:b}");
        let bad = start + whole * RECORD_BYTES;
        match recovered.repair() {
            Repair::TornTail { offset, .. } => assert_eq!(*offset, bad),
            Repair::None => {
                let behind = &left[usize::try_from(bad).unwrap()..];
                assert!(behind.iter().all(|byte| *byte == 0), "lost {lost:b}");
            }
        }
        // The next record ends exactly where a survivor may have started: it must not come back.
        append(&mut log, 2, [kept + 1]);
        drop(log);
        let recovered = Recovered::inspect(copy.path()).unwrap();
        assert_eq!(entries(&recovered).last(), Some(&(kept + 1, 2)));
        assert_eq!(*recovered.repair(), Repair::None);
    }
}

#[test]
fn a_flipped_bit_in_any_byte_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, record) = unsynced_tail(dir.path());
    let files = segments(dir.path());
    let copy = copy(dir.path());
    let copies = segments(copy.path());
    for (number, (file, original)) in copies.iter().zip(&files).enumerate() {
        let end = if number + 1 == files.len() {
            record + RECORD_BYTES
        } else {
            let header = fs::read(&files[number + 1]).unwrap();
            u64::from(u32::from_le_bytes(header[48..52].try_into().unwrap()))
        };
        for offset in 0..end {
            let bit = u8::try_from((offset * 5 + 3) % 8).unwrap();
            flip(file, offset, bit);
            match Log::open(copy.path(), SMALL) {
                Err(Error::DamagedLog { path, offset: found, .. }) => {
                    assert_eq!(&path, file);
                    assert!(found <= offset, "found at {found}, is at {offset}");
                }
                Err(Error::NewerFormat { .. }) if (8..12).contains(&offset) => {}
                other => panic!("{} offset {offset}: {other:?}", file.display()),
            }
            flip(file, offset, bit);
        }
        assert_eq!(fs::read(file).unwrap(), fs::read(original).unwrap(), "refusing changed it");
    }
    let (_, recovered) = Log::open(copy.path(), SMALL).unwrap();
    assert_eq!(recovered.last(), Some((synced + 1, 1)));
}

#[test]
fn a_durable_record_that_became_zeros_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (_, record) = unsynced_tail(dir.path());
    let file = segments(dir.path()).pop().unwrap();
    change(&file, record - RECORD_BYTES, &[0; 96]);
    let error = Log::open(dir.path(), SMALL).unwrap_err();
    let Error::DamagedLog { path, offset, .. } = &error else { panic!("{error}") };
    assert_eq!((path, *offset), (&file, record - RECORD_BYTES));
    let text = error.to_string();
    assert!(text.contains("(bourg master remove, bourg master add)"), "{text}");
    assert!(text.ends_with(&format!(
        "--accept-loss {} gives up the damaged entry and everything after it",
        error.loss().unwrap()
    )));
}

#[test]
fn a_torn_record_still_vouches_for_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=4);
    let record = u64::from(log.end().offset);
    log.append(&[support::entry(5, 1, &[7; 1500])]).unwrap();
    drop(log);
    let file = segments(dir.path()).pop().unwrap();
    // The payload of the unsynced record is torn: cut.
    change(&file, record / SECTOR * SECTOR + 2 * SECTOR, &[0; 512]);
    let recovered = Recovered::inspect(dir.path()).unwrap();
    assert_eq!(recovered.last(), Some((4, 1)));
    assert!(matches!(recovered.repair(), Repair::TornTail { .. }));
    // The one before it too: its header proves that this one was durable.
    flip(&file, record - 1, 0);
    assert!(matches!(Log::open(dir.path(), SMALL), Err(Error::DamagedLog { .. })));
}

#[test]
fn a_segment_copied_into_a_payload_is_no_testimony() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=8);
    append(&mut log, 1, 9..=9);
    let stolen = fs::read(&segments(dir.path())[0]).unwrap();
    let start = log.end();
    log.append(&[support::entry(10, 1, &stolen[64..1024])]).unwrap();
    drop(log);
    assert_eq!(start.segment, 1);
    // The record around the stolen bytes is torn.
    let file = &segments(dir.path())[0];
    let (at, bytes) = sectors(u64::from(start.offset), u64::from(start.offset) + 1008)[0];
    change(file, at, &vec![0; bytes]);
    let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(recovered.last(), Some((9, 1)));
}
