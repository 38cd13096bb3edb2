//! What trees are read and written, and what is rejected.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use package::tree::{EntryFault, MAX_SEGMENTS, MAX_XATTR_BYTES, MAX_XATTRS, Malformed};
use package::{
    ChunkRef, EntryAttributes, EntryKind, Segment, TreeEntry, TreeError, TreeReader, TreeWriter,
    digest_of,
};

fn entry(path: &str, kind: EntryKind) -> TreeEntry {
    TreeEntry { path: path.into(), kind, attributes: EntryAttributes::default() }
}

fn file(path: &str) -> TreeEntry {
    entry(path, EntryKind::File { segments: vec![] })
}

fn directory(path: &str) -> TreeEntry {
    entry(path, EntryKind::Directory { opaque: false })
}

fn hard_link(path: &str, target: &str) -> TreeEntry {
    entry(path, EntryKind::HardLink { target: target.into() })
}

fn with(mut entry: TreeEntry, change: impl FnOnce(&mut EntryAttributes)) -> TreeEntry {
    change(&mut entry.attributes);
    entry
}

fn encode(entries: &[TreeEntry]) -> Result<Vec<u8>, TreeError> {
    let mut writer = TreeWriter::new(Vec::new());
    entries.iter().try_for_each(|entry| writer.write(entry))?;
    assert_eq!(writer.entries(), entries.len() as u64);
    Ok(writer.into_inner())
}

/// Each entry as a tree of its own, which the writer lets pass, one behind the other.
fn encode_unchecked(entries: &[TreeEntry]) -> Vec<u8> {
    entries.iter().flat_map(|entry| encode(std::slice::from_ref(entry)).unwrap()).collect()
}

fn decode(bytes: &[u8]) -> Result<Vec<TreeEntry>, TreeError> {
    TreeReader::new(bytes).collect()
}

#[test]
fn every_kind_of_entry_is_read_as_it_was_written() {
    let digest = digest_of(b"content");
    let segments = vec![
        Segment::Hole { length: 1 << 40 },
        Segment::Chunk(ChunkRef { digest, length: 7 }),
        Segment::Hole { length: 1 },
    ];
    let xattrs = BTreeMap::from([
        (b"security.capability".to_vec(), vec![0, 1, 255]),
        (b"user.empty".to_vec(), vec![]),
    ]);
    let full =
        EntryAttributes { mode: 0o7755, uid: 1, gid: 1000, mtime: (-7, 999_999_999), xattrs };
    let entries = [
        with(entry("a", EntryKind::Directory { opaque: true }), |a| *a = full.clone()),
        with(entry("a/b", EntryKind::File { segments }), |a| *a = full.clone()),
        hard_link("a/c", "a/b"),
        entry("a-", EntryKind::Symlink { target: b"../\xff".to_vec() }),
        entry("b", EntryKind::CharDevice { major: 4095, minor: 0 }),
        entry("c", EntryKind::BlockDevice { major: 0, minor: 1_048_575 }),
        entry("d", EntryKind::Fifo),
        entry("e", EntryKind::Whiteout),
        entry("f/g", EntryKind::Whiteout),
    ];
    let bytes = encode(&entries).unwrap();
    assert_eq!(decode(&bytes).unwrap(), entries);
    assert_eq!(entries[1].content_bytes(), 7);
    assert!(decode(&[]).unwrap().is_empty());
    for end in 1..bytes.len() {
        let whole = encode(&decode(&bytes[..end]).unwrap_or_default()).unwrap();
        assert!(whole.is_empty() || whole == bytes[..end], "cut off at {end}");
    }
}

