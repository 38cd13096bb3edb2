//! The rules of trees and manifests.

use model::{Bytes, Digest};
use package::chunk::{ChunkRef, MemoryChunks, Segment};
use package::manifest::{ImageConfig, Layer, Manifest, Variant};
use package::tree::{
    self, Attributes, Device, EntryKind, EntryPath, Tree, TreeEntry, TreeReader, Xattr,
};

fn entry(path: &str, kind: EntryKind) -> TreeEntry {
    let path = EntryPath::new(path.as_bytes()).unwrap();
    let attributes = match &kind {
        EntryKind::HardLink { .. } | EntryKind::Whiteout => Attributes::default(),
        EntryKind::Symlink { .. } => Attributes { mode: 0o777, ..Attributes::default() },
        _ => Attributes { mode: 0o755, ..Attributes::default() },
    };
    TreeEntry { path, kind, attributes }
}

fn directory(path: &str) -> TreeEntry {
    entry(path, EntryKind::Directory { opaque: false })
}

fn file(path: &str, segments: &[Segment]) -> TreeEntry {
    entry(path, EntryKind::File { segments: segments.to_vec() })
}

fn link(path: &str, target: &str) -> TreeEntry {
    entry(path, EntryKind::HardLink { target: EntryPath::new(target.as_bytes()).unwrap() })
}

fn chunk(bytes: u32) -> Segment {
    Segment::Chunk(ChunkRef { digest: Digest::from_bytes([1; 32]), bytes })
}

fn with(mut entry: TreeEntry, change: impl Fn(&mut Attributes)) -> TreeEntry {
    change(&mut entry.attributes);
    entry
}

fn xattr(name: &str, bytes: usize) -> Xattr {
    Xattr { name: name.as_bytes().to_vec(), value: vec![0; bytes] }
}

/// Encodes a tree, and returns its bytes or the rule.
fn encoded(entries: &[TreeEntry]) -> Result<Vec<u8>, String> {
    let mut chunks = MemoryChunks::default();
    let layer = tree::encode(&Tree { entries: entries.to_vec() }, &mut chunks);
    let layer = layer.map_err(|error| error.to_string())?;
    let mut reader = TreeReader::new(&layer);
    let mut read = Vec::new();
    while let Some(entry) = reader.next(&mut chunks).unwrap() {
        read.push(entry);
    }
    assert_eq!(read, entries);
    let mut bytes = Vec::new();
    for chunk in &layer.chunks {
        bytes.extend_from_slice(chunks.bytes_mut(&chunk.digest).unwrap());
    }
    assert_eq!(package::chunk::digest_of(&bytes), layer.digest);
    Ok(bytes)
}

#[test]
fn a_tree_of_all_kinds_is_read_as_it_was_encoded() {
    let entries = vec![
        entry("a", EntryKind::Directory { opaque: true }),
        directory("a.b"),
        file("a.b/c", &[]),
        file("a/b", &[chunk(5), Segment::Hole(65_536), chunk(1)]),
        link("a/c", "a/b"),
        link("a/d", "of/a/lower/layer"),
        with(directory("d"), |attributes| {
            attributes.modified = tree::Modified { seconds: -1, nanos: 999_999_999 };
            attributes.xattrs = vec![xattr("security.capability", 20), xattr("user.a", 0)];
            (attributes.uid, attributes.gid) = (1_000, u32::MAX - 1);
        }),
        entry("e", EntryKind::Symlink { target: b"\xff/../..".to_vec() }),
        entry("f", EntryKind::CharDevice(Device { major: 4_095, minor: 1_048_575 })),
        entry("g", EntryKind::BlockDevice(Device { major: 0, minor: 0 })),
        entry("h", EntryKind::Fifo),
        entry("i", EntryKind::Whiteout),
    ];
    let bytes = encoded(&entries).unwrap();
    assert_eq!(tree::decode(&bytes).unwrap(), Tree { entries });
    // Every prefix and every changed byte is an error or another tree, and never a panic.
    for end in 0..bytes.len() {
        if let Ok(shorter) = tree::decode(&bytes[..end]) {
            assert_eq!(encoded(&shorter.entries).unwrap(), bytes[..end]);
        }
        let mut changed = bytes.clone();
        for bit in 0..8 {
            changed[end] = bytes[end] ^ (1 << bit);
            if let Ok(other) = tree::decode(&changed) {
                assert_eq!(encoded(&other.entries).unwrap(), changed);
            }
        }
    }
}

