//! Helpers shared by the tests of the log.

// Each test file is a crate of its own and uses only some of these.
#![allow(dead_code, unreachable_pub)]

pub mod stream;

use std::fs;
use std::path::{Path, PathBuf};

use store::log::{Log, Options, RecordKind, RecordRef, Recovered};

/// Small segments, so that a test sees many of them.
pub const SMALL: Options = Options { segment_bytes: 4096, keep_bytes: 0 };

pub fn entry(index: u64, term: u64, payload: &[u8]) -> RecordRef<'_> {
    RecordRef { kind: RecordKind::Entry, term, index, level: 1, payload }
}

pub fn hard_state(payload: &[u8]) -> RecordRef<'_> {
    RecordRef { kind: RecordKind::HardState, term: 0, index: 0, level: 3, payload }
}

/// Appends entries of 48 bytes of payload with the given indexes, as one batch, and syncs.
pub fn append(log: &mut Log, term: u64, indexes: impl IntoIterator<Item = u64>) {
    append_unsynced(log, term, indexes);
    log.sync().unwrap();
}

pub fn append_unsynced(log: &mut Log, term: u64, indexes: impl IntoIterator<Item = u64>) {
    let entries: Vec<_> = indexes.into_iter().map(|i| (i, payload(i, term))).collect();
    let batch: Vec<_> = entries.iter().map(|(i, payload)| entry(*i, term, payload)).collect();
    log.append(&batch).unwrap();
}

/// 48 non-zero bytes, so that a record has 96 bytes and a cut anywhere is visible.
pub fn payload(index: u64, term: u64) -> Vec<u8> {
    format!("entry {index:020} of term {term:013}!").bytes().chain(*b"..").take(48).collect()
}

pub const RECORD_BYTES: u64 = 48 + 48;

/// The index and term of every entry, after a check of every payload.
pub fn entries(recovered: &Recovered) -> Vec<(u64, u64)> {
    let mut entries = Vec::new();
    recovered
        .for_each(0, |record| {
            assert_eq!(record.payload, payload(record.index, record.term));
            assert_eq!(record.level, 1);
            entries.push((record.index, record.term));
            Ok::<_, store::Error>(())
        })
        .unwrap();
    assert_eq!(recovered.entries(), entries.len() as u64);
    assert_eq!(recovered.first_index(), entries.first().map(|e| e.0));
    if let Some(last) = entries.last() {
        assert_eq!(recovered.last(), Some(*last));
    }
    entries
}

/// The segments' files, oldest first.
pub fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "log"))
        .collect();
    files.sort();
    files
}

/// A copy of a log's directory, to damage it.
pub fn copy(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in segments(directory) {
        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    copy
}
