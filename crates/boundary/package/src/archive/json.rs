//! The JSON of images: what this program needs of it.
//!
//! Sources: the OCI image specification 1.1 (index, manifest, configuration, layout), Docker's
//! image manifest version 2 schema 2, and the file `manifest.json` that `docker save` writes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::ImportError;
use crate::manifest::ImageConfig;

/// Names a file by its digest.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) platform: Option<Platform>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// What a manifest is for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) variant: Option<String>,
}

/// An index or a manifest: an index has `manifests`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Document {
    pub(super) manifests: Option<Vec<Descriptor>>,
    pub(super) config: Option<Descriptor>,
    pub(super) layers: Option<Vec<Descriptor>>,
}

/// An image of `manifest.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    #[serde(default)]
    pub(super) layers: Option<Vec<String>>,
}

/// The configuration of an image.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Configuration {
    #[serde(flatten)]
    pub(super) platform: Platform,
    #[serde(default)]
    config: Option<ProcessConfig>,
    #[serde(default)]
    rootfs: Option<RootFs>,
}

#[derive(Clone, Debug, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ProcessConfig {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    stop_signal: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    exposed_ports: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

/// Parses a file.
pub(super) fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, ImportError> {
    serde_json::from_slice(bytes)
        .map_err(|source| ImportError::Json { name: name.to_owned(), source })
}

/// The name of an architecture in a package, where it has no slash: `arm-v7` for `arm/v7`.
pub(super) fn architecture_name(name: &str) -> String {
    name.replace('/', "-")
}

impl Platform {
    /// Adds what only the index says of the same platform: configurations often lack the variant, as of `arm/v7`.
    pub(super) fn complete(&mut self, index: &Self) {
        if self.architecture.is_empty() {
            self.architecture.clone_from(&index.architecture);
        }
        let says_none = self.variant.as_ref().is_none_or(String::is_empty);
        if says_none && self.architecture == index.architecture {
            self.variant.clone_from(&index.variant);
        }
    }

    /// The architecture as packages name it: with the variant, if the name alone does not say it.
    pub(super) fn name(&self) -> String {
        let variant = self.variant.as_deref().unwrap_or_default();
        match (&self.architecture[..], variant) {
            (architecture, "") | (architecture @ "arm64", "v8") => architecture_name(architecture),
            (architecture, variant) => architecture_name(&format!("{architecture}/{variant}")),
        }
    }
}

impl Descriptor {
    /// Whether it is a statement about another image.
    pub(super) fn is_attestation(&self) -> bool {
        let unknown = self
            .platform
            .as_ref()
            .is_some_and(|platform| platform.os == "unknown" && platform.architecture == "unknown");
        unknown || self.annotation("vnd.docker.reference.type").is_some()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(|value| &value[..])
    }

    /// The names of the image: the whole one, and the tag or whatever else the tool wrote.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        keys.into_iter().filter_map(|key| self.annotation(key))
    }
}

impl Configuration {
    /// The digests of the uncompressed layers.
    pub(super) fn diff_ids(&self) -> &[String] {
        let diff_ids = self.rootfs.as_ref().and_then(|rootfs| rootfs.diff_ids.as_ref());
        diff_ids.map_or(&[], |diff_ids| diff_ids)
    }

    /// What a package keeps of it.
    pub(super) fn image_config(&self) -> ImageConfig {
        let process = self.config.clone().unwrap_or_default();
        ImageConfig {
            entrypoint: process.entrypoint.unwrap_or_default(),
            cmd: process.cmd.unwrap_or_default(),
            env: process.env.unwrap_or_default(),
            working_dir: process.working_dir.unwrap_or_default(),
            user: process.user.unwrap_or_default(),
            stop_signal: process.stop_signal.unwrap_or_default(),
            labels: process.labels.unwrap_or_default(),
            exposed_ports: process.exposed_ports.unwrap_or_default().into_keys().collect(),
        }
    }
}
