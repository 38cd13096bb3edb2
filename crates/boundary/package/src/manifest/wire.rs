//! The encoding of a manifest.

use std::collections::BTreeMap;

use model::Digest;

use super::{
    ImageConfig, Layer, LayerFault, MAX_ARCHITECTURE_BYTES, MAX_LAYERS, MAX_TEXTS, MAX_VARIANTS,
    Manifest, ManifestError, Variant,
};
use crate::chunk::ChunkRef;
use crate::fields::MessageFields;

/// How many fields the configuration of an image has at most: eight kinds, each [`MAX_TEXTS`].
const MAX_CONFIG_FIELDS: usize = 8 * MAX_TEXTS;

/// A [`Manifest`].
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WireManifest {
    #[prost(message, repeated, tag = "1")]
    variants: Vec<WireVariant>,
}

/// A [`Variant`].
#[derive(Clone, PartialEq, prost::Message)]
struct WireVariant {
    #[prost(string, tag = "1")]
    architecture: String,
    #[prost(message, repeated, tag = "2")]
    layers: Vec<WireLayer>,
    #[prost(message, optional, tag = "3")]
    config: Option<WireConfig>,
}

/// A [`Layer`].
#[derive(Clone, PartialEq, prost::Message)]
struct WireLayer {
    #[prost(message, repeated, tag = "1")]
    tree: Vec<WireChunk>,
    #[prost(bytes = "vec", tag = "2")]
    digest: Vec<u8>,
    #[prost(uint64, tag = "3")]
    stored: u64,
    #[prost(uint64, tag = "4")]
    unpacked: u64,
    #[prost(uint64, tag = "5")]
    entries: u64,
}

/// A [`ChunkRef`].
#[derive(Clone, PartialEq, prost::Message)]
struct WireChunk {
    #[prost(bytes = "vec", tag = "1")]
    digest: Vec<u8>,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// An [`ImageConfig`].
#[derive(Clone, PartialEq, prost::Message)]
struct WireConfig {
    #[prost(string, repeated, tag = "1")]
    entrypoint: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    cmd: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    env: Vec<String>,
    #[prost(string, tag = "4")]
    working_dir: String,
    #[prost(string, tag = "5")]
    user: String,
    #[prost(string, tag = "6")]
    stop_signal: String,
    #[prost(btree_map = "string, string", tag = "7")]
    labels: BTreeMap<String, String>,
    #[prost(string, repeated, tag = "8")]
    exposed_ports: Vec<String>,
}

/// Checks how much is repeated in a message, before that is decoded.
pub(super) fn scan(message: &[u8]) -> Result<(), ManifestError> {
    let mut variants = 0;
    for (number, variant) in fields(message)? {
        variants += usize::from(number == 1);
        if variants > MAX_VARIANTS {
            return Err(ManifestError::Variants(variants));
        }
        scan_variant(variant)?;
    }
    Ok(())
}

fn scan_variant(message: &[u8]) -> Result<(), ManifestError> {
    let (mut layers, mut configs) = (0, 0);
    for (number, value) in fields(message)? {
        layers += usize::from(number == 2);
        configs += usize::from(number == 3);
        if layers > MAX_LAYERS {
            return Err(malformed("a variant has too many layers"));
        }
        if configs > 1 {
            return Err(ManifestError::NotCanonical);
        }
        // A chunk that is shorter than a digest would take more room than it has bytes.
        let short = |(number, chunk): (u64, &[u8])| number == 1 && chunk.len() < Digest::BYTES;
        if number == 2 && fields(value)?.any(short) {
            return Err(malformed("a chunk of a layer has no digest"));
        }
        if number == 3 && fields(value)?.nth(MAX_CONFIG_FIELDS).is_some() {
            return Err(malformed("the configuration of an image has too many texts"));
        }
    }
    Ok(())
}

/// The fields of a message, all of which can be read.
fn fields(message: &[u8]) -> Result<impl Iterator<Item = (u64, &[u8])>, ManifestError> {
    if MessageFields::of(message).any(|field| field.is_none()) {
        return Err(malformed("it is cut off, or no message"));
    }
    Ok(MessageFields::of(message).flatten())
}

fn malformed(why: &str) -> ManifestError {
    ManifestError::Malformed(why.into())
}

/// The message of a manifest.
pub(super) fn encode(manifest: &Manifest) -> WireManifest {
    WireManifest { variants: manifest.variants.iter().map(encode_variant).collect() }
}

fn encode_variant(variant: &Variant) -> WireVariant {
    let layer = |layer: &Layer| WireLayer {
        tree: layer.tree.iter().map(encode_chunk).collect(),
        digest: layer.digest.as_bytes().to_vec(),
        stored: layer.stored,
        unpacked: layer.unpacked,
        entries: layer.entries,
    };
    let config = |config: ImageConfig| WireConfig {
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        env: config.env,
        working_dir: config.working_dir,
        user: config.user,
        stop_signal: config.stop_signal,
        labels: config.labels,
        exposed_ports: config.exposed_ports,
    };
    WireVariant {
        architecture: variant.architecture.clone(),
        layers: variant.layers.iter().map(layer).collect(),
        config: variant.config.clone().map(config),
    }
}

fn encode_chunk(chunk: &ChunkRef) -> WireChunk {
    WireChunk { digest: chunk.digest.as_bytes().to_vec(), length: chunk.length }
}

/// The manifest of a message, of which only the digests are checked.
pub(super) fn decode(wire: WireManifest) -> Result<Manifest, ManifestError> {
    let variants = wire.variants.into_iter().map(decode_variant).collect::<Result<_, _>>()?;
    Ok(Manifest { variants })
}

fn decode_variant(wire: WireVariant) -> Result<Variant, ManifestError> {
    let mut layers = Vec::with_capacity(wire.layers.len());
    for (number, layer) in wire.layers.iter().enumerate() {
        layers.push(decode_layer(layer).ok_or_else(|| ManifestError::Layer {
            architecture: shown(&wire.architecture),
            layer: number,
            fault: LayerFault::Digest,
        })?);
    }
    let config = |config: WireConfig| ImageConfig {
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        env: config.env,
        working_dir: config.working_dir,
        user: config.user,
        stop_signal: config.stop_signal,
        labels: config.labels,
        exposed_ports: config.exposed_ports,
    };
    Ok(Variant { architecture: wire.architecture, layers, config: wire.config.map(config) })
}

fn decode_layer(wire: &WireLayer) -> Option<Layer> {
    let digest = |bytes: &[u8]| Some(Digest::from_bytes(bytes.try_into().ok()?));
    let chunk =
        |chunk: &WireChunk| Some(ChunkRef { digest: digest(&chunk.digest)?, length: chunk.length });
    Some(Layer {
        tree: wire.tree.iter().map(chunk).collect::<Option<_>>()?,
        digest: digest(&wire.digest)?,
        stored: wire.stored,
        unpacked: wire.unpacked,
        entries: wire.entries,
    })
}

/// An architecture that was not checked yet, for an error: escaped, and not longer than one.
fn shown(architecture: &str) -> String {
    architecture.chars().take(MAX_ARCHITECTURE_BYTES).flat_map(char::escape_debug).collect()
}
