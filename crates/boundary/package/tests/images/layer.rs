//! Layers: archives in all formats, whiteouts, links, and what is rejected.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use package::archive::{ArchiveError, ImportLimits, LayerStack};
use package::{
    ChunkSource as _, EntryKind, Form, Layer, MemoryChunks, PackLimits, Segment, TreeEntry,
    TreeReader, pack, unpack,
};
use tar::{EntryType, Header};

use crate::listing::{Compare, list};

/// An archive from lines: `d PATH`, `f PATH CONTENTS`, `l PATH TARGET`, `h PATH TARGET`, `c PATH`,
/// `p PATH` and `x PATH TYPE`, where the letter may be followed by a mode.
pub(crate) fn archive(lines: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let (path, rest) = (words.next().unwrap(), words.next().unwrap_or_default());
        let mut header = Header::new_ustar();
        // The library rejects some paths that archives have.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..rest.len()].copy_from_slice(rest.as_bytes());
        let mode = u32::from_str_radix(&kind[1..], 8).ok();
        header.set_mode(mode.unwrap_or(if kind.starts_with('d') { 0o755 } else { 0o644 }));
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        let kind = match &kind[..1] {
            "d" => EntryType::Directory,
            "f" => EntryType::Regular,
            "l" => EntryType::Symlink,
            "h" => EntryType::Link,
            "c" => EntryType::Char,
            "p" => EntryType::Fifo,
            _ => EntryType::new(rest.as_bytes()[0]),
        };
        header.set_entry_type(kind);
        if kind == EntryType::Char {
            header.set_device_major(1).unwrap();
            header.set_device_minor(rest.parse().unwrap_or_default()).unwrap();
        }
        let contents = if kind == EntryType::Regular { rest.as_bytes() } else { b"" };
        header.set_size(contents.len() as u64);
        header.set_cksum();
        builder.append(&header, contents).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The entries of a layer, each of them checked.
fn entries(layer: &Layer, chunks: &mut MemoryChunks) -> Vec<TreeEntry> {
    let (mut bytes, mut chunk) = (Vec::new(), Vec::new());
    for part in &layer.tree {
        chunks.get(part, &mut chunk).unwrap();
        bytes.extend_from_slice(&chunk);
    }
    let entries: Vec<TreeEntry> = TreeReader::new(&bytes[..]).map(Result::unwrap).collect();
    assert_eq!(entries.len() as u64, layer.entries);
    entries
}

/// The layer of one archive.
fn one(
    archive: &[u8],
    chunks: &mut MemoryChunks,
    limits: &ImportLimits,
) -> Result<Layer, ArchiveError> {
    LayerStack::new(limits).push(&mut &archive[..], chunks)
}

/// The lines of a tree in the same form: `o` is an opaque directory and `w` a whiteout. Modes that
/// are not the usual ones follow the letter.
fn lines(layer: &Layer, chunks: &mut MemoryChunks) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut all = Vec::new();
    for TreeEntry { path, kind, attributes } in entries(layer, chunks) {
        let path = text(&path);
        let mode = match attributes.mode {
            0o755 if matches!(kind, EntryKind::Directory { .. }) => String::new(),
            0 | 0o644 | 0o777 => String::new(),
            mode => format!("{mode:o}"),
        };
        all.push(match kind {
            EntryKind::Directory { opaque: true } => format!("o{mode} {path}"),
            EntryKind::Directory { opaque: false } => format!("d{mode} {path}"),
            EntryKind::Symlink { target } => format!("l {path} {}", text(&target)),
            EntryKind::HardLink { target } => format!("h {path} {}", text(&target)),
            EntryKind::Whiteout => format!("w {path}"),
            EntryKind::Fifo => format!("p{mode} {path}"),
            EntryKind::CharDevice { .. } | EntryKind::BlockDevice { .. } => {
                format!("c{mode} {path}")
            }
            EntryKind::File { segments } => {
                let (mut content, mut bytes) = (String::new(), Vec::new());
                for segment in segments {
                    let Segment::Chunk(chunk) = segment else { continue };
                    chunks.get(&chunk, &mut bytes).unwrap();
                    content.push_str(&text(&bytes));
                }
                format!("f{mode} {path} {content}").trim_end().to_owned()
            }
        });
    }
    all
}

