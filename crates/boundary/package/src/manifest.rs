//! Manifests: what a package consists of.

use std::collections::BTreeMap;

use model::Digest;
use prost::Message as _;
use thiserror::Error;

use crate::chunk::{CHUNK_MAX, ChunkRef, digest_of};
use crate::message;
use crate::tree::{chunk, chunk_message, digest};

/// The maximum length of a manifest, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// The maximum number of architectures of a package.
pub const VARIANTS_MAX: usize = 32;
/// The maximum number of layers: as many as the kernel takes in an overlay.
pub const LAYERS_MAX: usize = 500;

/// What a package consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What it is on each architecture.
    pub variants: Vec<Variant>,
}

/// What a package is on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The architecture, such as `amd64`; empty: any.
    pub architecture: String,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
    /// The defaults for its program, if it is an image.
    pub config: Option<ImageConfig>,
}

/// A set of files, over those of the layers below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The chunks of its encoded tree.
    pub tree: Vec<ChunkRef>,
    /// The digest of the encoded tree.
    pub digest: Digest,
    /// The size of the different chunks of its files, in bytes.
    pub stored: u64,
    /// The size of its files, in bytes.
    pub unpacked: u64,
    /// The number of its entries.
    pub entries: u64,
}

/// The configuration of an image (OCI image specification, 1.1, "OCI Image Configuration").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program if there is no entrypoint.
    pub cmd: Vec<String>,
    /// The environment, as NAME=VALUE.
    pub env: Vec<String>,
    /// The working directory; empty: the root.
    pub working_dir: String,
    /// The user, as in the image's own `/etc/passwd`, or as numbers; empty: root.
    pub user: String,
    /// The signal that ends the program; empty: SIGTERM.
    pub stop_signal: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Ports at which it serves, such as `80/tcp`.
    pub exposed_ports: Vec<String>,
}

/// Why a manifest is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the manifest {0}")]
pub struct ManifestError(&'static str);

impl Manifest {
    /// Its bytes. Equal manifests have equal bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let layer = |layer: &Layer| message::Layer {
            tree: layer.tree.iter().map(chunk_message).collect(),
            digest: layer.digest.as_bytes().to_vec(),
            stored: layer.stored,
            unpacked: layer.unpacked,
            entries: layer.entries,
        };
        let config = |config: &ImageConfig| message::Config {
            entrypoint: config.entrypoint.clone(),
            cmd: config.cmd.clone(),
            env: config.env.clone(),
            working_dir: config.working_dir.clone(),
            user: config.user.clone(),
            stop_signal: config.stop_signal.clone(),
            labels: config.labels.clone(),
            exposed_ports: config.exposed_ports.clone(),
        };
        let variant = |variant: &Variant| message::Variant {
            architecture: variant.architecture.clone(),
            layers: variant.layers.iter().map(layer).collect(),
            config: variant.config.as_ref().map(config),
        };
        let variants = self.variants.iter().map(variant).collect();
        message::Manifest { variants }.encode_to_vec()
    }

    /// Its digest, which is that of the package.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest_of(&self.encode())
    }

    /// Whether it is an image.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.variants.iter().any(|variant| variant.config.is_some())
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// When it is malformed, out of bounds, or not encoded as [`Manifest::encode`] does.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError("is too long"));
        }
        let read = message::Manifest::decode(bytes).map_err(|_| ManifestError("is malformed"))?;
        if read.encode_to_vec() != bytes {
            return Err(ManifestError("is not encoded as it has to be"));
        }
        if read.variants.is_empty() || read.variants.len() > VARIANTS_MAX {
            return Err(ManifestError("has no variant, or too many"));
        }
        let variants = read.variants.into_iter().map(variant).collect::<Result<_, _>>();
        Ok(Self { variants: variants.map_err(ManifestError)? })
    }
}

fn variant(read: message::Variant) -> Result<Variant, &'static str> {
    if read.layers.len() > LAYERS_MAX {
        return Err("has too many layers");
    }
    let config = |config: message::Config| ImageConfig {
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        env: config.env,
        working_dir: config.working_dir,
        user: config.user,
        stop_signal: config.stop_signal,
        labels: config.labels,
        exposed_ports: config.exposed_ports,
    };
    Ok(Variant {
        architecture: read.architecture,
        layers: read.layers.iter().map(layer).collect::<Result<_, _>>()?,
        config: read.config.map(config),
    })
}

fn layer(read: &message::Layer) -> Result<Layer, &'static str> {
    let tree = read.tree.iter().map(chunk).collect::<Result<Vec<_>, _>>()?;
    if tree.iter().any(|chunk| chunk.length == 0 || chunk.length as usize > CHUNK_MAX) {
        return Err("has a chunk without a proper length");
    }
    Ok(Layer {
        tree,
        digest: digest(&read.digest)?,
        stored: read.stored,
        unpacked: read.unpacked,
        entries: read.entries,
    })
}
