//! Packages to push: a manifest, a tree, and chunks.

use std::collections::{BTreeMap, BTreeSet};

use model::Digest;
use package::chunk::{ChunkRef, digest_of};
use package::manifest::{ImageConfig, Layer, Manifest, Variant};
use package::tree::{EntryAttributes, EntryKind, Segment, TreeEntry, TreeWriter};

/// The pieces of a package by their digests.
pub struct Package {
    pub manifest: Digest,
    pub layer: Layer,
    pieces: BTreeMap<Digest, Vec<u8>>,
}

impl Package {
    /// A package of these chunks, each a file.
    pub fn new(chunks: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::made(chunks, None, None)
    }

    /// An image, with as many labels of 100,000 bytes as make its manifest long.
    pub fn image(chunks: impl IntoIterator<Item = Vec<u8>>, labels: u32) -> Self {
        let label = |number: u32| (format!("label{number}"), "x".repeat(100_000));
        let labels = (0..labels).map(label).collect();
        Self::made(chunks, Some(ImageConfig { labels, ..ImageConfig::default() }), None)
    }

    /// A package with a further layer, whose pieces it does not have.
    pub fn over(chunks: impl IntoIterator<Item = Vec<u8>>, layer: Layer) -> Self {
        Self::made(chunks, None, Some(layer))
    }

    fn made(
        chunks: impl IntoIterator<Item = Vec<u8>>,
        config: Option<ImageConfig>,
        further: Option<Layer>,
    ) -> Self {
        let mut pieces = BTreeMap::new();
        let mut add = |bytes: Vec<u8>| {
            let chunk =
                ChunkRef { digest: digest_of(&bytes), length: bytes.len().try_into().unwrap() };
            pieces.insert(chunk.digest, bytes);
            chunk
        };
        let mut tree = TreeWriter::new(Vec::new());
        let (mut unpacked, mut stored, mut entries) = (0, BTreeSet::new(), 0);
        for (chunk, number) in chunks.into_iter().zip(0..) {
            let chunk = add(chunk);
            let segments = vec![Segment::Chunk(chunk)];
            let attributes = EntryAttributes { mode: 0o644, ..EntryAttributes::default() };
            let (path, kind) = (format!("{number:08}").into_bytes(), EntryKind::File { segments });
            tree.write(&TreeEntry { path, kind, attributes }).unwrap();
            unpacked += u64::from(chunk.length);
            stored.insert(chunk);
            entries += 1;
        }
        let encoded = tree.into_inner();
        let tree: Vec<ChunkRef> =
            encoded.chunks(200_000).map(|piece| add(piece.to_vec())).collect();
        stored.extend(&tree);
        let stored = stored.iter().map(|chunk| u64::from(chunk.length)).sum();
        let layer = Layer { tree, digest: digest_of(&encoded), stored, unpacked, entries };
        let layers = [Some(layer.clone()), further].into_iter().flatten().collect();
        let variant = Variant { layers, config, architecture: "amd64".to_owned() };
        let manifest = add(Manifest { variants: vec![variant] }.encode().unwrap()).digest;
        Self { manifest, layer, pieces }
    }

    /// The bytes of its manifest and its tree.
    pub fn structure(&self) -> Vec<Vec<u8>> {
        let tree = self.layer.tree.iter().map(|chunk| chunk.digest);
        [self.manifest].into_iter().chain(tree).map(|digest| self.bytes(&digest).to_vec()).collect()
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

/// A chunk that differs for each number, of a length in bytes.
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
