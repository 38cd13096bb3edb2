//! Manifests: what a package consists of.
//!
//! A manifest is one message `bourg.package.v1.Manifest`. The digest of its bytes is the digest of
//! the package, so its encoding is canonical ([`Manifest::encode`]) and [`decode`] rejects every
//! other one.

mod check;
mod wire;

use std::collections::BTreeMap;

use model::Digest;
use prost::Message as _;

use crate::chunk::digest_of;
use crate::proto;
pub use crate::tree::Layer;

/// The maximum length of an encoded manifest in bytes.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;

/// The maximum number of variants of a package.
pub const VARIANTS_MAX: usize = 64;

/// The maximum number of layers of a variant: as many as an overlay mount can have.
pub const LAYERS_MAX: usize = 500;

/// The maximum length of the name of an architecture in bytes.
pub const ARCHITECTURE_BYTES_MAX: usize = 64;

/// A package, for each architecture that it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// At least one, sorted by distinct architectures.
    pub variants: Vec<Variant>,
}

/// A package for one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The architecture in the terms of container images, such as `amd64` and `arm/v7`; empty if
    /// the package is for every one.
    pub architecture: String,
    /// The layers, the lowest first.
    pub layers: Vec<Layer>,
    /// How to run it, if it was a container image.
    pub config: Option<ImageConfig>,
}

/// What a container image says about its process. The meaning of the fields is that of the OCI
/// image specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The first arguments.
    pub entrypoint: Vec<String>,
    /// The default arguments after them.
    pub cmd: Vec<String>,
    /// The environment, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// The working directory; empty if the image has none.
    pub working_dir: String,
    /// The user, as `USER`, `UID`, `USER:GROUP` or `UID:GID`; empty if the image has none.
    pub user: String,
    /// The signal that ends the process, such as `SIGTERM` or `15`; empty if the image has none.
    pub stop_signal: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// Ports such as `8080/tcp`, sorted and distinct.
    pub exposed_ports: Vec<String>,
}

/// A manifest with its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The manifest.
    pub manifest: Manifest,
    /// Its canonical encoding.
    pub bytes: Vec<u8>,
    /// The digest of these bytes: the digest of the package.
    pub digest: Digest,
}

/// A manifest is not valid, or the bytes are not one.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The encoding is too long.
    #[error(
        "the manifest has {bytes} bytes, more than the maximum of 16 MiB; make a package of \
             fewer layers or smaller trees"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The bytes are no message.
    #[error("these bytes are not the manifest of a package: {0}")]
    Message(#[from] prost::DecodeError),
    /// A rule is broken.
    #[error("the manifest is not valid: {why}{}", of(.architecture))]
    Rule {
        /// The architecture of the variant, if a variant breaks it.
        architecture: Option<String>,
        /// The rule.
        why: &'static str,
    },
}

fn of(architecture: &Option<String>) -> String {
    architecture.as_ref().map_or_else(String::new, |name| {
        format!(" (in the variant for '{}')", name.chars().take(100).collect::<String>())
    })
}

impl Manifest {
    /// Encodes a manifest.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn encode(self) -> Result<Packed, ManifestError> {
        check::check(&self)?;
        let bytes = wire::to_wire(&self).encode_to_vec();
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLong { bytes: bytes.len() });
        }
        let digest = digest_of(&bytes);
        Ok(Packed { manifest: self, bytes, digest })
    }

    /// The variant for an architecture: the one of that name, or else the one for all.
    #[must_use]
    pub fn variant(&self, architecture: &str) -> Option<&Variant> {
        let of = |name: &str| self.variants.iter().find(|variant| variant.architecture == name);
        of(architecture).or_else(|| of(""))
    }
}

/// Decodes a manifest.
///
/// # Errors
/// What is wrong with it, also if the encoding is not the canonical one.
pub fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    if bytes.len() > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLong { bytes: bytes.len() });
    }
    let rule = |why| ManifestError::Rule { architecture: None, why };
    let manifest = wire::from_wire(proto::Manifest::decode(bytes)?).map_err(rule)?;
    check::check(&manifest)?;
    if wire::to_wire(&manifest).encode_to_vec() != bytes {
        return Err(rule("it is not encoded in the canonical way"));
    }
    Ok(manifest)
}
