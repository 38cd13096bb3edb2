//! Verifies a whole package: that all its chunks are there, and are what the manifest says.

use std::collections::HashSet;
use std::io;

use model::Bytes;

use crate::chunk::{ChunkRef, ChunkSource, fetch};
use crate::layer::Lower;
use crate::manifest::{Layer, Manifest};
use crate::tree::{EntryKind, EntryPath, ReadError, Tree, TreeEntry, TreeReader, chunks_of};

/// What was verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of entries of all layers.
    pub entries: u64,
    /// The number of distinct chunks.
    pub chunks: u64,
    /// The sum of their lengths.
    pub bytes: Bytes,
}

/// The first thing that is wrong with a package.
#[derive(Debug, thiserror::Error)]
#[error("layer {layer} of the package{}: {source}", of(architecture))]
pub struct VerifyError {
    /// The architecture of the variant; empty if it is for all.
    pub architecture: String,
    /// The number of the layer, the lowest being 0.
    pub layer: usize,
    /// What is wrong with it.
    pub source: LayerFault,
}

/// What is wrong with a layer.
#[derive(Debug, thiserror::Error)]
pub enum LayerFault {
    /// The tree cannot be read, or is not what the manifest says.
    #[error(transparent)]
    Tree(#[from] ReadError),
    /// A chunk of a file is missing or damaged.
    #[error("cannot get the contents of '{path}': {source}")]
    Contents {
        /// The path in the package.
        path: EntryPath,
        /// The error of the source.
        source: io::Error,
    },
    /// A hard link has no file to link to.
    #[error("'{path}' is a hard link to '{target}', which is no file of this or a lower layer")]
    Link {
        /// The path of the link.
        path: EntryPath,
        /// The path of the file.
        target: EntryPath,
    },
    /// The manifest says another number of bytes.
    #[error("the manifest says that it has {expected} {what}, and it has {found}")]
    Bytes {
        /// `stored` or `unpacked`.
        what: &'static str,
        /// That of the manifest.
        expected: Bytes,
        /// That of the tree.
        found: Bytes,
    },
}

fn of(architecture: &str) -> String {
    match architecture {
        "" => String::new(),
        name => format!(" for {name}"),
    }
}

/// Reads every tree and every chunk of a package.
///
/// # Errors
/// The first thing that is wrong, in the order of the variants, layers and entries.
pub fn verify<S: ChunkSource + ?Sized>(
    manifest: &Manifest,
    source: &mut S,
) -> Result<Verified, VerifyError> {
    let mut verifying = Verifying { source, seen: HashSet::new(), chunk: Vec::new() };
    let mut verified = Verified::default();
    for variant in &manifest.variants {
        let mut lower = Lower::default();
        for (number, layer) in variant.layers.iter().enumerate() {
            let tree = verifying.layer(layer, &lower).map_err(|source| VerifyError {
                architecture: variant.architecture.clone(),
                layer: number,
                source,
            })?;
            verified.entries += layer.entries;
            lower.push(tree);
        }
    }
    verified.chunks = verifying.seen.len() as u64;
    verified.bytes = sum(&verifying.seen);
    Ok(verified)
}

fn sum(chunks: &HashSet<ChunkRef>) -> Bytes {
    Bytes(chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum())
}

struct Verifying<'a, S: ?Sized> {
    source: &'a mut S,
    /// The chunks that were verified.
    seen: HashSet<ChunkRef>,
    chunk: Vec<u8>,
}

impl<S: ChunkSource + ?Sized> Verifying<'_, S> {
    fn layer(&mut self, layer: &Layer, lower: &Lower) -> Result<Tree, LayerFault> {
        let mut reader = TreeReader::new(layer);
        let mut stored: HashSet<ChunkRef> = layer.chunks.iter().copied().collect();
        let (mut tree, mut unpacked) = (Tree::default(), 0_u64);
        while let Some(entry) = reader.next(self.source)? {
            self.contents(&entry)?;
            stored.extend(chunks_of(entry.segments()));
            unpacked = unpacked.saturating_add(entry.bytes_unpacked());
            if let EntryKind::HardLink { target } = &entry.kind {
                // What is in this tree was checked with it.
                let here = tree.get(target.as_bytes()).is_some();
                let below = lower.get(target).is_some_and(is_file);
                if !here && !below {
                    let (path, target) = (entry.path.clone(), target.clone());
                    return Err(LayerFault::Link { path, target });
                }
            }
            tree.entries.push(entry);
        }
        self.seen.extend(&layer.chunks);
        for (what, expected, found) in [
            ("stored", layer.bytes_stored, sum(&stored)),
            ("unpacked", layer.bytes_unpacked, Bytes(unpacked)),
        ] {
            if expected != found {
                return Err(LayerFault::Bytes { what, expected, found });
            }
        }
        Ok(tree)
    }

    fn contents(&mut self, entry: &TreeEntry) -> Result<(), LayerFault> {
        for chunk in chunks_of(entry.segments()) {
            if !self.seen.contains(&chunk) {
                fetch(self.source, &chunk, &mut self.chunk)
                    .map_err(|source| LayerFault::Contents { path: entry.path.clone(), source })?;
                self.seen.insert(chunk);
            }
        }
        Ok(())
    }
}

fn is_file(entry: &TreeEntry) -> bool {
    matches!(entry.kind, EntryKind::File { .. })
}
