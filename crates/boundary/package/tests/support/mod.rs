//! Layers by hand, for tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;

use package::chunk::Chunker;
use package::{
    ChunkRef, ChunkSink as _, EntryAttributes, EntryKind, Form, Layer, MemoryChunks, Segment,
    TreeEntry, TreeWriter, UnpackError, Unpacked, digest_of, unpack,
};

/// An entry with the mode 0755, and no other attributes.
pub fn entry(path: &str, kind: EntryKind) -> TreeEntry {
    let mode = match kind {
        EntryKind::HardLink { .. } | EntryKind::Whiteout => 0,
        _ => 0o755,
    };
    TreeEntry {
        path: path.into(),
        kind,
        attributes: EntryAttributes { mode, ..EntryAttributes::default() },
    }
}

pub fn directory(path: &str) -> TreeEntry {
    entry(path, EntryKind::Directory { opaque: false })
}

pub fn symlink(path: &str, target: &str) -> TreeEntry {
    entry(path, EntryKind::Symlink { target: target.into() })
}

pub fn whiteout(path: &str) -> TreeEntry {
    entry(path, EntryKind::Whiteout)
}

/// A file of one chunk.
pub fn file(path: &str, content: &str, chunks: &mut MemoryChunks) -> TreeEntry {
    let digest = digest_of(content.as_bytes());
    chunks.put(digest, content.as_bytes()).unwrap();
    let chunk = ChunkRef { digest, length: u32::try_from(content.len()).unwrap() };
    entry(path, EntryKind::File { segments: vec![Segment::Chunk(chunk)] })
}

/// The layer of entries that may be a tree or not.
pub fn layer(entries: &[TreeEntry], chunks: &mut MemoryChunks) -> Layer {
    let encode = |entry: &TreeEntry| {
        let mut writer = TreeWriter::new(Vec::new());
        writer.write(entry).map(|()| writer.into_inner())
    };
    let mut whole = TreeWriter::new(Vec::new());
    let bytes: Vec<u8> = match entries.iter().try_for_each(|entry| whole.write(entry)) {
        Ok(()) => whole.into_inner(),
        // Each is fine for itself: one that is not could not be encoded.
        Err(_) => entries.iter().flat_map(|entry| encode(entry).unwrap()).collect(),
    };
    layer_of(&bytes, entries, chunks)
}

/// The layer of a tree with these bytes.
pub fn layer_of(bytes: &[u8], entries: &[TreeEntry], chunks: &mut MemoryChunks) -> Layer {
    let mut chunker = Chunker::new();
    chunker.push(bytes, chunks).unwrap();
    let tree = chunker.finish(chunks).unwrap();
    let content = entries.iter().flat_map(TreeEntry::chunks);
    let all: HashSet<ChunkRef> = tree.iter().chain(content).copied().collect();
    Layer {
        tree,
        digest: digest_of(bytes),
        stored: all.iter().map(|chunk| u64::from(chunk.length)).sum(),
        unpacked: entries.iter().map(TreeEntry::content_bytes).sum(),
        entries: entries.len() as u64,
    }
}

pub fn unpack_into(
    layer: &Layer,
    chunks: &mut MemoryChunks,
    into: &Path,
    form: Form,
) -> Result<Unpacked, UnpackError> {
    unpack(layer, chunks, File::open(into).unwrap().as_fd(), form)
}
