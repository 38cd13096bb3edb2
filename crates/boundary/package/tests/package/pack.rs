//! Directories: packed, unpacked, and packed again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use model::{Bytes, Digest};
use package::chunk::{ChunkSink, DirectoryChunks, MemoryChunks};
use package::directory::{PackError, pack};
use package::manifest::Packed;
use package::tree::{Attributes, EntryKind, EntryPath, Tree, TreeEntry};
use package::unpack::{self, Opaque, UnpackMode};
use package::{LimitError, PackageLimits};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode as Permissions, makedev, mknodat};
use tempfile::TempDir;

use crate::listing::{Compare, list};

const CONTENTS: Compare = Compare { attributes: false };

fn unpacked(packed: &Packed, chunks: &mut MemoryChunks, mode: UnpackMode) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let opened = unpack::open(directory.path()).unwrap();
    let layer = &packed.manifest.variants[0].layers[0];
    let usage = unpack::layer(layer, chunks, opened.as_fd(), mode).unwrap();
    assert_eq!((usage.bytes, usage.entries), (layer.bytes_unpacked, layer.entries));
    directory
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// One of everything.
fn directory_of_everything() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("a/b/c")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    fs::write(at("a.txt"), "between 'a' and 'a/b'").unwrap();
    fs::write(at("a/b/tool"), vec![7; 300_000]).unwrap();
    fs::write(at("nothing"), "").unwrap();
    fs::hard_link(at("a/b/tool"), at("a/again")).unwrap();
    symlink("../a.txt", at("a/relative")).unwrap();
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::hard_link(at("dangling"), at("dangling.again")).unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"middle", 3 << 20).unwrap();
    sparse.set_len(10 << 20).unwrap();
    for (name, kind, number) in [
        ("null", FileType::CharacterDevice, makedev(1, 3)),
        ("loop", FileType::BlockDevice, makedev(7, 0)),
        ("fifo", FileType::Fifo, 0),
    ] {
        mknodat(CWD, at(name), kind, Permissions::from_raw_mode(0o600), number).unwrap();
    }
    for (name, mode) in [
        ("a/b/tool", 0o4755),
        ("a", 0o1777),
        ("a/b", 0o755),
        ("a/b/c", 0o755),
        ("a.txt", 0o644),
        ("sparse", 0o644),
        ("empty", 0o000),
        ("fifo", 0o622),
        ("nothing", 0),
    ] {
        set_mode(&at(name), mode);
    }
    directory
}

#[test]
fn a_directory_of_everything_comes_back() {
    let directory = directory_of_everything();
    let mut chunks = MemoryChunks::default();
    let packed = pack(directory.path(), &mut chunks, &PackageLimits::default()).unwrap();
    assert_eq!(package::manifest::decode(&packed.bytes).unwrap(), packed.manifest);
    let layer = &packed.manifest.variants[0].layers[0];
    assert_eq!(layer.entries, list(directory.path(), CONTENTS).len() as u64);
    assert_eq!(layer.bytes_stored, Bytes(chunks.bytes()));
    for mode in [UnpackMode::Plain, UnpackMode::Overlay(Opaque::Trusted)] {
        let copy = unpacked(&packed, &mut chunks, mode);
        assert_eq!(list(copy.path(), CONTENTS), list(directory.path(), CONTENTS));
        let (sparse, tool) = (copy.path().join("sparse"), copy.path().join("a/b/tool"));
        let blocks =
            |path: &Path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap());
        assert!(blocks(&sparse) <= 128 && blocks(&tool) >= 300_000 / 512, "holes stay holes");
        // Nothing but names, contents and modes counts.
        let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        assert_eq!(tool.metadata().unwrap().modified().unwrap(), std::time::UNIX_EPOCH);
        File::open(copy.path().join("a.txt")).unwrap().set_times(times).unwrap();
        std::os::unix::fs::chown(copy.path().join("a.txt"), Some(1), Some(2)).unwrap();
        let again =
            pack(copy.path(), &mut MemoryChunks::default(), &PackageLimits::default()).unwrap();
        assert_eq!(again, packed);
    }
}

#[test]
fn a_package_never_changes_its_digest() {
    let directory = directory_of_everything();
    let digest = pack(directory.path(), &mut MemoryChunks::default(), &PackageLimits::default());
    assert_eq!(digest.unwrap().digest.to_string(), GOLDEN);
}

/// If this changes, then every package that exists has another digest.
const GOLDEN: &str = "a7991b29710613c77cc4508112b6412e04ce9a800d633780f8832cb60aabf910";

#[test]
fn an_empty_directory_is_a_package() {
    let directory = tempfile::tempdir().unwrap();
    let mut chunks = MemoryChunks::default();
    let packed = pack(directory.path(), &mut chunks, &PackageLimits::default()).unwrap();
    assert!(chunks.is_empty());
    assert!(list(unpacked(&packed, &mut chunks, UnpackMode::Plain).path(), CONTENTS).is_empty());
}