#[test]
fn entries_that_break_a_rule_are_neither_written_nor_read() {
    let symlink = |target: &[u8]| entry("a", EntryKind::Symlink { target: target.to_vec() });
    let content = |length| entry("a", EntryKind::File { segments: vec![Segment::Hole { length }] });
    let xattr = |name: &str, bytes| {
        with(file("a"), |a| {
            a.xattrs.insert(name.into(), vec![0; bytes]);
        })
    };
    let long = "a/".repeat(2048) + "a";
    let cases: Vec<(TreeEntry, EntryFault)> = vec![
        (file(""), EntryFault::EmptyPath),
        (file("/etc"), EntryFault::AbsolutePath),
        (file(&long), EntryFault::LongPath),
        (file("../x"), EntryFault::Component),
        (file("a/../../x"), EntryFault::Component),
        (file("./a"), EntryFault::Component),
        (file("a/"), EntryFault::Component),
        (file("a//b"), EntryFault::Component),
        (file("a\0"), EntryFault::Component),
        (file(&"a".repeat(256)), EntryFault::LongComponent),
        (symlink(b""), EntryFault::SymlinkTarget),
        (symlink(b"a\0"), EntryFault::SymlinkTarget),
        (symlink(&[b'a'; 4097]), EntryFault::SymlinkTarget),
        (hard_link("a", "a"), EntryFault::HardLinkTarget("a".into())),
        (hard_link("a", "b"), EntryFault::HardLinkTarget("b".into())),
        (with(entry("a", EntryKind::Whiteout), |a| a.mode = 1), EntryFault::EntryAttributes),
        (with(file("a"), |a| a.mode = 0o10644), EntryFault::Mode(0o10644)),
        (with(file("a"), |a| a.uid = u32::MAX), EntryFault::Owner),
        (with(file("a"), |a| a.mtime.1 = 1_000_000_000), EntryFault::Nanoseconds(1_000_000_000)),
        (xattr("", 1), EntryFault::XattrName(String::new())),
        (
            xattr("trusted.overlay.opaque", 1),
            EntryFault::XattrName("trusted.overlay.opaque".into()),
        ),
        (xattr("user.x", MAX_XATTR_BYTES - 5), EntryFault::LongXattrs),
        (entry("a", EntryKind::CharDevice { major: 0, minor: 0 }), EntryFault::Device(0, 0)),
        (entry("a", EntryKind::BlockDevice { major: 4096, minor: 0 }), EntryFault::Device(4096, 0)),
        (content(0), EntryFault::Segment(0)),
        (content(1 << 63), EntryFault::LongFile),
    ];
    for (entry, expected) in cases {
        match encode(std::slice::from_ref(&entry)) {
            Err(TreeError::Fault { entry: 0, fault, .. }) => assert_eq!(fault, expected),
            other => panic!("{expected:?}: {other:?}"),
        }
    }
}

#[test]
fn entries_that_do_not_go_together_are_neither_written_nor_read() {
    let symlink = entry("a", EntryKind::Symlink { target: b"/etc".to_vec() });
    let below = || EntryFault::NoDirectory("a".into());
    let cases = [
        (vec![file("a"), file("a")], EntryFault::Duplicate),
        (vec![file("b"), file("a")], EntryFault::Unsorted("b".into())),
        (vec![file("a-"), file("a/b")], EntryFault::Unsorted("a-".into())),
        (vec![file("a"), file("a/b")], below()),
        (vec![symlink, file("a/passwd")], below()),
        (vec![entry("a", EntryKind::Whiteout), file("a/b/c")], below()),
    ];
    for (entries, expected) in cases {
        for result in [encode(&entries).map(drop), decode(&encode_unchecked(&entries)).map(drop)] {
            match result {
                Err(TreeError::Fault { entry: 1, fault, .. }) => assert_eq!(fault, expected),
                other => panic!("{expected:?}: {other:?}"),
            }
        }
    }
    let linked = [file("a"), hard_link("b", "a"), hard_link("c", "b")];
    assert!(encode(&linked[..2]).is_ok());
    assert!(matches!(encode(&linked), Err(TreeError::Fault { entry: 2, .. })));
    let linked = [directory("a"), hard_link("b", "a")];
    assert!(matches!(encode(&linked), Err(TreeError::Fault { entry: 1, .. })));
}

#[test]
fn bytes_that_no_writer_writes_are_rejected() {
    let cases: [(&[u8], Malformed); 8] = [
        (&[0], Malformed::Length),
        (&[0x85, 0x00], Malformed::Length),
        (&[0xff, 0xff, 0xff, 0x7f], Malformed::Length),
        (&[0xff, 0xff, 0xff, 0xff, 0x01], Malformed::Length),
        (&[5, 0x0a, 1, b'a', 0x10, 9], Malformed::Kind(9)),
        // A file with a device number, the kind in front of the path, and an unknown field.
        (&[7, 0x0a, 1, b'a', 0x10, 2, 0x58, 1], Malformed::NotCanonical),
        (&[5, 0x10, 2, 0x0a, 1, b'a'], Malformed::NotCanonical),
        (&[8, 0x0a, 1, b'a', 0x10, 2, 0xf8, 0x01, 1], Malformed::NotCanonical),
    ];
    for (bytes, expected) in cases {
        match decode(bytes) {
            Err(TreeError::Malformed { entry: 0, malformed }) => assert_eq!(malformed, expected),
            other => panic!("{bytes:?}: {other:?}"),
        }
    }
    // What takes little room until it is decoded.
    for (number, count) in [(0x42, MAX_XATTRS), (0x4a, MAX_SEGMENTS)] {
        let mut message = [0x0a, 1, b'a', 0x10, 2].to_vec();
        message.extend([number, 0].repeat(count + 1));
        let mut bytes = Vec::new();
        prost::encode_length_delimiter(message.len(), &mut bytes).unwrap();
        bytes.extend(message);
        match decode(&bytes) {
            Err(TreeError::Malformed { malformed: Malformed::Parts, .. }) => {}
            other => panic!("{count}: {other:?}"),
        }
    }
    let mut reader = TreeReader::new(&[0_u8, 0, 0][..]);
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none(), "something follows an error");
}
