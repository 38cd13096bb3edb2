//! Which manifests and blobs an image has on the wanted platforms.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::blob;
use crate::digest::BlobDigest;
use crate::error::RegistryError;
use crate::layout::Layout;
use crate::manifest::{
    self, Descriptor, ImageParts, MANIFEST_BYTES_MAX, ManifestDocument, ManifestTarget,
    ParsedManifest,
};
use crate::platform::{Platform, Platforms};
use crate::progress::DownloadTally;
use crate::reference::ImageReference;
use crate::session::{FetchedManifest, ImageSession};

/// How deep indexes are in each other at most: an index may name indexes, and those images alone.
const INDEX_DEPTH_MAX: u32 = 2;
/// How many manifests of an image are fetched at most.
const MANIFESTS_MAX: usize = 256;

/// A variant of the image.
#[derive(Clone, Debug)]
pub(crate) struct ChosenVariant {
    pub(crate) platform: Platform,
    media_type: String,
    digest: BlobDigest,
    size: u64,
    parts: ImageParts,
}

impl ChosenVariant {
    /// Its configuration and its layers.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.parts.config).chain(&self.parts.layers)
    }

    /// Its descriptor in `index.json`.
    pub(crate) fn to_json(&self, tag: Option<&str>) -> Value {
        let mut platform = json!({ "os": "linux", "architecture": self.platform.architecture() });
        if let Some(variant) = self.platform.variant() {
            platform["variant"] = json!(variant);
        }
        let mut descriptor = json!({
            "mediaType": self.media_type,
            "digest": self.digest.to_string(),
            "size": self.size,
            "platform": platform,
        });
        if let Some(tag) = tag {
            descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
        }
        descriptor
    }
}

/// What is known of an image while its manifests are read.
#[derive(Debug)]
pub(crate) struct Collection<'a> {
    session: &'a ImageSession,
    layout: &'a Layout,
    image: &'a ImageReference,
    platforms: &'a Platforms,
    offered: BTreeSet<Platform>,
    chosen: Vec<ChosenVariant>,
    /// The manifests that were named, each once.
    named: BTreeSet<BlobDigest>,
    waiting: Vec<NamedManifest>,
}

/// A manifest that an index names, and that is to be read.
#[derive(Debug)]
struct NamedManifest {
    descriptor: Descriptor,
    /// How many indexes lead to it.
    depth: u32,
}

impl<'a> Collection<'a> {
    pub(crate) fn new(
        session: &'a ImageSession,
        layout: &'a Layout,
        image: &'a ImageReference,
        platforms: &'a Platforms,
    ) -> Self {
        let (offered, chosen, named, waiting) = Default::default();
        Self { session, layout, image, platforms, offered, chosen, named, waiting }
    }

    /// Reads manifests from that of the image's name on; returns the wanted variants.
    pub(crate) async fn of(
        mut self,
        root: FetchedManifest,
    ) -> Result<Vec<ChosenVariant>, RegistryError> {
        self.named.insert(root.digest);
        if let Some(kind) = self.read(root, 0, &ManifestTarget::Unsaid).await? {
            return Err(RegistryError::NotAnImage { image: self.image.to_string(), kind });
        }
        while let Some(named) = self.waiting.pop() {
            let fetched = self.fetched(&named.descriptor).await?;
            // What is no image beside images is none of this one's variants.
            let _artifact = self.read(fetched, named.depth, &named.descriptor.target).await?;
        }
        self.chosen.sort_by(|a, b| a.platform.cmp(&b.platform));
        let found: Vec<Platform> =
            self.chosen.iter().map(|chosen| chosen.platform.clone()).collect();
        let lacking = self.platforms.lacking(&found).map(Platform::to_string);
        match lacking.or_else(|| found.is_empty().then(|| "Linux".to_owned())) {
            None => Ok(self.chosen),
            Some(wanted) => Err(self.none(wanted)),
        }
    }