#[test]
fn chunks_in_a_directory_serve_as_those_in_memory() {
    let (directory, kept) = (directory_of_everything(), tempfile::tempdir().unwrap());
    let mut chunks = DirectoryChunks::new(kept.path());
    let packed = pack(directory.path(), &mut chunks, &PackageLimits::default()).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let opened = unpack::open(copy.path()).unwrap();
    let layer = &packed.manifest.variants[0].layers[0];
    unpack::layer(layer, &mut chunks, opened.as_fd(), UnpackMode::Plain).unwrap();
    assert_eq!(list(copy.path(), CONTENTS), list(directory.path(), CONTENTS));
    // A damaged chunk is not unpacked.
    let path = chunks.path_of(&package::chunk::digest_of(b"between 'a' and 'a/b'"));
    fs::write(&path, "between 'a' and 'a/c'").unwrap();
    let error = unpack::layer(layer, &mut chunks, opened.as_fd(), UnpackMode::Plain).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot get the contents of 'a.txt': chunk "), "{text}");
    assert!(text.contains("is damaged"), "{text}");
}

#[test]
fn what_cannot_be_packed_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let limits = PackageLimits::default();
    let error = pack(directory.path(), &mut MemoryChunks::default(), &limits).unwrap_err();
    let expected =
        "is a socket, which cannot be in a package: remove it, or pack another directory";
    assert_eq!(error.to_string(), format!("{} {expected}", socket.display()));
    fs::remove_file(&socket).unwrap();

    let mode = Permissions::from_raw_mode(0o600);
    mknodat(CWD, &socket, FileType::CharacterDevice, mode, 0).unwrap();
    let error = pack(directory.path(), &mut MemoryChunks::default(), &limits).unwrap_err();
    assert!(matches!(error, PackError::Whiteout { .. }), "{error}");
    fs::remove_file(&socket).unwrap();

    // A file of holes counts with all its length.
    File::create(directory.path().join("huge")).unwrap().set_len(10 << 40).unwrap();
    let error = pack(directory.path(), &mut MemoryChunks::default(), &limits).unwrap_err();
    assert!(error.to_string().contains("files have more than 64 GiB"), "{error}");
    assert!(error.to_string().contains("'huge' with 10 TiB"), "{error}");

    let few = PackageLimits { entries_max: 0, ..limits };
    let error = pack(directory.path(), &mut MemoryChunks::default(), &few).unwrap_err();
    let entries = PackError::Limit {
        path: directory.path().to_owned(),
        source: LimitError::Entries { max: 0 },
    };
    assert_eq!(error.to_string(), entries.to_string());

    let missing = directory.path().join("missing");
    let error = pack(&missing, &mut MemoryChunks::default(), &limits).unwrap_err();
    assert!(error.to_string().starts_with("cannot open the directory "), "{error}");
}

/// Changes a file when its first chunk is kept.
struct Changing<'a>(&'a dyn Fn());

impl ChunkSink for Changing<'_> {
    fn put(&mut self, _: Digest, _: &[u8]) -> io::Result<()> {
        (self.0)();
        Ok(())
    }
}

#[test]
fn a_file_that_changes_while_it_is_packed_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let truncate = || File::options().write(true).open(&path).unwrap().set_len(5).unwrap();
    let append = || {
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(io::SeekFrom::End(0)).unwrap();
        file.write_all(b"more").unwrap();
    };
    let write = || {
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"other", 0).unwrap();
        // The clock of files may not have ticked since the file was created.
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    let changes: [&dyn Fn(); 3] = [&truncate, &append, &write];
    for change in changes {
        fs::write(&path, vec![1; 3 << 20]).unwrap();
        let error =
            pack(directory.path(), &mut Changing(change), &PackageLimits::default()).unwrap_err();
        assert!(
            matches!(&error, PackError::Changed { path: changed } if *changed == path),
            "{error}"
        );
    }
}

/// What a random directory consists of.
#[derive(Clone, Debug)]
enum Item {
    Directory,
    File { seed: u8, bytes: u32, mode: u32 },
    Sparse { data: u32, hole: u32 },
    Symlink(String),
    Link(String),
}

fn item() -> impl Strategy<Value = (String, Item)> {
    let name = "[a-c.]{1,2}(/[a-c!]{1,2}){0,3}".prop_filter("no dots alone", |name| {
        !name.split('/').any(|name| name == "." || name == "..")
    });
    let file = (any::<u8>(), 0_u32..200_000, 0_u32..0o10000);
    let item = prop_oneof![
        Just(Item::Directory),
        file.prop_map(|(seed, bytes, mode)| Item::File { seed, bytes, mode }),
        (0_u32..300_000, 0_u32..300_000).prop_map(|(data, hole)| Item::Sparse { data, hole }),
        "[a-z./]{1,9}".prop_map(Item::Symlink),
        "[a-c]{1,2}".prop_map(Item::Link),
    ];
    (name, item)
}

