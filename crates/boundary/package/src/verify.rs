//! A whole package is checked: every chunk, every tree, and what the manifest says of them.

use std::collections::HashSet;
use std::io;

use model::Digest;
use thiserror::Error;

use crate::chunk::{ChunkRef, ChunkSource, checked, digest_of};
use crate::manifest::{Layer, Manifest, ManifestError};
use crate::tree::{EntryKind, Segment, TreeError, TreeReader};

/// The maximum size of the encoded tree of a layer, in bytes.
pub const TREE_BYTES_MAX: u64 = 1 << 30;

/// What a package has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The size of everything that is reachable from the manifest, each chunk once, the manifest included; in bytes.
    pub stored: u64,
    /// The size of all files, in bytes.
    pub unpacked: u64,
    /// The number of entries.
    pub entries: u64,
    /// Whether it is an image.
    pub is_image: bool,
    /// The architectures that it is for; empty for any.
    pub architectures: Vec<String>,
}

/// The first thing that is wrong with a package.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// A chunk is missing or has other bytes.
    #[error("{what}: {source}")]
    Chunk {
        /// What it is a part of.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A tree is invalid.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The manifest says something else of a layer than its tree.
    #[error("the manifest says that layer {layer} has {said} {what}, and it has {has}")]
    Layer {
        /// The digest of its tree.
        layer: Digest,
        /// What is counted.
        what: &'static str,
        /// What the manifest says.
        said: u64,
        /// What it has.
        has: u64,
    },
    /// A tree has another digest than the manifest says.
    #[error("the list of files of layer {layer} has the digest {has}")]
    Digest {
        /// The digest that the manifest says.
        layer: Digest,
        /// The digest that it has.
        has: Digest,
    },
}

/// Reads the encoded tree of a layer, and checks its digest.
///
/// # Errors
/// When a chunk is missing, or the tree is not the layer's.
pub fn read_tree(layer: &Layer, source: &mut dyn ChunkSource) -> Result<Vec<u8>, VerifyError> {
    let what = || format!("the list of files of layer {}", layer.digest);
    let bytes: u64 = layer.tree.iter().map(|chunk| u64::from(chunk.length)).sum();
    if bytes > TREE_BYTES_MAX {
        let source = io::Error::other(format!("it has more than {TREE_BYTES_MAX} bytes"));
        return Err(VerifyError::Chunk { what: what(), source });
    }
    let (mut tree, mut one) = (Vec::new(), Vec::new());
    for chunk in &layer.tree {
        let read = checked(source, chunk, &mut one);
        read.map_err(|source| VerifyError::Chunk { what: what(), source })?;
        tree.extend_from_slice(&one);
    }
    match digest_of(&tree) {
        has if has == layer.digest => Ok(tree),
        has => Err(VerifyError::Digest { layer: layer.digest, has }),
    }
}

/// Lists every chunk of a package but its manifest. Reads the trees; the chunks of files are not read.
///
/// # Errors
/// When a tree is missing or invalid, or the manifest says something else of it.
pub fn reachable(
    manifest: &Manifest,
    source: &mut dyn ChunkSource,
    each: &mut dyn FnMut(&ChunkRef),
) -> Result<(), VerifyError> {
    for layer in manifest.variants.iter().flat_map(|variant| &variant.layers) {
        layer.tree.iter().for_each(&mut *each);
        let tree = read_tree(layer, source)?;
        let (mut unpacked, mut entries, mut stored) = (0_u64, 0, 0);
        let mut known = HashSet::new();
        for entry in TreeReader::new(&*tree) {
            let entry = entry?;
            (unpacked, entries) = (unpacked.saturating_add(entry.bytes()), entries + 1);
            let EntryKind::File { segments } = &entry.kind else { continue };
            for segment in segments {
                let Segment::Chunk(chunk) = segment else { continue };
                each(chunk);
                stored += if known.insert(chunk.digest) { u64::from(chunk.length) } else { 0 };
            }
        }
        for (what, said, has) in [
            ("entries", layer.entries, entries),
            ("bytes", layer.unpacked, unpacked),
            ("bytes in chunks", layer.stored, stored),
        ] {
            if said != has {
                return Err(VerifyError::Layer { layer: layer.digest, what, said, has });
            }
        }
    }
    Ok(())
}

/// Reads and checks every byte of a package, given the digest of its manifest.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(manifest: Digest, source: &mut dyn ChunkSource) -> Result<Verified, VerifyError> {
    let mut bytes = Vec::new();
    let failed = |source| VerifyError::Chunk { what: "the manifest".to_owned(), source };
    let any = ChunkRef { digest: manifest, length: 0 };
    source.get(&any, &mut bytes).map_err(failed)?;
    if digest_of(&bytes) != manifest {
        return Err(failed(io::Error::other("it has another digest than the package")));
    }
    let read = Manifest::decode(&bytes)?;
    let (mut chunks, mut known) = (Vec::new(), HashSet::new());
    reachable(&read, source, &mut |chunk| {
        if known.insert(*chunk) {
            chunks.push(*chunk);
        }
    })?;
    let mut one = Vec::new();
    for chunk in &chunks {
        let read = checked(source, chunk, &mut one);
        read.map_err(|source| VerifyError::Chunk { what: "a file".to_owned(), source })?;
    }
    let layers = || read.variants.iter().flat_map(|variant| &variant.layers);
    let architectures = read.variants.iter().map(|variant| variant.architecture.clone());
    Ok(Verified {
        stored: bytes.len() as u64 + chunks.iter().map(|it| u64::from(it.length)).sum::<u64>(),
        unpacked: layers().map(|layer| layer.unpacked).sum(),
        entries: layers().map(|layer| layer.entries).sum(),
        is_image: read.is_image(),
        architectures: architectures.filter(|it| !it.is_empty()).collect(),
    })
}
