//! Extended attributes of what is unpacked.

use std::collections::BTreeMap;
use std::fs::File;

use super::*;
use crate::ChunkRef;
use crate::chunk::{ChunkSink as _, MemoryChunks, digest_of};
use crate::tree::TreeWriter;

/// Unpacks one directory, with these extended attributes.
fn unpacked(into: &File, opaque: bool, xattrs: &[&str], form: Form) {
    let xattrs: BTreeMap<_, _> =
        xattrs.iter().map(|name| (name.as_bytes().to_vec(), b"x".to_vec())).collect();
    let attributes = EntryAttributes { mode: 0o755, xattrs, ..EntryAttributes::default() };
    let kind = EntryKind::Directory { opaque };
    let mut tree = TreeWriter::new(Vec::new());
    tree.write(&TreeEntry { path: b"d".to_vec(), kind, attributes }).unwrap();
    let (bytes, mut chunks) = (tree.into_inner(), MemoryChunks::new());
    let digest = digest_of(&bytes);
    chunks.put(digest, &bytes).unwrap();
    let length = u32::try_from(bytes.len()).unwrap();
    let tree = vec![ChunkRef { digest, length }];
    let layer = Layer { tree, digest, stored: length.into(), unpacked: 0, entries: 1 };
    unpack(&layer, &mut chunks, into.as_fd(), form).unwrap();
}

#[test]
fn a_directory_has_the_extended_attributes_of_the_highest_layer() {
    let dir = tempfile::tempdir().unwrap();
    let into = File::open(dir.path()).unwrap();
    let names = || {
        let found = sys::list_xattrs(File::open(dir.path().join("d")).unwrap().as_fd()).unwrap();
        let ours = found.into_iter().filter(|name| !name.starts_with(b"security."));
        let mut names: Vec<_> = ours.map(|name| String::from_utf8(name).unwrap()).collect();
        names.sort();
        names
    };
    unpacked(&into, false, &["user.a", "user.b"], Form::Plain);
    assert_eq!(names(), ["user.a", "user.b"]);
    unpacked(&into, true, &["user.b", "user.c"], Form::Plain);
    assert_eq!(names(), ["user.b", "user.c"]);
    unpacked(&into, true, &[], Form::Overlay);
    let expected = if needs_userxattr() { "user.overlay.opaque" } else { "trusted.overlay.opaque" };
    assert_eq!(names(), [expected]);
    unpacked(&into, false, &[], Form::Overlay);
    assert!(names().is_empty());
}