    /// The manifest that a descriptor names: from the directory if it is there.
    async fn fetched(&self, named: &Descriptor) -> Result<FetchedManifest, RegistryError> {
        if named.size > MANIFEST_BYTES_MAX {
            let why = format!("has {} bytes, of at most {MANIFEST_BYTES_MAX}", named.size);
            return Err(self.bad(named.digest, why));
        }
        let media_type = Some(named.media_type.clone());
        if self.layout.has(named.digest, named.size).await? {
            let bytes = self.layout.read(named.digest).await?;
            return Ok(FetchedManifest { digest: named.digest, media_type, bytes });
        }
        let fetched = self.session.child(named).await?;
        let found = fetched.bytes.len() as u64;
        if found != named.size {
            let why = format!("has {found} bytes where {} were promised", named.size);
            return Err(self.bad(named.digest, why));
        }
        Ok(FetchedManifest { media_type, ..fetched })
    }

    /// Reads a manifest; returns the type of what is no image.
    async fn read(
        &mut self,
        fetched: FetchedManifest,
        depth: u32,
        target: &ManifestTarget,
    ) -> Result<Option<String>, RegistryError> {
        let parsed = manifest::parse(&fetched.bytes, fetched.media_type.as_deref());
        let ParsedManifest { media_type, document } =
            parsed.map_err(|why| self.bad(fetched.digest, why))?;
        let parts = match document {
            ManifestDocument::Artifact(kind) => return Ok(Some(kind)),
            ManifestDocument::Index(named) => {
                self.name(&fetched, named, depth + 1)?;
                return Ok(None);
            }
            ManifestDocument::Image(parts) => parts,
        };
        let target = match target {
            ManifestTarget::Unsaid => self.target_of(fetched.digest, &parts.config).await?,
            said => said.clone(),
        };
        let ManifestTarget::Linux(platform) = target else { return Ok(None) };
        self.offered.insert(platform.clone());
        if self.platforms.includes(&platform) {
            self.layout.keep(fetched.digest, &fetched.bytes).await?;
            let (digest, size) = (fetched.digest, fetched.bytes.len() as u64);
            self.chosen.push(ChosenVariant { platform, media_type, digest, size, parts });
        }
        Ok(None)
    }

    /// Notes which of the manifests of an index are to be read.
    fn name(
        &mut self,
        index: &FetchedManifest,
        manifests: Vec<Descriptor>,
        depth: u32,
    ) -> Result<(), RegistryError> {
        if depth > INDEX_DEPTH_MAX {
            let why = format!("is an index within {INDEX_DEPTH_MAX} others, which is too deep");
            return Err(self.bad(index.digest, why));
        }
        for descriptor in manifests {
            let wanted = match &descriptor.target {
                ManifestTarget::Other => false,
                ManifestTarget::Unsaid => true,
                ManifestTarget::Linux(_) if descriptor.is_index() => true,
                ManifestTarget::Linux(platform) => {
                    self.offered.insert(platform.clone());
                    self.platforms.includes(platform)
                }
            };
            if wanted && self.named.insert(descriptor.digest) {
                self.waiting.push(NamedManifest { descriptor, depth });
            }
        }
        match self.named.len() > MANIFESTS_MAX {
            false => Ok(()),
            true => Err(self.bad(
                index.digest,
                format!("leads to more than {MANIFESTS_MAX} manifests; choose fewer platforms"),
            )),
        }
    }

    /// The platform of an image that only its configuration names.
    async fn target_of(
        &self,
        image: BlobDigest,
        config: &Descriptor,
    ) -> Result<ManifestTarget, RegistryError> {
        let silent = DownloadTally::new(1, config.size, Arc::new(|_| {}));
        blob::fetch(self.session, self.layout, config, &silent).await?;
        let bytes = self.layout.read(config.digest).await?;
        manifest::platform_of_config(&bytes).map_err(|why| self.bad(image, why))
    }

    fn bad(&self, manifest: BlobDigest, why: String) -> RegistryError {
        RegistryError::Manifest { image: self.image.to_string(), manifest, why }
    }

    fn none(&self, wanted: String) -> RegistryError {
        let (image, offered) = (self.image.to_string(), self.offered.iter().cloned().collect());
        RegistryError::NoPlatform { image, wanted, offered }
    }
}