/// Reads layers one on top of the other, and returns the last one's lines or its error.
fn layers(archives: &[&str]) -> Result<Vec<String>, String> {
    let (mut chunks, mut last) = (MemoryChunks::new(), None);
    let mut stack = LayerStack::new(&ImportLimits::default());
    for lines in archives {
        let layer = stack.push(&mut &archive(lines)[..], &mut chunks);
        last = Some(layer.map_err(|error| error.to_string())?);
    }
    Ok(lines(&last.unwrap(), &mut chunks))
}

#[test]
fn members_become_entries() {
    let table: &[(&[&str], &[&str])] = &[
        (&[""], &[]),
        (&["d ./\nd ./a\nf /a/b x\nd a/c/"], &["d a", "f a/b x", "d a/c"]),
        // Directories that are no members.
        (&["f a/b/c x"], &["d a", "d a/b", "f a/b/c x"]),
        (&["d1777 a\nd700 a/b", "f a/b/c x"], &["d1777 a", "d700 a/b", "f a/b/c x"]),
        (&["f a x", "f a/b x"], &["d a", "f a/b x"]),
        // Later members replace earlier ones.
        (&["f a x\nf a y"], &["f a y"]),
        (&["d a\nf a/b x\nd700 a"], &["d700 a", "f a/b x"]),
        (&["d a\nf a/b x\nf a.b x\nf a y"], &["f a y", "f a.b x"]),
        (&["f a x\nd a\nf a/b y"], &["o a", "f a/b y"]),
        (&["d a\nf a/b x\nl a b\nd a"], &["o a"]),
        // Hard links, of which the first name has the file.
        (&["f b x\nh a b\nh c a"], &["f a x", "h b a", "h c a"]),
        (&["f b x\nh a b\nf b y"], &["f a x", "f b y"]),
        (&["f b x\nh a b\nh b b"], &["f a x", "h b a"]),
        (&["l b x\nh a b\np c\nh d c"], &["l a x", "l b x", "p c", "p d"]),
        (&["d d\nf600 d/b x", "h a d/b"], &["f600 a x", "d d", "h d/b a"]),
        (&["d d\nf d/b x\nh d/a d/b", "h e d/b"], &["d d", "f d/b x", "h e d/b"]),
        (&["l s x", "h t s"], &["l s x", "l t x"]),
        // Symbolic links stay text, and are followed above a member, within the package.
        (&["l a /etc/passwd\nl b ../../.."], &["l a /etc/passwd", "l b ../../.."]),
        (&["d u\nl lib u\nf lib/a x"], &["l lib u", "d u", "f u/a x"]),
        (&["d u\nl lib u", "f lib/a x"], &["d u", "f u/a x"]),
        (&["d700 u\nl lib /../../u", "f lib/a x\nh b lib/a"], &["f b x", "d700 u", "h u/a b"]),
        (&["d u\nl lib u", "f lib/.wh.x\nf lib/a x"], &["d u", "f u/a x", "w u/x"]),
        (&["d u\nl lib u", "d lib\nf lib/a x"], &["d lib", "f lib/a x"]),
        (&["d u\nl lib u", "f .wh.lib\nf lib/a x"], &["o lib", "f lib/a x"]),
        (&["l a b\nl b nowhere/c", "f a/x y"], &["d nowhere", "d nowhere/c", "f nowhere/c/x y"]),
        // Whiteouts apply to lower layers alone, wherever they are.
        (&["d a\nf a/.wh.b\nf .wh.c"], &["d a", "w a/b", "w c"]),
        (&["f x y", "f a y\nh .wh.x a\nl .wh.z a"], &["f a y", "w x", "w z"]),
        (&["f a x\nf .wh.a"], &["f a x"]),
        (&["f .wh.a\nf a/b x"], &["o a", "f a/b x"]),
        (&["d a\nf a/b x\nf .wh.a"], &["o a", "f a/b x"]),
        (&["d a\nf a/b x\nf a/.wh..wh..opq\nf a/c y"], &["o a", "f a/b x", "f a/c y"]),
        (&["d700 a", "f a/.wh..wh..opq"], &["o700 a"]),
        (&["d a\nl a/l /", "f a/.wh..wh..opq\nf a/l/b x"], &["o a", "d a/l", "f a/l/b x"]),
        (&["d a\nf b x", "f .wh..wh..opq\nf a/c x"], &["o a", "f a/c x", "w b"]),
        // What a directory of the layer hides comes not back through a link below it.
        (&["d a\nl a/l /b\nd b", "f .wh.a\nf a/l/x y"], &["o a", "d a/l", "f a/l/x y"]),
        (&["d a\nd a/b\nl a/b/l ../c\nd a/c", "f a/b/l/x y"], &["d a", "d a/c", "f a/c/x y"]),
        (&["f .wh..wh.plnk x\nd .wh..wh.aufs\nf .wh..wh.orph/a x"], &[]),
        (&["c .wh.a 3\nc b 3"], &["w a", "c b"]),
    ];
    for (archives, expected) in table {
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(layers(archives).as_ref(), Ok(&expected), "{archives:?}");
    }
}

