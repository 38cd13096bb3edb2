//! Packages to push: a manifest, a tree, and chunks.

use std::collections::BTreeMap;

use model::Digest;
use package::chunk::{CHUNK_MAX, ChunkRef, digest_of};
use package::manifest::{Layer, Manifest, Variant};
use package::tree::{Attributes, Entry, EntryKind, Segment, TreeWriter};

/// The pieces of a package by their digests.
pub struct Package {
    pub manifest: Digest,
    tree: Digest,
    pieces: BTreeMap<Digest, Vec<u8>>,
}

impl Package {
    /// A package with a file of each of these contents, cut into chunks of the maximum length.
    pub fn new(files: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::of_layers([files.into_iter().collect()])
    }

    /// The same with several layers.
    pub fn of_layers(layers: impl IntoIterator<Item = Vec<Vec<u8>>>) -> Self {
        let mut pieces = BTreeMap::new();
        let mut tree = Digest::from_bytes([0; Digest::BYTES]);
        let mut layers_of = Vec::new();
        for files in layers {
            let mut writer = TreeWriter::new(Vec::new());
            let mut unpacked = 0;
            for (number, file) in files.into_iter().enumerate() {
                unpacked += file.len() as u64;
                let segments = file.chunks(CHUNK_MAX).map(|bytes| put(&mut pieces, bytes));
                let segments = segments.map(Segment::Chunk).collect();
                let path = format!("{number:06}").into_bytes();
                let (kind, attributes) = (EntryKind::File { segments }, Attributes::default());
                writer.add(&Entry { path, kind, attributes }).expect("it is in order");
            }
            let entries = writer.entries();
            let encoded = writer.finish();
            tree = digest_of(&encoded);
            let chunks = encoded.chunks(CHUNK_MAX).map(|bytes| put(&mut pieces, bytes)).collect();
            layers_of.push(Layer { tree: chunks, digest: tree, unpacked, entries });
        }
        let variant = Variant { layers: layers_of, ..Variant::default() };
        let manifest = Manifest { variants: vec![variant] }.encode();
        let digest = digest_of(&manifest);
        pieces.insert(digest, manifest);
        Self { manifest: digest, tree, pieces }
    }

    /// The bytes of its manifest and of its last tree, which is one chunk.
    pub fn structure(&self) -> Vec<Vec<u8>> {
        vec![self.bytes(&self.manifest).to_vec(), self.bytes(&self.tree).to_vec()]
    }

    pub fn digests(&self) -> Vec<Digest> {
        self.pieces.keys().copied().collect()
    }

    pub fn bytes(&self, digest: &Digest) -> &[u8] {
        &self.pieces[digest]
    }

    pub fn size(&self) -> u64 {
        self.pieces.values().map(|piece| piece.len() as u64).sum()
    }
}

fn put(pieces: &mut BTreeMap<Digest, Vec<u8>>, bytes: &[u8]) -> ChunkRef {
    let digest = digest_of(bytes);
    pieces.insert(digest, bytes.to_vec());
    ChunkRef { digest, length: bytes.len() as u32 }
}

/// Bytes that differ for each number, of a length.
pub fn chunk(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hash = blake3::Hasher::new();
    hash.update(&number.to_le_bytes());
    hash.finalize_xof().fill(&mut bytes);
    bytes
}

/// A package of chunks of these numbers and a length in bytes.
pub fn package(numbers: std::ops::Range<u64>, length: usize) -> Package {
    Package::new(numbers.map(|number| chunk(number, length)))
}
