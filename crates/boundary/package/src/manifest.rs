//! Manifests: the layers of a package, for each architecture, and how an image is started.
//!
//! The digest of a manifest is the name of the package. There is one encoding of every manifest,
//! and [`Manifest::decode`] rejects all others.

use std::collections::{BTreeMap, BTreeSet};

use model::Digest;
use prost::Message as _;
use thiserror::Error;

use crate::chunk::{ChunkRef, MAX_CHUNK_BYTES, digest_of};
use crate::tree::{MAX_ENTRIES, MAX_TREE_BYTES};

mod start;
mod wire;

pub use start::ImageStartError;

/// How long an encoded manifest is at most, in bytes: it is one chunk.
pub const MAX_MANIFEST_BYTES: usize = MAX_CHUNK_BYTES;
/// How many variants a manifest has at most.
pub const MAX_VARIANTS: usize = 32;
/// How many layers a variant has at most.
pub const MAX_LAYERS: usize = 500;
/// How long the name of an architecture is at most, in bytes.
pub const MAX_ARCHITECTURE_BYTES: usize = 32;
/// How long one text of an image's configuration is at most, in bytes.
pub const MAX_TEXT_BYTES: usize = 128 * 1024;
/// How many texts each list of an image's configuration has at most.
pub const MAX_TEXTS: usize = 4096;

/// A package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What it is on each architecture: at least one, sorted by `architecture`, without duplicates.
    pub variants: Vec<Variant>,
}

/// A package on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The machine, as `uname -m` or an image names it: ASCII letters, digits, `_`, `-`, `.`.
    /// Empty: any that no other variant is for.
    pub architecture: String,
    /// From the lowest to the highest.
    pub layers: Vec<Layer>,
    /// How the image is started: that of all variants, or of none if the package is no image.
    pub config: Option<ImageConfig>,
}

/// A tree of files, and what there is to know before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The chunks of the encoded tree: none of a tree without entries.
    pub tree: Vec<ChunkRef>,
    /// The digest of the encoded tree.
    pub digest: Digest,
    /// The bytes of all chunks of the layer, each counted once: those of the tree, and of its files.
    pub stored: u64,
    /// The bytes that its files have once it is unpacked: without holes, and without hard links.
    pub unpacked: u64,
    /// How many entries the tree has.
    pub entries: u64,
}

/// How an image is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The program, with the arguments that always come first.
    pub entrypoint: Vec<String>,
    /// The arguments behind them, or the program, if nothing else is asked for.
    pub cmd: Vec<String>,
    /// The environment, each as `KEY=VALUE`.
    pub env: Vec<String>,
    /// The working directory. Empty: the root.
    pub working_dir: String,
    /// The user, as the image says it: `user`, `uid`, `user:group` or `uid:gid`. Empty: root.
    pub user: String,
    /// The signal that asks the image to stop, by name or number. Empty: SIGTERM.
    pub stop_signal: String,
    /// What the image says of itself.
    pub labels: BTreeMap<String, String>,
    /// The ports on which it listens, as the image says it: `80/tcp`.
    pub exposed_ports: Vec<String>,
}

/// Some bytes are no manifest, or a manifest breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// It is longer than [`MAX_MANIFEST_BYTES`].
    #[error("the manifest has {0} bytes, of at most {MAX_MANIFEST_BYTES}")]
    Long(usize),
    /// It is no protobuf message of a manifest.
    #[error("the manifest cannot be decoded: {0}")]
    Malformed(String),
    /// Its bytes are not those that this version would write.
    #[error("the manifest is not encoded in the canonical form")]
    NotCanonical,
    /// It has no variants, or more than [`MAX_VARIANTS`].
    #[error("the manifest has {0} variants, of 1 to {MAX_VARIANTS}")]
    Variants(usize),
    /// The architectures are not sorted, or not different.
    #[error("the manifest's variant '{0}' is there twice or not in the order of architectures")]
    Order(String),
    /// An architecture has no name of one.
    #[error("the manifest has a variant for '{}', which is no architecture", .0.escape_debug())]
    Architecture(String),
    /// Some variants are images and some are not.
    #[error("the manifest's variant '{0}' is an image and the others are not, or the reverse")]
    Mixed(String),
    /// It has more than [`MAX_LAYERS`].
    #[error("the manifest's variant '{architecture}' has {layers} layers, of at most {MAX_LAYERS}")]
    Layers {
        /// Of the variant.
        architecture: String,
        /// How many there are.
        layers: usize,
    },
    /// What is said of a layer cannot be.
    #[error("layer {layer} of the manifest's variant '{architecture}' {fault}")]
    Layer {
        /// Of the variant.
        architecture: String,
        /// The number of the layer, from 0.
        layer: usize,
        /// What is wrong.
        fault: LayerFault,
    },
    /// A part of an image's configuration is too long, or has a NUL byte.
    #[error(
        "'{field}' of the manifest's variant '{architecture}' has more than {MAX_TEXTS} texts, or one \
         with a NUL byte or more than {MAX_TEXT_BYTES} bytes"
    )]
    Text {
        /// Of the variant.
        architecture: String,
        /// The part.
        field: &'static str,
    },
    /// An environment variable has no name.
    #[error("the environment of the manifest's variant '{0}' has a variable that is not KEY=VALUE")]
    Environment(String),
}