#[test]
fn what_cannot_be_in_a_package_is_an_error() {
    let table: &[(&[&str], &str)] = &[
        (&["f ../a x"], "'../a' is not a path in a package: it has a component '..'"),
        (&["f a/../../b x"], "'a/../../b' is not a path in a package: it has a component '..'"),
        (&["h a ../../etc/passwd"], "'../../etc/passwd' is not a path in a package"),
        (&["h a b"], "'a' cannot be in a package: it is a hard link to 'b', which is"),
        (&["d b\nh a b"], "it is a hard link to 'b', a directory"),
        (&["f b x", "f .wh.b\nh a b"], "it is a hard link to 'b', which is not there"),
        (&["f a x\nf a/b x"], "'a/b' cannot be in a package: 'a' above it is not a dir"),
        (&["l a b\nl b a\nf a/c x"], "more than 40 symbolic links are above it, or a loop"),
        (&["x a Z"], "its type is 'Z', and not a file, directory, link, device or pipe"),
        (&["f .wh. x"], "it removes something that has no path"),
        (&["h a /"], "it is a hard link to the root"),
    ];
    for (archives, why) in table {
        let error = layers(archives).unwrap_err();
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
}

/// An extended header with one record, of a type.
fn extended(kind: u8, key: &str, value: &str) -> Vec<u8> {
    // The length counts its own digits: 5 of them, with zeros in front.
    let length = 5 + 1 + key.len() + 1 + value.len() + 1;
    let record = format!("{length:05} {key}={value}\n");
    let mut header = Header::new_ustar();
    header.set_path("header").unwrap();
    header.set_entry_type(EntryType::new(kind));
    header.set_size(record.len() as u64);
    header.set_cksum();
    let mut bytes = [header.as_bytes(), record.as_bytes()].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[test]
fn extended_headers_hold_for_one_member_or_for_all() {
    let members = archive("f a x\nf b y");
    let (first, second) = members.split_at(1_024);
    let id = |value| extended(b'x', "uid", value);
    type Uids<'a> = Result<[u32; 2], &'a str>;
    let table: [(Vec<u8>, Uids<'_>); 4] = [
        ([&id("7")[..], first, second].concat(), Ok([7, 0])),
        ([&extended(b'g', "uid", "7")[..], first, &id("8"), second].concat(), Ok([7, 8])),
        ([&id("4294967296")[..], first, second].concat(), Err("its user is out of range")),
        (
            [&extended(b'g', "comment", &"c".repeat(20_000))[..], first, second].concat(),
            Err("global extended headers are longer than 16 KiB"),
        ),
    ];
    for (bytes, expected) in table {
        let mut chunks = MemoryChunks::new();
        let layer = one(&bytes, &mut chunks, &ImportLimits::default());
        match (layer.map_err(|error| error.to_string()), expected) {
            (Ok(layer), expected) => {
                let entries = entries(&layer, &mut chunks);
                let uids: Vec<u32> = entries.iter().map(|entry| entry.attributes.uid).collect();
                assert_eq!(Ok(&uids[..]), expected.as_ref().map(|uids| &uids[..]));
            }
            (Err(error), expected) => {
                assert!(expected.is_err_and(|expected| error.contains(expected)), "{error}");
            }
        }
    }
}

#[test]
fn archives_that_are_damaged_or_too_large_are_an_error() {
    let whole = archive("d a\nf a/b contents\nf c x");
    let mut changed = whole.clone();
    changed[512 + 3] ^= 1;
    let limits = ImportLimits::default();
    let table: &[(&[u8], ImportLimits, &str)] = &[
        (&whole[..100], limits, "at byte 0: it ends within a header: it is truncated"),
        (&whole[..1_030], limits, "the content of 'a/b' cannot be read"),
        (&whole[..1_540], limits, "at byte 1536: it ends within a header: it is truncated"),
        (&changed, limits, "at byte 1024: the checksum of a header is wrong"),
        (&whole, ImportLimits { entries: 2, ..limits }, "more than 2 files and directories"),
        (&whole, ImportLimits { bytes: 8, ..limits }, "with 'c' and its 1 bytes (holes count)"),
    ];
    for (bytes, limits, why) in table {
        let error = one(bytes, &mut MemoryChunks::new(), limits).unwrap_err();
        assert!(error.to_string().contains(why), "{error} instead of {why:?}");
    }
}

/// As `umoci insert` writes them: behind the last member nothing, neither what pads it nor two blocks of zeros.
#[test]
fn an_archive_may_end_with_its_last_byte() {
    let whole = archive("d a\nf a/b contents");
    let ends = 2 * 512 + "contents".len();
    let (mut all, mut cut) = (MemoryChunks::new(), MemoryChunks::new());
    let limits = ImportLimits::default();
    let expected = one(&whole, &mut all, &limits).expect("an archive");
    assert_eq!(one(&whole[..ends], &mut cut, &limits).expect("an archive"), expected);
}

/// Unpacks what GNU tar makes of a directory, in one of its formats.
fn through_gnu_tar(directory: &std::path::Path, options: &[&str]) -> (tempfile::TempDir, usize) {
    let output = Command::new("tar")
        .args(["--create", "--numeric-owner", "--directory"])
        .arg(directory)
        .args(options)
        .arg(".")
        .output()
        .expect("tar, which every Debian system has");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut chunks = MemoryChunks::new();
    let layer = one(&output.stdout, &mut chunks, &ImportLimits::default()).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let opened = File::open(copy.path()).unwrap();
    unpack(&layer, &mut chunks, opened.as_fd(), Form::Plain).unwrap();
    (copy, output.stdout.len())
}

#[test]
fn all_formats_of_gnu_tar_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let long = ["long-name-of-a-directory"; 9].join("/");
    fs::create_dir_all(at(&long)).unwrap();
    fs::write(at(&long).join("file"), "deep").unwrap();
    fs::hard_link(at(&long).join("file"), at("link")).unwrap();
    std::os::unix::fs::symlink(&long, at("symlink")).unwrap();
    fs::write(at("dense"), vec![3; 200_000]).unwrap();
    std::os::unix::fs::chown(at("dense"), Some(123_456), Some(3_000_000_000)).unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    // More parts than a header has room for.
    for part in 0..60_u64 {
        sparse.write_all_at(format!("part {part}").as_bytes(), part << 18).unwrap();
    }
    sparse.set_len(61 << 18).unwrap();
    File::create(at("hole")).unwrap().set_len(5 << 20).unwrap();
    File::create(at("tail")).unwrap().write_all(b"x").unwrap();
    let attributes = Compare { attributes: true };
    let whole_seconds = |lines: std::collections::BTreeMap<_, String>| -> Vec<(_, String)> {
        let time = |line: String| line.split('.').next().unwrap().to_owned();
        lines.into_iter().map(|(path, line)| (path, time(line))).collect()
    };
    let expected = list(directory.path(), attributes);
    for (options, nanos) in [
        (&["--format=gnu"][..], false),
        (&["--format=gnu", "--sparse"], false),
        (&["--format=posix"], true),
        (&["--format=posix", "--sparse", "--sparse-version=0.0"], true),
        (&["--format=posix", "--sparse", "--sparse-version=0.1"], true),
        (&["--format=posix", "--sparse", "--sparse-version=1.0"], true),
    ] {
        let (copy, bytes) = through_gnu_tar(directory.path(), options);
        let found = list(copy.path(), attributes);
        if nanos {
            assert_eq!(found, expected, "{options:?}");
        } else {
            assert_eq!(whole_seconds(found), whole_seconds(expected.clone()), "{options:?}");
        }
        assert_eq!(bytes < 5 << 20, options.contains(&"--sparse"), "{options:?}");
    }
}

#[test]
fn extended_attributes_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tool");
    fs::write(&path, "x").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    // As `setcap cap_net_bind_service=ep`, whose value has zeros; and one with a newline.
    let capability = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    rustix::fs::setxattr(&path, "security.capability", capability, flags).unwrap();
    rustix::fs::setxattr(&path, "user.lines", b"a\n12 b=c\n\0", flags).unwrap();
    rustix::fs::setxattr(&path, "user.overlay.redirect", b"x", flags).unwrap();
    let options = ["--format=posix", "--xattrs", "--xattrs-include=*"];
    let (copy, _) = through_gnu_tar(directory.path(), &options);
    rustix::fs::removexattr(&path, "user.overlay.redirect").unwrap();
    let attributes = Compare { attributes: true };
    assert_eq!(list(copy.path(), attributes), list(directory.path(), attributes));
}

#[test]
fn a_file_of_ten_terabytes_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    File::create(directory.path().join("huge")).unwrap().set_len(10 << 40).unwrap();
    let output = Command::new("tar")
        .args(["--create", "--sparse", "--format=posix", "--directory"])
        .arg(directory.path())
        .arg("huge")
        .output()
        .unwrap();
    let limits = ImportLimits::default();
    let error = one(&output.stdout, &mut MemoryChunks::new(), &limits).unwrap_err();
    assert!(error.to_string().contains("'huge' and its 10995116277760 bytes"), "{error}");
    // Without a limit it is a hole, which takes no time.
    let limits = ImportLimits { bytes: u64::MAX, ..limits };
    let mut chunks = MemoryChunks::new();
    let layer = one(&output.stdout, &mut chunks, &limits).unwrap();
    let EntryKind::File { segments } = &entries(&layer, &mut chunks)[0].kind else { panic!() };
    assert_eq!(segments[..], [Segment::Hole { length: 10 << 40 }]);
}

