//! A directory becomes a package, and the package becomes the same files.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use model::Digest;
use package::chunk::{ChunkRef, ChunkSource as _, MemoryChunks, digest_of};
use package::directory::{Limits, PackError, Packed, pack};
use package::manifest::{Layer, Manifest, Variant};
use package::tree::{Attributes, Entry, EntryKind, Segment, TreeReader, TreeWriter};
use package::unpack::unpack;
use package::verify::verify;
use proptest::prelude::*;
use tempfile::TempDir;

fn packed(directory: &Path) -> (Packed, MemoryChunks) {
    let mut chunks = MemoryChunks::default();
    let packed = pack(directory, &mut chunks, &Limits::default()).expect("it can be packed");
    (packed, chunks)
}

fn unpacked(layer: &Layer, chunks: &mut MemoryChunks) -> Result<TempDir, String> {
    let place = TempDir::new().expect("a directory");
    let root = File::open(place.path()).expect("it opens");
    unpack(layer, chunks, root.as_fd()).map(|_| place).map_err(|error| error.to_string())
}

/// A directory with everything that a package can have.
fn everything(at: &Path) {
    let write = |path: &str, bytes: &[u8], mode| {
        let path = at.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    };
    write("bin/run", b"#!/bin/sh\n", 0o755);
    write("bin/su", b"x", 0o4755);
    write("empty", b"", 0o600);
    write("a-b", b"after a", 0o644);
    write("a/b", b"in a", 0o644);
    write("\u{e9}\u{1b}[31m", b"odd name", 0o644);
    let mut large = vec![0; 700_000];
    blake3_fill(&mut large);
    write("large", &large, 0o444);
    write("zeros", &vec![0; 1 << 20], 0o644);
    fs::create_dir(at.join("nothing")).expect("made");
    fs::set_permissions(at.join("nothing"), fs::Permissions::from_mode(0o1777)).expect("set");
    symlink("../../etc/passwd", at.join("bin/out")).expect("linked");
    fs::hard_link(at.join("large"), at.join("z")).expect("linked");
    nix::unistd::mkfifo(&at.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("made");
}

fn blake3_fill(bytes: &mut [u8]) {
    blake3::Hasher::new().finalize_xof().fill(bytes);
}

#[test]
fn files_are_the_same_afterwards() {
    let place = TempDir::new().expect("a directory");
    everything(place.path());
    let (first, mut chunks) = packed(place.path());
    let layer = &first.manifest.variants[0].layers[0];
    let again = unpacked(layer, &mut chunks).expect("it can be unpacked");
    let at = |path: &str| again.path().join(path);
    let mode = |path: &str| fs::symlink_metadata(at(path)).expect("it is there").mode() & 0o7777;
    assert_eq!((mode("bin/run"), mode("bin/su"), mode("empty")), (0o755, 0o4755, 0o600));
    assert_eq!(mode("nothing"), 0o1777);
    assert_eq!(fs::read_link(at("bin/out")).expect("a link"), Path::new("../../etc/passwd"));
    let inode = |path: &str| fs::metadata(at(path)).expect("it is there").ino();
    assert_eq!(inode("large"), inode("z"));
    assert!(fs::symlink_metadata(at("pipe")).expect("it is there").file_type().is_fifo());
    let mut large = Vec::new();
    File::open(at("large")).and_then(|mut it| it.read_to_end(&mut large)).expect("read");
    assert_eq!(large, fs::read(place.path().join("large")).expect("read"));
    let (second, _) = packed(again.path());
    assert_eq!(second.digest, first.digest);

    let verified = verify(first.digest, &mut chunks).expect("it is complete");
    assert_eq!((verified.entries, verified.unpacked), (layer.entries, layer.unpacked));
    assert!(!verified.is_image);
}

#[test]
fn owners_and_times_do_not_count() {
    let (one, other) = (TempDir::new().expect("made"), TempDir::new().expect("made"));
    for place in [&one, &other] {
        everything(place.path());
    }
    let later = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    File::open(other.path().join("a/b")).and_then(|it| it.set_modified(later)).expect("set");
    assert_eq!(packed(one.path()).0.digest, packed(other.path()).0.digest);
    fs::set_permissions(other.path().join("a/b"), fs::Permissions::from_mode(0o755)).expect("set");
    assert_ne!(packed(one.path()).0.digest, packed(other.path()).0.digest);
}

#[test]
fn what_is_no_package_is_refused_with_the_reason() {
    let place = TempDir::new().expect("a directory");
    let says = |limits: Limits| {
        let packed = pack(place.path(), &mut MemoryChunks::default(), &limits);
        packed.map(|packed| packed.digest).map_err(|error: PackError| error.to_string())
    };
    fs::write(place.path().join("file"), "12345").expect("written");
    let few = Limits { bytes: 4, ..Limits::default() };
    assert_eq!(
        says(few),
        Err("the files have more than 4 bytes, the maximum of a package".to_owned())
    );
    let none = Limits { entries: 0, ..Limits::default() };
    assert!(says(none).expect_err("too many").contains("more than 0 files"));
    let _socket = std::os::unix::net::UnixListener::bind(place.path().join("s")).expect("bound");
    assert!(says(Limits::default()).expect_err("a socket").contains("s is a socket"));
    let missing = pack(&place.path().join("no"), &mut MemoryChunks::default(), &few);
    assert!(missing.expect_err("it is missing").to_string().contains("No such file"));
}

fn entry(path: &str, kind: EntryKind) -> Entry {
    Entry {
        path: path.into(),
        kind,
        attributes: Attributes { mode: 0o755, ..Attributes::default() },
    }
}

fn file() -> EntryKind {
    EntryKind::File { segments: Vec::new() }
}

#[test]
fn a_tree_that_leads_elsewhere_is_refused() {
    let link = |target: &str| EntryKind::Symlink { target: target.into() };
    let directory = || EntryKind::Directory { opaque: false };
    let cases: &[(&[Entry], &str)] = &[
        (&[entry("../x", file())], "leads out"),
        (&[entry("a/../x", file())], "leads out"),
        (&[entry("/etc/x", file())], "leads out"),
        (&[entry("a//b", file())], "leads out"),
        (&[entry("./a", file())], "leads out"),
        (&[entry("", file())], "empty or too long"),
        (&[entry(&"x".repeat(256), file())], "leads out"),
        (
            &[entry("a", link("/etc")), entry("a/passwd", file())],
            "below something that is no directory",
        ),
        (&[entry("a", file()), entry("a/b", file())], "below something that is no directory"),
        (&[entry("b", file()), entry("a", file())], "not in the order"),
        (&[entry("a", file()), entry("a", directory())], "not in the order"),
        (&[entry("a", EntryKind::HardLink { target: "b".into() })], "no earlier file"),
        (
            &[entry("a", link("x")), entry("b", EntryKind::HardLink { target: "a".into() })],
            "no earlier file",
        ),
        (&[entry("a", EntryKind::HardLink { target: "../b".into() })], "not plain"),
        (&[entry("a", link(""))], "without a proper target"),
        (
            &[entry("a", EntryKind::File { segments: vec![Segment::Hole { length: 0 }] })],
            "proper length",
        ),
    ];
    for (entries, why) in cases {
        let mut writer = TreeWriter::new(Vec::new());
        let added: Result<Vec<()>, _> = entries.iter().map(|entry| writer.add(entry)).collect();
        let error = added.expect_err(why).to_string();
        assert!(error.contains(why), "{entries:?}: {error}");
    }
}

#[test]
fn nothing_is_written_through_what_is_there() {
    let mut chunks = MemoryChunks::default();
    let mut writer = TreeWriter::new(Vec::new());
    writer.add(&entry("a/b", file())).expect("it is fine by itself");
    let (entries, tree) = (writer.entries(), writer.finish());
    let chunk =
        ChunkRef { digest: digest_of(&tree), length: u32::try_from(tree.len()).expect("short") };
    chunks.0.insert(chunk.digest, tree);
    let layer = Layer { tree: vec![chunk], digest: chunk.digest, unpacked: 0, entries };
    let (place, elsewhere) = (TempDir::new().expect("made"), TempDir::new().expect("made"));
    symlink(elsewhere.path(), place.path().join("a")).expect("linked");
    let root = File::open(place.path()).expect("it opens");
    unpack(&layer, &mut chunks, root.as_fd()).expect_err("its parent is a link");
    assert_eq!(fs::read_dir(elsewhere.path()).expect("read").count(), 0);
}

#[test]
fn wrong_bytes_and_missing_chunks_are_found() {
    let place = TempDir::new().expect("a directory");
    everything(place.path());
    let (packed, chunks) = packed(place.path());
    for digest in chunks.0.keys() {
        let (mut missing, mut wrong) = (chunks.clone(), chunks.clone());
        missing.0.remove(digest);
        verify(packed.digest, &mut missing).expect_err("a chunk is missing");
        wrong.0.get_mut(digest).expect("it is there")[0] ^= 1;
        verify(packed.digest, &mut wrong).expect_err("a byte is wrong");
    }
}

#[test]
fn holes_take_no_space() {
    let mut chunks = MemoryChunks::default();
    let bytes = b"end".to_vec();
    let end = ChunkRef { digest: digest_of(&bytes), length: 3 };
    chunks.0.insert(end.digest, bytes);
    let mut writer = TreeWriter::new(Vec::new());
    let hole = Segment::Hole { length: 1 << 30 };
    let segments = vec![hole, Segment::Chunk(end), hole];
    writer.add(&entry("sparse", EntryKind::File { segments })).expect("a file");
    let (entries, tree) = (writer.entries(), writer.finish());
    let chunk =
        ChunkRef { digest: digest_of(&tree), length: u32::try_from(tree.len()).expect("short") };
    chunks.0.insert(chunk.digest, tree);
    let layer = Layer { tree: vec![chunk], digest: chunk.digest, unpacked: (2 << 30) + 3, entries };
    let place = unpacked(&layer, &mut chunks).expect("it can be unpacked");
    let found = fs::metadata(place.path().join("sparse")).expect("it is there");
    assert_eq!(found.len(), (2 << 30) + 3);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
}

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let chunk = ChunkRef { digest: digest_of(b"x"), length: 1 };
    let layer = Layer { tree: vec![chunk], digest: chunk.digest, unpacked: 2, entries: 3 };
    let variant = Variant { architecture: "amd64".to_owned(), layers: vec![layer], config: None };
    let manifest = Manifest { variants: vec![variant] };
    let bytes = manifest.encode();
    assert_eq!(Manifest::decode(&bytes).as_ref(), Ok(&manifest));
    let mut chunks = MemoryChunks([(manifest.digest(), bytes.clone())].into());
    let mut read = Vec::new();
    chunks.get(&ChunkRef { digest: manifest.digest(), length: 0 }, &mut read).expect("there");
    assert_eq!(read, bytes);
    for cut in 0..bytes.len() {
        Manifest::decode(&bytes[..cut]).expect_err("it is cut");
    }
    Manifest::decode(&[&bytes[..], &[0x78, 1]].concat()).expect_err("a field is unknown");
    Manifest::decode(&[0xff; 100]).expect_err("no manifest");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let entries = TreeReader::new(&*bytes).count();
        prop_assert!(entries <= bytes.len() + 1);
        drop(Manifest::decode(&bytes));
        drop(verify(Digest::from_bytes([0; 32]), &mut MemoryChunks::default()));
    }

    #[test]
    fn any_names_come_back(names in prop::collection::btree_set("[a-c]{1,2}(/[a-c.-]{1,2}){0,2}", 1..12)) {
        let place = TempDir::new().expect("a directory");
        for name in &names {
            let path = place.path().join(name);
            let bad = name.split('/').any(|it| it == "." || it == "..");
            let parent = path.parent().expect("a parent");
            // A name that is a file already, or a directory, is left out.
            if !bad && fs::create_dir_all(parent).is_ok() {
                drop(fs::write(&path, name));
            }
        }
        let (first, mut chunks) = packed(place.path());
        let again = unpacked(&first.manifest.variants[0].layers[0], &mut chunks).expect("unpacked");
        prop_assert_eq!(packed(again.path()).0.digest, first.digest);
    }
}
