//! Layers that are unpacked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use package::{
    ChunkSink as _, EntryAttributes, EntryKind, Form, LayerError, MemoryChunks, Segment, TreeError,
    UnpackError, Unpacked,
};
use support::{directory, entry, file, layer, layer_of, symlink, unpack_into, whiteout};
use tempfile::TempDir;

mod support;

/// Everything in a directory, sorted, as its path and what it is.
fn list(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            found.push(match () {
                () if kind.is_dir() => name + "/",
                () if kind.is_symlink() => {
                    format!("{name} -> {}", fs::read_link(&path).unwrap().display())
                }
                () if kind.is_file() => format!("{name}: {}", fs::read_to_string(&path).unwrap()),
                () => name,
            });
            if kind.is_dir() {
                left.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn attributes_are_those_of_the_entries() {
    let (dir, mut chunks) = (tempfile::tempdir().unwrap(), MemoryChunks::new());
    let root = nix::unistd::geteuid().is_root();
    let (uid, gid) = if root { (12, 34) } else { (0, 0) };
    let mut entries = vec![
        directory("d"),
        file("d/file", "content", &mut chunks),
        symlink("d/link", "file"),
        entry("d/pipe", EntryKind::Fifo),
        file("e", "more", &mut chunks),
    ];
    if root {
        entries.insert(3, entry("d/no-null", EntryKind::CharDevice { major: 1, minor: 300 }));
    }
    for (entry, seconds) in entries.iter_mut().zip([7, 9, 1_600_000_000, -5, 0, 1]) {
        let mtime = (seconds, 123_456_789);
        let xattrs = BTreeMap::new();
        entry.attributes = EntryAttributes { mode: 0o6541, uid, gid, mtime, xattrs };
    }
    entries[1].attributes.xattrs.insert(b"user.test".to_vec(), b"value".to_vec());
    if root {
        entries[2].attributes.xattrs.insert(b"trusted.test".to_vec(), vec![]);
    }
    let layer = layer(&entries, &mut chunks);
    let unpacked = unpack_into(&layer, &mut chunks, dir.path(), Form::Plain).unwrap();
    assert_eq!(unpacked, Unpacked { entries: layer.entries, bytes: 11 });
    for entry in &entries {
        let path = dir.path().join(String::from_utf8(entry.path.clone()).unwrap());
        let found = fs::symlink_metadata(&path).unwrap();
        let expected = &entry.attributes;
        let seconds = (found.mtime(), u32::try_from(found.mtime_nsec()).unwrap());
        assert_eq!(seconds, expected.mtime, "{}", path.display());
        if !found.is_symlink() {
            assert_eq!(found.permissions().mode() & 0o7777, expected.mode, "{}", path.display());
        }
        if root {
            assert_eq!((found.uid(), found.gid()), (uid, gid), "{}", path.display());
        }
        if let EntryKind::CharDevice { .. } = entry.kind {
            assert_eq!(found.rdev(), nix::sys::stat::makedev(1, 300));
        }
    }
}

#[test]
fn holes_stay_holes_and_hard_links_are_one_file() {
    let (dir, mut chunks) = (tempfile::tempdir().unwrap(), MemoryChunks::new());
    let mut sparse = file("a", "middle", &mut chunks);
    let EntryKind::File { segments } = &mut sparse.kind else { panic!() };
    segments.insert(0, Segment::Hole { length: 1 << 30 });
    segments.push(Segment::Hole { length: (1 << 30) - 6 });
    let link = entry("b/c", EntryKind::HardLink { target: b"a".to_vec() });
    let layer = layer(&[sparse, link], &mut chunks);
    let unpacked = unpack_into(&layer, &mut chunks, dir.path(), Form::Overlay).unwrap();
    assert_eq!(unpacked.bytes, 6);
    let (a, b) = ("a", "b/c").map_both(|path| fs::metadata(dir.path().join(path)).unwrap());
    assert_eq!((a.len(), a.ino(), a.nlink()), (1 << 31, b.ino(), 2));
    assert!(a.blocks() * 512 < 1 << 20, "{} blocks", a.blocks());
    let implicit = fs::metadata(dir.path().join("b")).unwrap();
    assert_eq!(implicit.permissions().mode() & 0o7777, 0o755);
}

trait MapBoth<T> {
    fn map_both<U>(self, map: impl Fn(T) -> U) -> (U, U);
}

impl<T> MapBoth<T> for (T, T) {
    fn map_both<U>(self, map: impl Fn(T) -> U) -> (U, U) {
        (map(self.0), map(self.1))
    }
}

fn lower(chunks: &mut MemoryChunks) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let lower = [
        directory("a"),
        file("a/kept", "1", chunks),
        file("a/removed", "2", chunks),
        directory("b"),
        directory("b/c"),
        file("b/c/d", "3", chunks),
        symlink("link", "a"),
        directory("replaced"),
        file("replaced/file", "4", chunks),
        file("was-file", "5", chunks),
    ];
    let lower = layer(&lower, chunks);
    unpack_into(&lower, chunks, dir.path(), Form::Plain).unwrap();
    dir
}

#[test]
fn what_a_layer_removes_and_replaces() {
    let mut chunks = MemoryChunks::new();
    let upper = [
        whiteout("a/removed"),
        entry("b", EntryKind::Directory { opaque: true }),
        file("b/new", "6", &mut chunks),
        file("link", "7", &mut chunks),
        whiteout("no/such/file"),
        file("replaced", "8", &mut chunks),
        directory("was-file"),
    ];
    let upper = layer(&upper, &mut chunks);
    let dir = lower(&mut chunks);
    unpack_into(&upper, &mut chunks, dir.path(), Form::Plain).unwrap();
    let plain = ["a/", "a/kept: 1", "b/", "b/new: 6", "link: 7", "replaced: 8", "was-file/"];
    assert_eq!(list(dir.path()), plain);

    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    unpack_into(&upper, &mut chunks, dir.path(), Form::Overlay).unwrap();
    let overlay = [
        "a/",
        "a/removed",
        "b/",
        "b/new: 6",
        "link: 7",
        "no/",
        "no/such/",
        "no/such/file",
        "replaced: 8",
        "was-file/",
    ];
    assert_eq!(list(dir.path()), overlay);
    let whiteout = fs::symlink_metadata(dir.path().join("a/removed")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
}

/// What the kernel makes of the layers in the form for it is what the plain form has.
#[test]
fn overlayfs_shows_what_the_plain_form_has() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let mut chunks = MemoryChunks::new();
    let upper = [
        whiteout("a/removed"),
        entry("b", EntryKind::Directory { opaque: true }),
        file("b/new", "6", &mut chunks),
        directory("link"),
        whiteout("replaced"),
        file("was-file", "7", &mut chunks),
    ];
    let upper = layer(&upper, &mut chunks);
    let (plain, bottom) = (lower(&mut chunks), lower(&mut chunks));
    unpack_into(&upper, &mut chunks, plain.path(), Form::Plain).unwrap();
    let (top, merged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    unpack_into(&upper, &mut chunks, top.path(), Form::Overlay).unwrap();
    // Mounts of this thread only, which are gone with it.
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let lower = format!("lowerdir={}:{}", top.path().display(), bottom.path().display());
    let flags = MsFlags::empty();
    match mount(Some("overlay"), merged.path(), Some("overlay"), flags, Some(lower.as_str())) {
        Ok(()) => assert_eq!(list(merged.path()), list(plain.path())),
        Err(Errno::ENODEV) => {}
        Err(other) => panic!("{other}"),
    }
    // Before the directories are removed.
    let _ = nix::mount::umount(merged.path());
}

#[test]
fn nothing_gets_out_of_the_directory() {
    let mut chunks = MemoryChunks::new();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("file");
    fs::write(&target, "untouched").unwrap();
    let to = outside.path().to_str().unwrap();
    let lower =
        [symlink("dir", to), symlink("file", target.to_str().unwrap()), symlink("up", "..")];
    let lower = layer(&lower, &mut chunks);
    let unpacked = |entries: &[package::TreeEntry], chunks: &mut MemoryChunks| {
        let dir = tempfile::tempdir().unwrap();
        unpack_into(&lower, chunks, dir.path(), Form::Plain).unwrap();
        let upper = layer(entries, chunks);
        let result = unpack_into(&upper, chunks, dir.path(), Form::Plain);
        assert_eq!(list(outside.path()), ["file: untouched"], "{entries:?}");
        result.map(|_| list(dir.path()))
    };
    // Through a link of a lower layer.
    for path in ["dir/file", "dir/new", "dir/new/file", "up/file"] {
        for entry in [file(path, "x", &mut chunks), directory(path), whiteout(path)] {
            let refused = unpacked(&[entry], &mut chunks);
            assert!(matches!(refused, Err(UnpackError::Io { .. })), "{path}: {refused:?}");
        }
    }
    // Through one of the same layer.
    let through = [symlink("a", to), file("a/file", "x", &mut chunks)];
    match unpacked(&through, &mut chunks) {
        Err(UnpackError::Layer(LayerError::Tree(TreeError::Fault { entry: 1, .. }))) => {}
        other => panic!("{other:?}"),
    }
    // In the place of one.
    let instead =
        [directory("dir"), file("dir/file", "x", &mut chunks), file("file", "y", &mut chunks)];
    let found = unpacked(&instead, &mut chunks).unwrap();
    assert_eq!(found, ["dir/", "dir/file: x", "file: y", "up -> .."]);
    // An entry `../x`, which no writer lets pass.
    let dir = outside.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let bytes = [10, 0x0a, 4, b'.', b'.', b'/', b'x', 0x10, 7, 0x18, 0x24];
    let hostile = layer_of(&bytes, &[whiteout("x")], &mut chunks);
    let refused = unpack_into(&hostile, &mut chunks, &dir, Form::Plain);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("'../x'"), "{refused}");
    assert_eq!(list(outside.path()), ["dir/", "file: untouched"]);
}

#[test]
fn what_is_not_as_the_manifest_says_is_an_error() {
    let mut chunks = MemoryChunks::new();
    let entries = [file("a", "content", &mut chunks)];
    let right = layer(&entries, &mut chunks);
    let fails = |layer: &package::Layer, chunks: &mut MemoryChunks| {
        let dir = tempfile::tempdir().unwrap();
        unpack_into(layer, chunks, dir.path(), Form::Plain).unwrap_err().to_string()
    };
    let mut wrong = right.clone();
    wrong.entries = 2;
    assert!(fails(&wrong, &mut chunks).contains("1 entries or more, but should have 2"));
    wrong.entries = 0;
    assert!(fails(&wrong, &mut chunks).contains("1 entries or more, but should have 0"));
    let mut wrong = right.clone();
    wrong.unpacked = 6;
    assert!(fails(&wrong, &mut chunks).contains("7 bytes or more, but should have 6"));
    let mut wrong = right.clone();
    wrong.digest = package::digest_of(b"");
    assert!(fails(&wrong, &mut chunks).contains("the tree has the digest"));
    let digest = package::digest_of(b"content");
    chunks.put(digest, b"CONTENT").unwrap();
    let damaged = fails(&right, &mut chunks);
    assert!(damaged.starts_with(&format!("'a' cannot be unpacked: chunk {digest} is damaged")));
    chunks.remove(&right.tree[0].digest);
    assert!(fails(&right, &mut chunks).contains("cannot be read: "));
}