/// What is said of a layer cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayerFault {
    /// The digest of the tree or of one of its chunks.
    #[error("has a malformed digest")]
    Digest,
    /// The length of a chunk of the tree.
    #[error("has a chunk of 0 or more than {MAX_CHUNK_BYTES} bytes")]
    Chunk,
    /// The length of the tree.
    #[error("has a tree of more than {MAX_TREE_BYTES} bytes")]
    Tree,
    /// The number of entries.
    #[error("has more than {MAX_ENTRIES} entries")]
    Entries,
}

impl Manifest {
    /// The encoded form.
    ///
    /// # Errors
    ///
    /// The manifest breaks a rule, and could not be decoded.
    pub fn encode(&self) -> Result<Vec<u8>, ManifestError> {
        self.check()?;
        let bytes = wire::encode(self).encode_to_vec();
        if bytes.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::Long(bytes.len()));
        }
        Ok(bytes)
    }

    /// The manifest of which this is the encoded form.
    ///
    /// # Errors
    ///
    /// The bytes are too many, no manifest, not in the canonical form, or break a rule.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::Long(bytes.len()));
        }
        wire::scan(bytes)?;
        let message = wire::WireManifest::decode(bytes)
            .map_err(|error| ManifestError::Malformed(error.to_string()))?;
        let manifest = wire::decode(message)?;
        manifest.check()?;
        if wire::encode(&manifest).encode_to_vec() != bytes {
            return Err(ManifestError::NotCanonical);
        }
        Ok(manifest)
    }

    /// The digest of the encoded form, which is the name of the package.
    ///
    /// # Errors
    ///
    /// The manifest breaks a rule.
    pub fn digest(&self) -> Result<Digest, ManifestError> {
        Ok(digest_of(&self.encode()?))
    }

    /// Whether it is an image, which says how it is started.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.variants.iter().any(|variant| variant.config.is_some())
    }

    /// The variant for an architecture: its own, or that for any.
    #[must_use]
    pub fn variant(&self, architecture: &str) -> Option<&Variant> {
        let named = |name| self.variants.iter().find(|variant| variant.architecture == name);
        named(architecture).or_else(|| named(""))
    }

    fn check(&self) -> Result<(), ManifestError> {
        if !(1..=MAX_VARIANTS).contains(&self.variants.len()) {
            return Err(ManifestError::Variants(self.variants.len()));
        }
        let mut last: Option<&Variant> = None;
        for variant in &self.variants {
            variant.check()?;
            let architecture = &variant.architecture;
            if last.is_some_and(|last| last.architecture >= *architecture) {
                return Err(ManifestError::Order(architecture.clone()));
            }
            if last.is_some_and(|last| last.config.is_some() != variant.config.is_some()) {
                return Err(ManifestError::Mixed(architecture.clone()));
            }
            last = Some(variant);
        }
        Ok(())
    }
}

impl Variant {
    fn check(&self) -> Result<(), ManifestError> {
        let architecture = || self.architecture.clone();
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if self.architecture.len() > MAX_ARCHITECTURE_BYTES || !self.architecture.bytes().all(named)
        {
            let start = self.architecture.chars().take(MAX_ARCHITECTURE_BYTES).collect();
            return Err(ManifestError::Architecture(start));
        }
        if self.layers.len() > MAX_LAYERS {
            let layers = self.layers.len();
            return Err(ManifestError::Layers { architecture: architecture(), layers });
        }
        for (layer, content) in self.layers.iter().enumerate() {
            content.check().map_err(|fault| ManifestError::Layer {
                architecture: architecture(),
                layer,
                fault,
            })?;
        }
        let Some(config) = &self.config else { return Ok(()) };
        if let Some(field) = config.unfit() {
            return Err(ManifestError::Text { architecture: architecture(), field });
        }
        let variable = |text: &String| text.find('=').is_some_and(|at| at > 0);
        if !config.env.iter().all(variable) {
            return Err(ManifestError::Environment(architecture()));
        }
        Ok(())
    }
}

impl Layer {
    /// The chunks of the tree, each counted once, in bytes.
    #[must_use]
    pub fn tree_bytes(&self) -> u64 {
        let chunks: BTreeSet<&ChunkRef> = self.tree.iter().collect();
        chunks.iter().map(|chunk| u64::from(chunk.length)).sum()
    }

    fn check(&self) -> Result<(), LayerFault> {
        let length = |chunk: &ChunkRef| u64::from(chunk.length);
        if !self.tree.iter().all(|c| (1..=MAX_CHUNK_BYTES as u64).contains(&length(c))) {
            return Err(LayerFault::Chunk);
        }
        if self.tree.iter().map(length).sum::<u64>() > MAX_TREE_BYTES {
            return Err(LayerFault::Tree);
        }
        if self.entries > MAX_ENTRIES {
            return Err(LayerFault::Entries);
        }
        Ok(())
    }
}

impl ImageConfig {
    /// The first part that is too long or has a NUL byte.
    fn unfit(&self) -> Option<&'static str> {
        let labels: Vec<String> =
            self.labels.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
        let one = std::slice::from_ref;
        let fields: [(&str, &[String]); 8] = [
            ("entrypoint", &self.entrypoint),
            ("cmd", &self.cmd),
            ("env", &self.env),
            ("working_dir", one(&self.working_dir)),
            ("user", one(&self.user)),
            ("stop_signal", one(&self.stop_signal)),
            ("labels", &labels),
            ("exposed_ports", &self.exposed_ports),
        ];
        let fits = |text: &String| text.len() <= MAX_TEXT_BYTES && !text.contains('\0');
        let unfit =
            |(_, texts): &(_, &[String])| texts.len() > MAX_TEXTS || !texts.iter().all(fits);
        fields.into_iter().find(unfit).map(|(field, _)| field)
    }
}