#[test]
fn a_file_has_the_chunks_that_it_has_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut content = vec![0; 3 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut content[..1 << 20]);
    content.extend_from_slice(b"end");
    fs::write(directory.path().join("file"), &content).unwrap();
    let mut chunks = MemoryChunks::new();
    let packed = pack(directory.path(), &mut chunks, &PackLimits::default()).unwrap();
    let expected = entries(&packed.manifest.variants[0].layers[0], &mut chunks);
    for options in [&["--format=gnu"][..], &["--format=posix", "--sparse"]] {
        let output = Command::new("tar")
            .args(["--create", "--directory"])
            .arg(directory.path())
            .args(options)
            .arg("file")
            .output()
            .unwrap();
        let layer = one(&output.stdout, &mut chunks, &ImportLimits::default()).unwrap();
        assert_eq!(entries(&layer, &mut chunks)[0].kind, expected[0].kind, "{options:?}");
    }
}

#[test]
fn metadata_is_bounded() {
    let limits = ImportLimits { metadata: 1000, ..ImportLimits::default() };
    let long = "n".repeat(90);
    let files: String = (0..12).map(|number| format!("f {number}{long} x\n")).collect();
    // Directories that no member describes.
    let deep = ["d"; 45].join("/");
    for lines in [files, format!("f {deep}/f x")] {
        let error = one(&archive(&lines), &mut MemoryChunks::new(), &limits).unwrap_err();
        assert!(error.to_string().contains("have more than 1000 bytes"), "{error}");
    }
    let extended = extended(b'x', "SCHILY.xattr.user.a", &"x".repeat(1000));
    let bytes = [extended, archive("f a x")].concat();
    let error = one(&bytes, &mut MemoryChunks::new(), &limits).unwrap_err();
    assert!(error.to_string().contains("have more than 1000 bytes"), "{error}");
}

#[test]
fn the_extended_headers_of_a_member_are_bounded_together() {
    let value = "x".repeat(90_000);
    for (number, expected) in [(80, None), (100, Some("longer than 8 MiB"))] {
        let headers = (0..number).map(|key| extended(b'x', &format!("comment.{key}"), &value));
        let bytes = [headers.collect::<Vec<_>>().concat(), archive("f a x")].concat();
        let read = one(&bytes, &mut MemoryChunks::new(), &ImportLimits::default());
        match (read, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{error}"),
            (read, _) => panic!("{number} headers: {:?}", read.map(drop)),
        }
    }
}
