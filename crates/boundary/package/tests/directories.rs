//! Directories that are packed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use model::Digest;
use nix::sys::stat::Mode;
use package::{
    ChunkSink, EntryKind, MemoryChunks, PackError, PackLimits, Packed, Segment, TreeEntry,
    TreeReader, chunk, digest_of, pack,
};

fn packed(dir: &Path) -> (Packed, MemoryChunks) {
    let mut chunks = MemoryChunks::new();
    (pack(dir, &mut chunks, &PackLimits::default()).unwrap(), chunks)
}

fn entries(packed: &Packed, chunks: &mut MemoryChunks) -> Vec<TreeEntry> {
    let layer = &packed.manifest.variants[0].layers[0];
    let (mut tree, mut one) = (Vec::new(), Vec::new());
    for part in &layer.tree {
        chunk::fetch(chunks, part, &mut one).unwrap();
        tree.extend_from_slice(&one);
    }
    assert_eq!(layer.digest, digest_of(&tree));
    let entries: Vec<TreeEntry> =
        TreeReader::new(tree.as_slice()).collect::<Result<_, _>>().unwrap();
    assert_eq!(layer.entries, entries.len() as u64);
    entries
}

#[test]
fn everything_in_a_directory_is_packed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    fs::create_dir_all(at("b/c")).unwrap();
    fs::write(at("b/file"), "content").unwrap();
    fs::hard_link(at("b/file"), at("b-linked")).unwrap();
    fs::set_permissions(at("b/file"), fs::Permissions::from_mode(0o4711)).unwrap();
    symlink("../nowhere", at("a")).unwrap();
    nix::unistd::mkfifo(&at("z"), Mode::from_bits_truncate(0o600)).unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.set_len(1 << 24).unwrap();
    sparse.write_all_at(b"end", (1 << 24) - 3).unwrap();

    let (first, mut chunks) = packed(dir.path());
    let entries = entries(&first, &mut chunks);
    let paths: Vec<_> =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
    assert_eq!(paths, ["a", "b", "b/c", "b/file", "b-linked", "sparse", "z"]);
    assert_eq!(entries[0].kind, EntryKind::Symlink { target: b"../nowhere".to_vec() });
    assert_eq!(entries[3].attributes.mode, 0o4711);
    assert_eq!(entries[4].kind, EntryKind::HardLink { target: b"b/file".to_vec() });
    assert_eq!(entries[6].kind, EntryKind::Fifo);
    let EntryKind::File { segments } = &entries[5].kind else { panic!("{:?}", entries[5]) };
    assert_eq!(segments.iter().map(Segment::length).sum::<u64>(), 1 << 24);
    assert!(matches!(segments[..], [Segment::Hole { .. }, Segment::Chunk(_)]), "{segments:?}");
    for entry in &entries {
        let kept = &entry.attributes;
        assert_eq!((kept.uid, kept.gid, kept.mtime, kept.xattrs.len()), (0, 0, (0, 0), 0));
    }
    let layer = &first.manifest.variants[0].layers[0];
    let stored: usize = chunks.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(layer.stored, (stored - first.bytes.len()) as u64);
    assert_eq!(layer.unpacked, 7 + segments[1].length());
    assert_eq!(chunks.remove(&first.digest), Some(first.bytes.clone()));

    // Neither times nor how the file came to be make a difference.
    let content = fs::read(at("sparse")).unwrap();
    fs::write(at("sparse"), content).unwrap();
    assert_eq!(packed(dir.path()).0, first);
    fs::set_permissions(at("b/c"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_ne!(packed(dir.path()).0.digest, first.digest);
}

#[test]
fn an_empty_directory_is_a_package() {
    let dir = tempfile::tempdir().unwrap();
    let (packed, chunks) = packed(dir.path());
    assert_eq!((chunks.len(), packed.manifest.variants[0].layers[0].tree.len()), (1, 0));
}

/// Changes a file once a chunk of it was read.
struct Changing<'a>(&'a Path);

impl ChunkSink for Changing<'_> {
    fn put(&mut self, _: Digest, _: &[u8]) -> io::Result<()> {
        fs::write(self.0, "changed")
    }
}

/// Keeps nothing.
struct Full;

impl ChunkSink for Full {
    fn put(&mut self, _: Digest, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn what_cannot_be_packed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, [7; 1000]).unwrap();
    let limits = PackLimits::default();
    let mut chunks = MemoryChunks::new();
    let changed = pack(dir.path(), &mut Changing(&file), &limits).unwrap_err();
    assert_eq!(changed.to_string(), "'file' was changed while it was read");
    let full = pack(dir.path(), &mut Full, &limits).unwrap_err();
    assert!(matches!(full, PackError::Sink { .. }), "{full}");
    let bytes = pack(dir.path(), &mut chunks, &PackLimits { bytes: 6, ..limits }).unwrap_err();
    assert_eq!(bytes.to_string(), "the files up to 'file' have more than 6 bytes");
    let entries = pack(dir.path(), &mut chunks, &PackLimits { entries: 0, ..limits }).unwrap_err();
    assert!(matches!(entries, PackError::TooManyEntries { limit: 0, .. }), "{entries}");
    let missing = pack(&dir.path().join("no"), &mut chunks, &limits).unwrap_err();
    assert!(matches!(missing, PackError::Io { .. }), "{missing}");
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    let socket = pack(dir.path(), &mut chunks, &limits).unwrap_err();
    assert_eq!(socket.to_string(), "'socket' is a socket, which a package cannot have");
}
