//! Checkpoints are complete, or rejected.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use store::Error;
use store::checkpoint::{self, CheckpointReader, CheckpointWriter};

fn write(directory: &Path, index: u64, sections: &[(u32, Vec<u8>)]) -> checkpoint::Checkpoint {
    let mut writer = CheckpointWriter::create(directory, index, 3).unwrap();
    for (kind, payload) in sections {
        writer.section(*kind, payload).unwrap();
    }
    writer.finish().unwrap()
}

fn read(path: &Path) -> Result<Vec<(u32, Vec<u8>)>, Error> {
    let mut sections = Vec::new();
    CheckpointReader::open(path)?.for_each(|kind, payload| {
        sections.push((kind, payload.to_vec()));
        Ok::<_, Error>(())
    })?;
    Ok(sections)
}

#[test]
fn sections_come_back_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let sections = vec![(1, b"one".to_vec()), (7, vec![]), (1, vec![9; 3 << 20])];
    let made = write(dir.path(), 42, &sections);
    assert_eq!(read(&made.path).unwrap(), sections);
    let mut reader = CheckpointReader::open(&made.path).unwrap();
    assert_eq!((reader.index(), reader.term(), reader.sections()), (42, 3, 3));
    assert_eq!(reader.bytes(), made.bytes);
    reader.verify().unwrap();
    reader.verify().unwrap();
}

#[test]
fn equal_content_has_equal_digests() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let digest = |directory: &Path, payload: &[u8]| {
        let made = write(directory, 1, &[(1, payload.to_vec())]);
        CheckpointReader::open(made.path).unwrap().digest()
    };
    assert_eq!(digest(dir.path(), b"state"), digest(other.path(), b"state"));
    assert_ne!(digest(dir.path(), b"state"), digest(other.path(), b"other"));
}

#[test]
fn a_checkpoint_says_when_its_state_was_or_its_file_does() {
    let dir = tempfile::tempdir().unwrap();
    let said = CheckpointWriter::create_at(dir.path(), 1, 1, 77).unwrap().finish().unwrap();
    let unsaid = CheckpointWriter::create(dir.path(), 2, 1).unwrap().finish().unwrap();
    let times = [&said, &unsaid].map(|made| CheckpointReader::open(&made.path).unwrap().time_us());
    assert_eq!((said.time_us, times), (77, [Some(77), None]));
    // This was written long after 2020.
    assert!(unsaid.time_us > 1_577_836_800_000_000, "{}", unsaid.time_us);
    assert_eq!(checkpoint::list(dir.path()).unwrap(), [unsaid, said.clone()]);
    let content = fs::read(&said.path).unwrap();
    let other = tempfile::tempdir().unwrap();
    let imported = checkpoint::import(other.path(), &mut Cursor::new(&content)).unwrap();
    assert_eq!(imported.time_us, 77);
}

#[test]
fn the_list_is_newest_first_and_passes_over_other_names() {
    let dir = tempfile::tempdir().unwrap();
    for index in [5, 100, 20] {
        write(dir.path(), index, &[]);
    }
    fs::write(dir.path().join("notes"), b"").unwrap();
    fs::write(dir.path().join("1-1.checkpoint"), b"").unwrap();
    let listed = checkpoint::list(dir.path()).unwrap();
    assert_eq!(listed.iter().map(|c| c.index).collect::<Vec<_>>(), [100, 20, 5]);
    checkpoint::remove(&listed[1]).unwrap();
    assert_eq!(checkpoint::list(dir.path()).unwrap().len(), 2);
}

#[test]
fn an_unfinished_checkpoint_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = CheckpointWriter::create(dir.path(), 1, 1).unwrap();
    writer.section(1, b"half").unwrap();
    assert_eq!(checkpoint::list(dir.path()).unwrap(), []);
    drop(writer);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn any_flipped_bit_and_any_cut_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let made = write(dir.path(), 1, &[(1, b"payload".to_vec()), (2, b"another".to_vec())]);
    let content = fs::read(&made.path).unwrap();
    for bit in 0..content.len() * 8 {
        let mut flipped = content.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&made.path, &flipped).unwrap();
        match read(&made.path) {
            Err(Error::DamagedCheckpoint { path, .. }) => assert_eq!(path, made.path),
            Err(Error::NewerFormat { .. }) if (8..12).contains(&(bit / 8)) => {}
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    for length in 0..content.len() {
        fs::write(&made.path, &content[..length]).unwrap();
        assert!(matches!(read(&made.path), Err(Error::DamagedCheckpoint { .. })), "{length}");
    }
}

#[test]
fn swapped_sections_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let made = write(dir.path(), 1, &[(1, b"aaaa".to_vec()), (1, b"bbbb".to_vec())]);
    let mut content = fs::read(&made.path).unwrap();
    let (first, second) = (40..68, 68..96);
    let (a, b) = (content[first.clone()].to_vec(), content[second.clone()].to_vec());
    content[first].copy_from_slice(&b);
    content[second].copy_from_slice(&a);
    fs::write(&made.path, &content).unwrap();
    let error = read(&made.path).unwrap_err();
    assert!(error.to_string().contains("digest"), "{error}");
    assert!(error.to_string().contains("use another checkpoint"), "{error}");
}

#[test]
fn an_import_is_verified_before_it_counts() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = write(here.path(), 9, &[(1, vec![5; 10_000])]);
    let content = fs::read(&made.path).unwrap();
    let imported = checkpoint::import(there.path(), &mut Cursor::new(&content)).unwrap();
    assert_eq!((imported.index, imported.bytes), (9, made.bytes));
    assert_eq!(fs::read(&imported.path).unwrap(), content);

    let mut torn = content.clone();
    torn[5000] ^= 1;
    for bad in [&torn[..], &content[..9000], b"", b"<html>404</html>"] {
        let refused = checkpoint::import(there.path(), &mut Cursor::new(bad));
        assert!(matches!(refused, Err(Error::DamagedCheckpoint { .. })), "{refused:?}");
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 30, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, bytes).unwrap();
        prop_assert!(read(&path).is_err());
    }
}
