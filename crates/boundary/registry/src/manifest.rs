//! Manifests: of an image, with its configuration and layers, and indexes of manifests. OCI's and Docker's say the
//! same in the same words; only their types differ.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::digest::BlobDigest;
use crate::platform::Platform;
use crate::words::shown;

/// How many bytes a manifest, or the configuration of an image, has at most.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// How many layers an image has at most.
const LAYERS_MAX: usize = 500;
/// How long the type of what a manifest names is at most, in bytes.
const TYPE_BYTES_MAX: usize = 255;
/// How many manifests an index names at most.
const INDEX_MANIFESTS_MAX: usize = 1000;

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// How the types of Docker's schema 1 begin, signed and not.
const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1";
/// The types of the configuration of an image: what has another one is something else than an image.
const CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// The annotation with which Docker marks what belongs to an image and is none.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// The types of manifests that are asked for.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// What a manifest says of a blob or of another manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: BlobDigest,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) target: ManifestTarget,
}

/// For which machines a manifest is that an index names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestTarget {
    /// Linux.
    Linux(Platform),
    /// Another system, or no system at all: statements about an image.
    Other,
    /// It is not said.
    Unsaid,
}

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestDocument {
    /// Other manifests.
    Index(Vec<Descriptor>),
    /// An image.
    Image(ImageParts),
    /// Something else than an image, of this type.
    Artifact(String),
}

/// The blobs of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageParts {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// A manifest with its type.
#[derive(Clone, Debug)]
pub(crate) struct ParsedManifest {
    pub(crate) media_type: String,
    pub(crate) document: ManifestDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManifest {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<Vec<RawDescriptor>>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    fs_layers: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<RawPlatform>,
    annotations: Option<HashMap<String, IgnoredAny>>,
}

/// A platform in a descriptor, or the part of a configuration that says the same.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPlatform {
    os: String,
    architecture: String,
    variant: String,
}

/// Reads a manifest; `said` is the type that the registry, or the index that names it, says it has.
///
/// # Errors
/// What is wrong with it: the end of a sentence about the manifest.
pub(crate) fn parse(bytes: &[u8], said: Option<&str>) -> Result<ParsedManifest, String> {
    let raw: RawManifest = serde_json::from_slice(bytes)
        .map_err(|error| format!("is no manifest of an image: {error}"))?;
    let said = raw.media_type.as_deref().or(said).unwrap_or_default();
    let old =
        said.starts_with(SCHEMA_1) || raw.fs_layers.is_some() || raw.schema_version == Some(1);
    if old {
        let why = "has the schema 1, which no registry should have any more; push the image again with a \
                   current Docker, podman or skopeo";
        return Err(why.to_owned());
    }
    let is_index = [OCI_INDEX, DOCKER_LIST].contains(&said);
    let is_image = [OCI_MANIFEST, DOCKER_MANIFEST].contains(&said);
    match (raw.manifests, raw.config, raw.layers) {
        (Some(manifests), None, None) if !is_image => {
            let media_type = if is_index { said } else { OCI_INDEX }.to_owned();
            Ok(ParsedManifest { media_type, document: index(manifests)? })
        }
        (None, Some(config), Some(layers)) if !is_index => {
            let media_type = if is_image { said } else { OCI_MANIFEST }.to_owned();
            Ok(ParsedManifest { media_type, document: image(config, layers)? })
        }
        _ => Err(format!(
            "is no manifest of an image: its type is '{}', and it has not the parts of that type and no others",
            shown(said)
        )),
    }
}

fn index(manifests: Vec<RawDescriptor>) -> Result<ManifestDocument, String> {
    if manifests.len() > INDEX_MANIFESTS_MAX {
        return Err(format!(
            "names {} manifests, of at most {INDEX_MANIFESTS_MAX}",
            manifests.len()
        ));
    }
    let descriptors = manifests.into_iter().map(RawDescriptor::check);
    Ok(ManifestDocument::Index(descriptors.collect::<Result<_, _>>()?))
}

fn image(config: RawDescriptor, layers: Vec<RawDescriptor>) -> Result<ManifestDocument, String> {
    if !CONFIGS.contains(&config.media_type.as_str()) {
        return Ok(ManifestDocument::Artifact(shown(&config.media_type)));
    }
    if layers.len() > LAYERS_MAX {
        return Err(format!("has {} layers, of at most {LAYERS_MAX}", layers.len()));
    }
    let config = config.check()?;
    if config.size > MANIFEST_BYTES_MAX {
        return Err(format!(
            "has a configuration of {} bytes, of at most {MANIFEST_BYTES_MAX}",
            config.size
        ));
    }
    let layers = layers.into_iter().map(RawDescriptor::check).collect::<Result<_, _>>()?;
    Ok(ManifestDocument::Image(ImageParts { config, layers }))
}

/// The platform that the configuration of an image names.
///
/// # Errors
/// What is wrong with it: the end of a sentence about the manifest.
pub(crate) fn platform_of_config(bytes: &[u8]) -> Result<ManifestTarget, String> {
    let raw: RawPlatform = serde_json::from_slice(bytes)
        .map_err(|error| format!("has a configuration that is none of an image: {error}"))?;
    Ok(raw.target())
}

impl Descriptor {
    /// Whether it says to be of an index.
    pub(crate) fn is_index(&self) -> bool {
        [OCI_INDEX, DOCKER_LIST].contains(&self.media_type.as_str())
    }
}

impl RawDescriptor {
    fn check(self) -> Result<Descriptor, String> {
        let bad =
            |_| format!("names a blob by '{}', which is no SHA-256 digest", shown(&self.digest));
        let digest = self.digest.parse().map_err(bad)?;
        if self.media_type.len() > TYPE_BYTES_MAX {
            let bytes = self.media_type.len();
            return Err(format!(
                "names {digest} with a type of {bytes} bytes, of at most {TYPE_BYTES_MAX}"
            ));
        }
        let about = self.annotations.is_some_and(|all| all.contains_key(REFERENCE_TYPE));
        let target = match self.platform {
            _ if about => ManifestTarget::Other,
            None => ManifestTarget::Unsaid,
            Some(platform) => platform.target(),
        };
        Ok(Descriptor { media_type: self.media_type, digest, size: self.size, target })
    }
}

impl RawPlatform {
    fn target(&self) -> ManifestTarget {
        if self.os != "linux" {
            return ManifestTarget::Other;
        }
        let variant = Some(self.variant.as_str()).filter(|variant| !variant.is_empty());
        // What has no name of an architecture is for no machine that there is.
        Platform::new(&self.architecture, variant)
            .map_or(ManifestTarget::Other, ManifestTarget::Linux)
    }
}
