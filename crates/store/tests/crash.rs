//! What a crash or a bad disk leaves, and what recovery makes of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use store::Error;
use store::log::{Log, Recovered, Repair};
use support::{RECORD_BYTES, SMALL, append, append_unsynced, copy, entries, segments};

/// A log whose segments 1 and 2 are sealed, and where the last record in segment 3 was appended
/// and not synced. Gives the number of synced entries and the offset of that last record.
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

#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, record) = unsynced_tail(dir.path());
    for torn in 0..RECORD_BYTES {
        for zeroed in [true, false] {
            let copy = copy(dir.path());
            let file = segments(copy.path()).pop().unwrap();
            if zeroed {
                let gone = usize::try_from(RECORD_BYTES - torn).unwrap();
                change(&file, record + torn, &vec![0; gone]);
            } else {
                let file = OpenOptions::new().write(true).open(&file).unwrap();
                file.set_len(record + torn).unwrap();
            }
            // The record begins with a checksum, whose first bytes may happen to be zeros: what is
            // left of it then looks like what was never written, and is.
            let left = fs::read(&file).unwrap();
            let (from, to) =
                (usize::try_from(record).unwrap(), usize::try_from(record + torn).unwrap());
            let nothing_left = left[from..to].iter().all(|byte| *byte == 0);
            let looked = Recovered::inspect(copy.path()).unwrap();
            let (mut log, recovered) = Log::open(copy.path(), SMALL).unwrap();
            assert_eq!(looked.repair(), recovered.repair());
            assert_eq!(recovered.last(), Some((synced, 1)), "torn at {torn}");
            match (torn, recovered.repair()) {
                (_, Repair::None) if nothing_left => {}
                (_, Repair::TornTail { segment, offset, bytes }) => {
                    assert_eq!((segment, *offset), (&file, record));
                    assert!(*bytes <= torn, "{bytes} of {torn}");
                }
                (_, Repair::None) => panic!("torn at {torn} and not reported"),
            }
            // The cut is there to stay, and the log goes on behind it.
            append(&mut log, 2, synced + 1..=synced + 2);
            drop(log);
            let (_, recovered) = Log::open(copy.path(), SMALL).unwrap();
            assert_eq!(*recovered.repair(), Repair::None);
            assert_eq!(recovered.last(), Some((synced + 2, 2)));
        }
    }
}

#[test]
fn a_survivor_of_an_unsynced_batch_is_cut_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
    append(&mut log, 1, 1..=4);
    let start = u64::from(log.end().offset);
    append_unsynced(&mut log, 1, 5..=7);
    append_unsynced(&mut log, 1, 8..=9);
    drop(log);

    // Every non-empty choice of records that did not reach the disk; later ones did.
    for lost in 1_u64..32 {
        let copy = copy(dir.path());
        let file = &segments(copy.path())[0];
        for i in (0..5).filter(|i| lost & (1 << i) != 0) {
            change(file, start + i * RECORD_BYTES, &[0; 96]);
        }
        let (mut log, recovered) = Log::open(copy.path(), SMALL).unwrap();
        let kept = 4 + u64::from(lost.trailing_zeros());
        assert_eq!(recovered.last(), Some((kept, 1)), "lost {lost:b}");
        let bad = start + u64::from(lost.trailing_zeros()) * RECORD_BYTES;
        match recovered.repair() {
            Repair::TornTail { offset, .. } => assert_eq!(*offset, bad),
            Repair::None => assert_eq!(lost.trailing_zeros(), 5 - lost.count_ones()),
        }
        // The next record ends exactly where a survivor began: it must not come back.
        append(&mut log, 2, [kept + 1]);
        drop(log);
        let recovered = Recovered::inspect(copy.path()).unwrap();
        assert_eq!(entries(&recovered).last(), Some(&(kept + 1, 2)));
        assert_eq!(*recovered.repair(), Repair::None);
    }
}

#[test]
fn a_flipped_bit_in_any_durable_byte_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, record) = unsynced_tail(dir.path());
    let files = segments(dir.path());
    let copy = copy(dir.path());
    let copies = segments(copy.path());
    for (number, (file, original)) in copies.iter().zip(&files).enumerate() {
        // Up to the last synced record; that one only has the unsynced one to vouch for it.
        let end = if number + 1 == files.len() {
            record
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
    assert!(text.contains("restore this replica from a checkpoint, or from another"), "{text}");
}

#[test]
fn a_torn_record_still_vouches_for_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, record) = unsynced_tail(dir.path());
    let file = segments(dir.path()).pop().unwrap();
    // The payload of the unsynced record is torn: cut.
    flip(&file, record + RECORD_BYTES - 1, 0);
    let recovered = Recovered::inspect(dir.path()).unwrap();
    assert_eq!(recovered.last(), Some((synced, 1)));
    assert!(matches!(recovered.repair(), Repair::TornTail { .. }));
    // The one before it too: its header says that this one was durable.
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
    // The record around the stolen ones is torn.
    let file = &segments(dir.path())[0];
    flip(file, u64::from(start.offset) + 20, 0);
    let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
    assert_eq!(recovered.last(), Some((9, 1)));
}