#[test]
fn each_rule_of_a_tree_is_checked() {
    let too_long = vec![Segment::Hole(i64::MAX as u64), chunk(1)];
    let table: Vec<(Vec<TreeEntry>, &str)> = vec![
        (vec![directory("b"), directory("a")], "not after the entry before it"),
        (vec![directory("a"), directory("a")], "not after the entry before it"),
        (vec![directory("a/b")], "directory above it is not an entry"),
        (vec![file("a", &[]), directory("a/b")], "or no directory"),
        (vec![directory("a"), directory("a.b"), directory("b/c")], "not an entry"),
        (vec![link("a", "b"), file("b", &[])], "has to precede it"),
        (vec![directory("a"), link("b", "a")], "not a file"),
        (vec![link("a", "a")], "not a file"),
        (vec![link("a", "z"), link("b", "a")], "not a file"),
        (vec![file("a", &[chunk(0)])], "no bytes, or more than 256 KiB"),
        (vec![file("a", &[chunk(262_145)])], "no bytes, or more than 256 KiB"),
        (vec![file("a", &[Segment::Hole(0)])], "a hole has no bytes"),
        (vec![file("a", &[Segment::Hole(1), Segment::Hole(1)])], "a hole follows"),
        (vec![file("a", &too_long)], "longer than a file can be"),
        (vec![entry("a", EntryKind::Symlink { target: vec![] })], "no target"),
        (vec![entry("a", EntryKind::Symlink { target: vec![b'a'; 4_096] })], "longer than 4,095"),
        (vec![entry("a", EntryKind::Symlink { target: vec![0] })], "zero byte"),
        (
            vec![entry("a", EntryKind::CharDevice(Device { major: 0, minor: 0 }))],
            "stands for a whiteout",
        ),
        (
            vec![entry("a", EntryKind::BlockDevice(Device { major: 4_096, minor: 0 }))],
            "out of range",
        ),
        (vec![with(directory("a"), |it| it.mode = 0o10_000)], "permission bits"),
        (vec![with(directory("a"), |it| it.modified.nanos = 1_000_000_000)], "nanoseconds"),
        (vec![with(directory("a"), |it| it.uid = u32::MAX)], "no valid id"),
        (vec![with(entry("a", EntryKind::Whiteout), |it| it.mode = 1)], "attributes of its own"),
        (
            vec![with(entry("a", EntryKind::Symlink { target: vec![1] }), |it| it.mode = 0)],
            "not 0777",
        ),
        (
            vec![with(directory("a"), |it| it.xattrs = vec![xattr("b", 0), xattr("a", 0)])],
            "not sorted",
        ),
        (vec![with(directory("a"), |it| it.xattrs = vec![xattr("a", 65_536)])], "64 KiB"),
        (vec![with(directory("a"), |it| it.xattrs = vec![xattr("", 0)])], "is empty"),
        (
            vec![with(directory("a"), |it| it.xattrs = vec![xattr("trusted.overlay.redirect", 1)])],
            "of overlay mounts",
        ),
    ];
    for (entries, why) in table {
        let error = encoded(&entries).unwrap_err();
        assert!(error.contains(why), "{error:?} instead of {why:?}");
        assert!(error.starts_with("the entry '"), "{error}");
    }
}

