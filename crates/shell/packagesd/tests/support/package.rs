//! Packages to push: a manifest, a tree, and chunks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Digest;

/// The pieces of a package by their digests.
pub struct Package {
    pub manifest: Digest,
    pieces: BTreeMap<Digest, Vec<u8>>,
}

impl Package {
    /// A package of these chunks.
    pub fn new(chunks: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut pieces = BTreeMap::new();
        let mut add = |bytes: Vec<u8>| {
            let digest = Digest::from_bytes(*blake3::hash(&bytes).as_bytes());
            pieces.insert(digest, bytes);
            digest
        };
        let mut tree = String::new();
        for chunk in chunks {
            let length = chunk.len();
            let _ = writeln!(tree, "chunk {} {length}", add(chunk));
        }
        let tree = add(tree.into_bytes());
        let manifest = add(format!("manifest\ntree {tree}\n").into_bytes());
        Self { manifest, pieces }
    }

    /// The bytes of its manifest and its tree.
    pub fn structure(&self) -> Vec<Vec<u8>> {
        let manifest = self.bytes(&self.manifest).to_vec();
        let tree = String::from_utf8(manifest.clone()).expect("text");
        let tree = tree.split_whitespace().last().expect("a tree").parse().expect("a digest");
        vec![manifest, self.bytes(&tree).to_vec()]
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