/// Makes a directory. Items that are not possible are left out.
fn make(root: &Path, items: &BTreeMap<String, Item>) {
    for (name, item) in items {
        let path = root.join(name);
        let _impossible = fs::create_dir_all(path.parent().unwrap());
        let _impossible: io::Result<()> = match item {
            Item::Directory => fs::create_dir(&path),
            Item::File { seed, bytes, mode } => {
                let mut contents = vec![0; *bytes as usize];
                blake3::Hasher::new_keyed(&[*seed; 32]).finalize_xof().fill(&mut contents);
                fs::write(&path, contents).map(|()| set_mode(&path, *mode))
            }
            Item::Sparse { data, hole } => File::create_new(&path).and_then(|file| {
                file.write_all_at(&vec![1; *data as usize], u64::from(*hole))?;
                file.set_len(u64::from(*hole) * 2 + u64::from(*data))
            }),
            Item::Symlink(target) => symlink(target, &path),
            Item::Link(target) => fs::hard_link(root.join(target), &path),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn random_directories_come_back(items in prop::collection::btree_map(
        "[a-z]{4}", item(), 0..20,
    )) {
        let items: BTreeMap<String, Item> = items.into_values().collect();
        let directory = tempfile::tempdir().unwrap();
        make(directory.path(), &items);
        let mut chunks = MemoryChunks::default();
        let packed = pack(directory.path(), &mut chunks, &PackageLimits::default()).unwrap();
        let copy = unpacked(&packed, &mut chunks, UnpackMode::Plain);
        prop_assert_eq!(list(copy.path(), CONTENTS), list(directory.path(), CONTENTS));
        let again = pack(copy.path(), &mut MemoryChunks::default(), &PackageLimits::default()).unwrap();
        prop_assert_eq!(again.digest, packed.digest);
    }
}

#[test]
fn a_deep_directory_is_packed_up_to_the_longest_path() {
    let directory = tempfile::tempdir().unwrap();
    // As deep as a path can be: 2,048 directories.
    let deepest: PathBuf = directory.path().join(["d"; 1_000].join("/"));
    fs::create_dir_all(&deepest).unwrap();
    fs::write(deepest.join("file"), "deep").unwrap();
    let mut chunks = MemoryChunks::default();
    let packed = pack(directory.path(), &mut chunks, &PackageLimits::default()).unwrap();
    assert_eq!(packed.manifest.variants[0].layers[0].entries, 1_001);
    let copy = unpacked(&packed, &mut chunks, UnpackMode::Plain);
    assert_eq!(list(copy.path(), CONTENTS), list(directory.path(), CONTENTS));
}

#[test]
fn nothing_is_written_outside_of_the_directory() {
    let (outside, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(outside.path(), root.path().join("a")).unwrap();
    let opened = unpack::open(root.path()).unwrap();
    let entry = |path: &str, kind| {
        let attributes = match &kind {
            EntryKind::HardLink { .. } | EntryKind::Whiteout => Attributes::default(),
            _ => Attributes::implied(),
        };
        TreeEntry { path: EntryPath::new(path.as_bytes()).unwrap(), kind, attributes }
    };
    let target = EntryPath::new(b"a/secret").unwrap();
    let directory = || entry("a", EntryKind::Directory { opaque: false });
    let file = || entry("a/new", EntryKind::File { segments: vec![] });
    // Trees that no decoder accepts, too: their directories are links here.
    let table: [(Vec<TreeEntry>, Result<(), &str>); 5] = [
        (vec![entry("b", EntryKind::HardLink { target })], Err("is a hard link to 'a/secret'")),
        (vec![file()], Err("cannot open the directory above 'a/new' of the package")),
        (vec![entry("a/secret", EntryKind::Whiteout)], Err("cannot open the directory above")),
        (vec![directory(), file()], Ok(())),
        (vec![entry("a", EntryKind::Directory { opaque: true }), file()], Ok(())),
    ];
    for (entries, expected) in table {
        let tree = Tree { entries };
        let chunks = &mut MemoryChunks::default();
        let unpacked = unpack::tree(&tree, chunks, opened.as_fd(), UnpackMode::Plain);
        match (unpacked.map_err(|error| error.to_string()), expected) {
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (unpacked, expected) => assert_eq!(unpacked.is_ok(), expected.is_ok(), "{unpacked:?}"),
        }
        let kept: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    }
    assert!(root.path().join("a").symlink_metadata().unwrap().is_dir());
    // Into a directory that is not empty no layer of an overlay mount is unpacked.
    let overlay = UnpackMode::Overlay(Opaque::User);
    let tree = Tree { entries: vec![directory()] };
    let error = unpack::tree(&tree, &mut MemoryChunks::default(), opened.as_fd(), overlay);
    assert!(
        error.unwrap_err().to_string().starts_with("'a' exists already: a layer of an overlay")
    );
}