#[test]
fn only_the_canonical_encoding_of_a_tree_is_decoded() {
    let bytes = encoded(&[directory("a")]).unwrap();
    let table: &[(&[u8], &str)] = &[
        // The length in two bytes.
        (&[&[bytes[0] | 0x80, 0], &bytes[1..]].concat(), "canonical"),
        // A field that no version knows.
        (&[&[bytes[0] + 3], &bytes[1..], &[0x80, 1, 1]].concat(), "canonical"),
        (&bytes[..bytes.len() - 1], "truncated"),
        (&[0xff; 10], "not a message"),
        (&[0xff, 0xff, 0xff, 0xff, 0x0f], "more than the maximum of 64 MiB"),
        (&[2, 0xff, 0xff], "not a message"),
        (&[0], "no known kind"),
    ];
    for (bytes, why) in table {
        let error = tree::decode(bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
}

fn layer() -> Layer {
    Layer {
        digest: Digest::from_bytes([3; 32]),
        chunks: vec![ChunkRef { digest: Digest::from_bytes([4; 32]), bytes: 9 }],
        bytes_stored: Bytes(9),
        bytes_unpacked: Bytes(0),
        entries: 1,
    }
}

fn variant(architecture: &str) -> Variant {
    Variant { architecture: architecture.to_owned(), layers: vec![layer()], config: None }
}

#[test]
fn a_manifest_is_read_as_it_was_encoded() {
    let config = ImageConfig {
        entrypoint: vec!["/bin/sh".to_owned(), "-c".to_owned()],
        cmd: vec!["true".to_owned()],
        env: vec!["A=b".to_owned()],
        working_dir: "/srv".to_owned(),
        user: "1:2".to_owned(),
        stop_signal: "SIGINT".to_owned(),
        labels: [("a".to_owned(), "b".to_owned()), ("c".to_owned(), String::new())].into(),
        exposed_ports: vec!["53/udp".to_owned(), "80/tcp".to_owned()],
    };
    let amd64 = Variant { config: Some(config), ..variant("amd64") };
    let manifest = Manifest { variants: vec![amd64, variant("arm/v7")] };
    let packed = manifest.encode().unwrap();
    assert_eq!(package::manifest::decode(&packed.bytes).unwrap(), packed.manifest);
    assert_eq!(packed.digest.to_string(), GOLDEN);
    for index in 0..packed.bytes.len() {
        let mut changed = packed.bytes.clone();
        for bit in 0..8 {
            changed[index] = packed.bytes[index] ^ (1 << bit);
            if let Ok(other) = package::manifest::decode(&changed) {
                assert_eq!(other.encode().unwrap().bytes, changed);
            }
        }
    }
    let one = |name| packed.manifest.variant(name).map(|variant| &variant.architecture[..]);
    assert_eq!([one("amd64"), one("arm64")], [Some("amd64"), None]);
    let any = Manifest { variants: vec![variant("")] };
    assert_eq!(any.variant("arm64"), Some(&variant("")));
}

const GOLDEN: &str = "8d7f7fce97a4ce73cf6f011e9fdc39390da065f658592f77d479835aa54781fc";

#[test]
fn each_rule_of_a_manifest_is_checked() {
    let changed = |change: &dyn Fn(&mut Variant)| {
        let mut variant = variant("");
        change(&mut variant);
        vec![variant]
    };
    let ports = ImageConfig {
        exposed_ports: vec!["2".to_owned(), "1".to_owned()],
        ..ImageConfig::default()
    };
    let zero = ImageConfig { user: "\0".to_owned(), ..ImageConfig::default() };
    let table: Vec<(Vec<Variant>, &str)> = vec![
        (vec![], "no variants"),
        (vec![variant("b"), variant("a")], "not sorted"),
        (vec![variant("a"), variant("a")], "not sorted"),
        (vec![variant("a b")], "other characters"),
        (changed(&|it| it.layers = vec![layer(); 501]), "more than 500 layers"),
        (changed(&|it| it.layers[0].chunks[0].bytes = 0), "chunk of a tree"),
        (changed(&|it| it.layers[0].entries = 2_000_001), "more than 2,000,000 entries"),
        (changed(&|it| it.layers[0].entries = 0), "chunks and no entries"),
        (changed(&|it| it.config = Some(ports.clone())), "exposed ports"),
        (changed(&|it| it.config = Some(zero.clone())), "zero byte"),
    ];
    for (variants, why) in table {
        let error = Manifest { variants }.encode().unwrap_err().to_string();
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
}
