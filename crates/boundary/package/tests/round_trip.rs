//! A directory is the same package once it was packed, unpacked and packed again; and whatever
//! happens to the bytes of a package is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use package::{
    ChunkSink as _, Form, MemoryChunks, PackLimits, VerifyError, pack, reachable, unpack, verify,
};
use proptest::prelude::*;

/// What a random directory is made of.
#[derive(Clone, Debug)]
enum Made {
    Directory(u32),
    File { seed: u8, length: usize, hole: usize, mode: u32 },
    Symlink(String),
    HardLink(usize),
    Fifo,
}

fn made() -> impl Strategy<Value = Made> {
    let content = (any::<u8>(), 0..300_000_usize, prop_oneof![Just(0), 0..600_000_usize]);
    prop_oneof![
        3 => (0..=0o7777_u32).prop_map(|mode| Made::Directory(mode | 0o700)),
        4 => (content, 0..=0o7777_u32).prop_map(|((seed, length, hole), mode)| {
            Made::File { seed, length, hole, mode: mode | 0o400 }
        }),
        1 => "[a-z./]{1,20}".prop_map(Made::Symlink),
        1 => (0..8_usize).prop_map(Made::HardLink),
        1 => Just(Made::Fifo),
    ]
}

/// Makes each thing in one of the directories before it.
fn make(root: &Path, plan: &[(usize, String, Made)]) {
    let (mut directories, mut files) = (vec![(root.to_path_buf(), 0o755)], Vec::new());
    for (number, (parent, name, made)) in plan.iter().enumerate() {
        let parent = &directories[parent % directories.len()].0;
        let path = parent.join(format!("{name}{number}"));
        match made {
            Made::Directory(mode) => {
                fs::create_dir(&path).unwrap();
                directories.push((path, *mode));
            }
            Made::File { seed, length, hole, mode } => {
                let mut content = vec![0; *hole];
                let mut state = u32::from(*seed);
                content.extend((0..*length).map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state.to_be_bytes()[0]
                }));
                fs::write(&path, content).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                files.push(path);
            }
            Made::Symlink(target) => symlink(target, &path).unwrap(),
            Made::HardLink(_) if files.is_empty() => {}
            Made::HardLink(of) => fs::hard_link(&files[of % files.len()], &path).unwrap(),
            Made::Fifo => {
                nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o640))
                    .unwrap();
            }
        }
    }
    for (path, mode) in &directories[1..] {
        fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_directory_is_the_same_package_again(
        plan in prop::collection::vec((any::<usize>(), "[-a-z.ü]{0,4}", made()), 0..24),
    ) {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make(from.path(), &plan);
        let mut chunks = MemoryChunks::new();
        let first = pack(from.path(), &mut chunks, &PackLimits::default()).unwrap();
        let layer = &first.manifest.variants[0].layers[0];
        let root = File::open(into.path()).unwrap();
        for form in [Form::Plain, Form::Overlay] {
            // The second time, everything is replaced by the same.
            unpack(layer, &mut chunks, root.as_fd(), form).unwrap();
            let again = pack(into.path(), &mut MemoryChunks::new(), &PackLimits::default()).unwrap();
            prop_assert_eq!(again.digest, first.digest);
        }
        let verified = verify(first.digest, &mut chunks).unwrap();
        prop_assert_eq!(verified.stored, layer.stored);
        prop_assert_eq!(verified.unpacked, layer.unpacked);
        prop_assert_eq!(verified.entries, layer.entries);
        prop_assert_eq!(verified.chunks, chunks.len() as u64 - 1);
        prop_assert_eq!((verified.is_image, verified.architectures), (false, vec![String::new()]));
    }
}

#[test]
fn a_directory_may_be_deeper_than_files_can_be_open() {
    const DEPTH: usize = 1100;
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(from.path().join("d/".repeat(DEPTH))).unwrap();
    let mut chunks = MemoryChunks::new();
    let first = pack(from.path(), &mut chunks, &PackLimits::default()).unwrap();
    let layer = &first.manifest.variants[0].layers[0];
    assert_eq!(layer.entries, DEPTH as u64);
    let root = File::open(into.path()).unwrap();
    unpack(layer, &mut chunks, root.as_fd(), Form::Plain).unwrap();
    let again = pack(into.path(), &mut chunks, &PackLimits::default()).unwrap();
    assert_eq!(again.digest, first.digest);
    // One file in the place of it all.
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("d"), "file").unwrap();
    let file = pack(other.path(), &mut chunks, &PackLimits::default()).unwrap();
    let layer = &file.manifest.variants[0].layers[0];
    unpack(layer, &mut chunks, root.as_fd(), Form::Plain).unwrap();
    assert_eq!(fs::read_to_string(into.path().join("d")).unwrap(), "file");
}

#[test]
fn what_is_missing_or_damaged_is_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/a"), "content").unwrap();
    fs::write(dir.path().join("sub/b"), [1; 1_000_000]).unwrap();
    let mut chunks = MemoryChunks::new();
    let packed = pack(dir.path(), &mut chunks, &PackLimits::default()).unwrap();
    let mut listed = vec![packed.digest];
    reachable(&packed.manifest, &mut chunks, &mut |chunk| listed.push(chunk.digest)).unwrap();
    listed.sort_unstable();
    listed.dedup();
    let kept: Vec<_> = chunks.iter().map(|(digest, _)| *digest).collect();
    assert_eq!(listed, kept, "not all chunks are listed, or others");

    for digest in &kept {
        let mut missing = chunks.clone();
        let bytes = missing.remove(digest).unwrap();
        let error = verify(packed.digest, &mut missing).unwrap_err();
        assert!(error.to_string().contains(&digest.to_string()), "{error}");
        let mut damaged = chunks.clone();
        damaged.put(*digest, &[&bytes[1..], b"\0"].concat()).unwrap();
        let error = verify(packed.digest, &mut damaged).unwrap_err();
        assert!(error.to_string().contains(&format!("{digest} is damaged")), "{error}");
    }
    let mut missing = chunks.clone();
    missing.remove(&package::digest_of(b"content"));
    match verify(packed.digest, &mut missing) {
        Err(VerifyError::Chunk { layer: 0, path, .. }) => assert_eq!(path, Path::new("sub/a")),
        other => panic!("{other:?}"),
    }
    // What the manifest says of a layer.
    let mut manifest = packed.manifest.clone();
    manifest.variants[0].layers[0].stored += 1;
    let bytes = manifest.encode().unwrap();
    chunks.put(package::digest_of(&bytes), &bytes).unwrap();
    let stored = verify(package::digest_of(&bytes), &mut chunks);
    assert!(matches!(stored, Err(VerifyError::Stored { layer: 0, .. })), "{stored:?}");
    let other = verify(package::digest_of(b"content"), &mut chunks);
    assert!(matches!(other, Err(VerifyError::Manifest(_))), "{other:?}");
}
