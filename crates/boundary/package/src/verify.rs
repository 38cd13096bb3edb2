//! Whether all of a package is there and right, and what belongs to it.

use std::collections::HashSet;
use std::path::PathBuf;

use model::Digest;
use thiserror::Error;

use crate::beneath;
use crate::chunk::{ChunkError, ChunkRef, ChunkSource};
use crate::layer::{LayerError, LayerReader, Source};
use crate::manifest::{Layer, Manifest, ManifestError};

/// A package that is there and right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The bytes of all chunks, each counted once, without the manifest.
    pub stored: u64,
    /// The bytes of all files once it is unpacked, of the variant that has most.
    pub unpacked: u64,
    /// The entries of all layers, of the variant that has most.
    pub entries: u64,
    /// Whether it is an image, which says how it is started.
    pub is_image: bool,
    /// The architectures that there are variants for. Empty text: any.
    pub architectures: Vec<String>,
    /// How many different chunks there are, without the manifest.
    pub chunks: u64,
}

/// The first thing that is wrong with a package.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The manifest cannot be read, or is damaged.
    #[error("the manifest: {0}")]
    Unreadable(#[source] ChunkError),
    /// What should be the manifest is none.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The tree of a layer is not what the manifest says.
    #[error("layer {layer} of the variant '{architecture}': {source}")]
    Layer {
        /// Of the variant.
        architecture: String,
        /// The number of the layer, from 0.
        layer: usize,
        /// What is wrong.
        source: LayerError,
    },
    /// A part of a file cannot be read, or is damaged.
    #[error("'{}' in layer {layer} of the variant '{architecture}': {source}", path.display())]
    Chunk {
        /// Of the variant.
        architecture: String,
        /// The number of the layer, from 0.
        layer: usize,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<ChunkError>,
    },
    /// The chunks of a layer have more or fewer bytes than the manifest says.
    #[error(
        "the chunks of layer {layer} of the variant '{architecture}' have {found} bytes, but should \
         have {expected}"
    )]
    Stored {
        /// Of the variant.
        architecture: String,
        /// The number of the layer, from 0.
        layer: usize,
        /// What the manifest says.
        expected: u64,
        /// What they have.
        found: u64,
    },
}

/// Reads all of a package, and checks everything that it says of itself. Each chunk of a file is
/// read once.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn verify(manifest: Digest, source: &mut dyn ChunkSource) -> Result<Verified, VerifyError> {
    let source = Source::new(source);
    let mut bytes = Vec::new();
    source
        .fetch(&ChunkRef::of_unknown_length(manifest), &mut bytes)
        .map_err(VerifyError::Unreadable)?;
    let manifest = Manifest::decode(&bytes)?;
    let mut known = HashSet::new();
    let mut verified = Verified {
        stored: 0,
        unpacked: 0,
        entries: 0,
        is_image: manifest.is_image(),
        architectures: Vec::new(),
        chunks: 0,
    };
    for variant in &manifest.variants {
        let (mut unpacked, mut entries) = (0_u64, 0_u64);
        for (number, layer) in variant.layers.iter().enumerate() {
            verify_layer(layer, &source, &mut known, &mut bytes)
                .map_err(|fault| fault.of(&variant.architecture, number))?;
            unpacked = unpacked.saturating_add(layer.unpacked);
            entries = entries.saturating_add(layer.entries);
        }
        verified.unpacked = verified.unpacked.max(unpacked);
        verified.entries = verified.entries.max(entries);
        verified.architectures.push(variant.architecture.clone());
    }
    verified.stored = known.iter().map(|chunk: &ChunkRef| u64::from(chunk.length)).sum();
    verified.chunks = known.len() as u64;
    Ok(verified)
}

/// What is wrong with a layer.
enum Broken {
    Layer(LayerError),
    Chunk(PathBuf, ChunkError),
    Stored { expected: u64, found: u64 },
}

impl Broken {
    fn of(self, architecture: &str, layer: usize) -> VerifyError {
        let architecture = architecture.to_owned();
        match self {
            Self::Layer(source) => VerifyError::Layer { architecture, layer, source },
            Self::Chunk(path, source) => {
                let source = Box::new(source);
                VerifyError::Chunk { architecture, layer, path, source }
            }
            Self::Stored { expected, found } => {
                VerifyError::Stored { architecture, layer, expected, found }
            }
        }
    }
}

/// Checks a layer, and adds its chunks to those that are known.
fn verify_layer(
    layer: &Layer,
    source: &Source<'_>,
    known: &mut HashSet<ChunkRef>,
    buffer: &mut Vec<u8>,
) -> Result<(), Broken> {
    let mut chunks: HashSet<ChunkRef> = layer.tree.iter().copied().collect();
    let mut reader = LayerReader::new(layer, source);
    while let Some(entry) = reader.next().map_err(Broken::Layer)? {
        for chunk in entry.chunks() {
            if chunks.insert(*chunk) && !known.contains(chunk) {
                source
                    .fetch(chunk, buffer)
                    .map_err(|error| Broken::Chunk(beneath::shown(&entry.path), error))?;
            }
        }
    }
    let found = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    known.extend(chunks);
    if found != layer.stored {
        return Err(Broken::Stored { expected: layer.stored, found });
    }
    Ok(())
}

/// Lists every chunk that a package needs, without that of the manifest: those of a tree in front of
/// those of its files. A chunk may be listed more than once. Only trees are read.
///
/// # Errors
///
/// The first thing that is wrong with a tree.
pub fn reachable(
    manifest: &Manifest,
    source: &mut dyn ChunkSource,
    each: &mut dyn FnMut(&ChunkRef),
) -> Result<(), VerifyError> {
    let source = Source::new(source);
    for variant in &manifest.variants {
        for (number, layer) in variant.layers.iter().enumerate() {
            layer.tree.iter().for_each(&mut *each);
            let mut reader = LayerReader::new(layer, &source);
            let fault = |error| Broken::Layer(error).of(&variant.architecture, number);
            while let Some(entry) = reader.next().map_err(fault)? {
                entry.chunks().for_each(&mut *each);
            }
        }
    }
    Ok(())
}
