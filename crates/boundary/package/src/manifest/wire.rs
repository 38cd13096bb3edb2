//! Conversion of manifests to and from their protobuf messages.

use model::{Bytes, Digest};

use super::{ImageConfig, Layer, Manifest, Variant};
use crate::chunk::{ChunkRef, Segment};
use crate::proto;
use crate::tree::{segment_from_wire, segment_to_wire};

pub(super) fn to_wire(manifest: &Manifest) -> proto::Manifest {
    let layer = |layer: &Layer| proto::Layer {
        digest: layer.digest.as_bytes().to_vec(),
        chunks: layer.chunks.iter().map(|chunk| segment_to_wire(&Segment::Chunk(*chunk))).collect(),
        bytes_stored: layer.bytes_stored.0,
        bytes_unpacked: layer.bytes_unpacked.0,
        entries: layer.entries,
    };
    let variant = |variant: &Variant| proto::Variant {
        architecture: variant.architecture.clone(),
        layers: variant.layers.iter().map(layer).collect(),
        config: variant.config.as_ref().map(config_to_wire),
    };
    proto::Manifest { variants: manifest.variants.iter().map(variant).collect() }
}

fn config_to_wire(config: &ImageConfig) -> proto::ImageConfig {
    let label = |(name, value): (&String, &String)| proto::Label {
        name: name.clone(),
        value: value.clone(),
    };
    proto::ImageConfig {
        entrypoint: config.entrypoint.clone(),
        cmd: config.cmd.clone(),
        env: config.env.clone(),
        working_dir: config.working_dir.clone(),
        user: config.user.clone(),
        stop_signal: config.stop_signal.clone(),
        labels: config.labels.iter().map(label).collect(),
        exposed_ports: config.exposed_ports.clone(),
    }
}

/// A manifest whose rules are not checked yet, or what is wrong with a value.
pub(super) fn from_wire(manifest: proto::Manifest) -> Result<Manifest, &'static str> {
    let variants = manifest.variants.into_iter().map(variant).collect::<Result<_, _>>()?;
    Ok(Manifest { variants })
}

fn variant(variant: proto::Variant) -> Result<Variant, &'static str> {
    let config = variant.config.map(|config| ImageConfig {
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        env: config.env,
        working_dir: config.working_dir,
        user: config.user,
        stop_signal: config.stop_signal,
        // A label that is there twice is lost here, and then the encoding is not the same.
        labels: config.labels.into_iter().map(|label| (label.name, label.value)).collect(),
        exposed_ports: config.exposed_ports,
    });
    Ok(Variant {
        architecture: variant.architecture,
        layers: variant.layers.iter().map(layer).collect::<Result<_, _>>()?,
        config,
    })
}

fn layer(layer: &proto::Layer) -> Result<Layer, &'static str> {
    let digest = <[u8; Digest::BYTES]>::try_from(&layer.digest[..])
        .map_err(|_| "the digest of a tree is not 32 bytes long")?;
    let chunk = |segment: &proto::Segment| -> Option<ChunkRef> {
        match segment_from_wire(segment)? {
            Segment::Chunk(chunk) => Some(chunk),
            Segment::Hole(_) => None,
        }
    };
    let chunks: Option<Vec<ChunkRef>> = layer.chunks.iter().map(chunk).collect();
    Ok(Layer {
        digest: Digest::from_bytes(digest),
        chunks: chunks.ok_or("a chunk of a tree has a digest or a length out of range")?,
        bytes_stored: Bytes(layer.bytes_stored),
        bytes_unpacked: Bytes(layer.bytes_unpacked),
        entries: layer.entries,
    })
}
