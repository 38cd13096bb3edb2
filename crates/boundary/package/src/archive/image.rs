//! Finds the images in files: their configuration and their layers, whose digests are verified
//! when they are read.

use std::collections::BTreeSet;

use super::ImportOptions;
use super::choose::{ImageChoice, choose};
use super::error::ImportError;
use super::files::ImageFiles;
use super::json::{Configuration, Descriptor, Document, Platform, Saved, architecture_name, parse};
use super::sha256::Sha256;
use crate::manifest::{ImageConfig, MAX_LAYERS};

/// How deep indexes are at most: `index.json` may name an index of an image, and that of platforms.
const MAX_INDEX_DEPTH: usize = 4;
/// How many manifests an image has at most, with its attestations.
const MAX_MANIFESTS: usize = 256;

/// The media types of the configuration of an image. Other artifacts have others.
const CONFIG_TYPES: [&str; 3] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
    "",
];

/// An image for one architecture.
pub(super) struct FoundImage {
    pub(super) architecture: String,
    pub(super) config: ImageConfig,
    pub(super) layers: Vec<LayerBlob>,
}

/// A layer.
pub(super) struct LayerBlob {
    /// The real name of its file.
    pub(super) name: String,
    /// The digest and the length of the file, if the image says them.
    pub(super) digest: Option<Sha256>,
    pub(super) bytes: Option<u64>,
    /// The digest of the archive after decompression, if the image says it.
    pub(super) diff_id: Option<Sha256>,
}

/// The chosen image, for each wanted architecture, sorted by architecture.
pub(super) fn images(
    files: &ImageFiles,
    options: &ImportOptions,
) -> Result<Vec<FoundImage>, ImportError> {
    let found = if files.has("index.json") {
        of_layout(files, options)?
    } else if files.has("manifest.json") {
        of_saved(files, options)?
    } else {
        let why = "it has neither index.json nor manifest.json".to_owned();
        return Err(ImportError::NotAnImage { path: files.path().to_owned(), why });
    };
    let mut names = Vec::new();
    let mut images: Vec<FoundImage> = Vec::new();
    for (configuration, layers) in found {
        let platform = &configuration.platform;
        let architecture = platform.name();
        let is_linux = matches!(&platform.os[..], "linux" | "");
        let named = |wanted: &String| architecture_name(wanted) == architecture;
        let is_wanted = options.architectures.is_empty() || options.architectures.iter().any(named);
        // Of several manifests for the same platform the first one counts.
        let is_there = images.iter().any(|image| image.architecture == architecture);
        if is_linux && is_wanted && !is_there {
            let config = configuration.image_config();
            config.check_start()?;
            images.push(FoundImage { architecture: architecture.clone(), config, layers });
        }
        names.push(format!("{}/{architecture}", platform.os));
    }
    if images.is_empty() {
        let wanted = match &options.architectures[..] {
            [] => vec!["linux".to_owned()],
            wanted => wanted.to_vec(),
        };
        return Err(ImportError::Architecture { wanted, found: names });
    }
    images.sort_by(|one, other| one.architecture.cmp(&other.architecture));
    Ok(images)
}

type ImagesFound = Vec<(Configuration, Vec<LayerBlob>)>;

/// Images of an OCI layout.
fn of_layout(files: &ImageFiles, options: &ImportOptions) -> Result<ImagesFound, ImportError> {
    let name = "index.json";
    let index: Document = parse(name, &files.small(name)?)?;
    let descriptors = index.manifests.ok_or_else(|| unsupported(name, "it is not an index"))?;
    let descriptors: Vec<Descriptor> =
        descriptors.into_iter().filter(|descriptor| !descriptor.is_attestation()).collect();
    // An index of platforms instead of an index of images.
    let is_one = descriptors
        .iter()
        .all(|descriptor| descriptor.platform.is_some() && descriptor.names().next().is_none());
    let first = descriptors.first().map(|descriptor| descriptor.digest.clone());
    let choice = |descriptor: Descriptor| {
        let names: Vec<String> = descriptor.names().map(str::to_owned).collect();
        let names = if is_one { first.clone().into_iter().collect() } else { names };
        ImageChoice { names, digest: descriptor.digest.clone(), image: descriptor }
    };
    let choices = descriptors.into_iter().map(choice).collect();
    let chosen = choose(choices, options.image.as_deref())?;
    let mut manifests =
        ManifestSearch { files, found: Vec::new(), seen: BTreeSet::new(), missing: None };
    manifests.add(chosen, 0)?;
    match (manifests.found, manifests.missing) {
        (found, Some(name)) if found.is_empty() => Err(ImportError::Missing { name }),
        (found, None) if found.is_empty() => Err(unsupported(name, "it names no image")),
        (found, _) => found.iter().map(|manifest| of_manifest(files, manifest)).collect(),
    }
}

/// A manifest of an image.
struct FoundManifest {
    name: String,
    document: Document,
    /// What the index says that it is for.
    platform: Option<Platform>,
}

/// Collects the manifests below indexes.
struct ManifestSearch<'a> {
    files: &'a ImageFiles,
    found: Vec<FoundManifest>,
    seen: BTreeSet<String>,
    /// Of an image for many platforms an archive may have only some.
    missing: Option<String>,
}

impl ManifestSearch<'_> {
    fn add(&mut self, descriptors: Vec<Descriptor>, depth: usize) -> Result<(), ImportError> {
        for descriptor in descriptors {
            if descriptor.is_attestation() || !self.seen.insert(descriptor.digest.clone()) {
                continue;
            }
            let (name, _) = blob(&descriptor)?;
            if self.seen.len() > MAX_MANIFESTS {
                return Err(unsupported(&name, "the image has more than 256 manifests"));
            }
            if !self.files.has(&name) {
                self.missing.get_or_insert(name);
                continue;
            }
            let document: Document = parse(&name, &verified(self.files, &descriptor)?)?;
            match document.manifests {
                Some(_) if depth == MAX_INDEX_DEPTH => {
                    return Err(unsupported(&name, "indexes are nested more than 4 deep"));
                }
                Some(descriptors) => self.add(descriptors, depth + 1)?,
                None => {
                    let platform = descriptor.platform;
                    self.found.push(FoundManifest { name, document, platform });
                }
            }
        }
        Ok(())
    }
}

fn of_manifest(
    files: &ImageFiles,
    manifest: &FoundManifest,
) -> Result<(Configuration, Vec<LayerBlob>), ImportError> {
    let FoundManifest { name, document, platform } = manifest;
    let (Some(config), Some(layers)) = (&document.config, &document.layers) else {
        return Err(unsupported(name, "it is neither an index nor the manifest of an image"));
    };
    if !CONFIG_TYPES.contains(&&config.media_type[..]) {
        let kind = config.media_type.escape_debug();
        let why = format!("it is an artifact of type '{kind}' and not an image");
        return Err(unsupported(name, &why));
    }
    let (config_name, _) = blob(config)?;
    let mut configuration: Configuration = parse(&config_name, &verified(files, config)?)?;
    if let Some(platform) = platform {
        configuration.platform.complete(platform);
    }
    let layer = |descriptor: &Descriptor| -> Result<LayerBlob, ImportError> {
        let (name, digest) = blob(descriptor)?;
        let name = files.real_name(&name).to_owned();
        Ok(LayerBlob { name, digest: Some(digest), bytes: Some(descriptor.size), diff_id: None })
    };
    let layers = layers.iter().map(layer).collect::<Result<_, ImportError>>()?;
    let layers = with_diff_ids(&config_name, &configuration, layers)?;
    Ok((configuration, layers))
}

/// Images of the file `manifest.json`.
fn of_saved(files: &ImageFiles, options: &ImportOptions) -> Result<ImagesFound, ImportError> {
    let name = "manifest.json";
    let saved: Vec<Saved> = parse(name, &files.small(name)?)?;
    let choice = |saved: Saved| ImageChoice {
        names: saved.repo_tags.clone().unwrap_or_default(),
        digest: saved.config.clone(),
        image: saved,
    };
    let choices: Vec<ImageChoice<Saved>> = saved.into_iter().map(choice).collect();
    if choices.is_empty() {
        return Err(unsupported(name, "it names no image"));
    }
    if choices.len() > MAX_MANIFESTS {
        return Err(unsupported(name, "it names more than 256 images"));
    }
    let chosen = choose(choices, options.image.as_deref())?;
    let image = |saved: &Saved| {
        let bytes = files.small(&saved.config)?;
        if let Some(expected) = digest_of_name(&saved.config) {
            compare(&saved.config, expected, Sha256::of(&bytes))?;
        }
        let configuration: Configuration = parse(&saved.config, &bytes)?;
        let layer = |name: &String| LayerBlob {
            name: files.real_name(name).to_owned(),
            // Other names are those of something else.
            digest: name.starts_with("blobs/").then(|| digest_of_name(name)).flatten(),
            bytes: None,
            diff_id: None,
        };
        let layers = saved.layers.iter().flatten().map(layer).collect();
        let layers = with_diff_ids(&saved.config, &configuration, layers)?;
        Ok((configuration, layers))
    };
    chosen.iter().map(image).collect()
}

/// The digest in a name such as `DIGITS.json` or `blobs/sha256/DIGITS`.
fn digest_of_name(name: &str) -> Option<Sha256> {
    let last = name.rsplit('/').next()?;
    Sha256::from_hex(last.split('.').next()?)
}

/// Adds the digests of the uncompressed layers.
fn with_diff_ids(
    name: &str,
    configuration: &Configuration,
    mut layers: Vec<LayerBlob>,
) -> Result<Vec<LayerBlob>, ImportError> {
    if layers.len() > MAX_LAYERS {
        return Err(unsupported(name, "the image has more than 500 layers"));
    }
    let diff_ids = configuration.diff_ids();
    if diff_ids.len() != layers.len() {
        let why = format!("it has {} diff_ids for {} layers", diff_ids.len(), layers.len());
        return Err(unsupported(name, &why));
    }
    for (layer, diff_id) in layers.iter_mut().zip(diff_ids) {
        let parsed = Sha256::parse(diff_id);
        layer.diff_id =
            Some(parsed.ok_or_else(|| unsupported(name, "a diff_id is no SHA-256 digest"))?);
    }
    Ok(layers)
}

/// The name of the file that a descriptor names, and its digest.
fn blob(descriptor: &Descriptor) -> Result<(String, Sha256), ImportError> {
    let digest = Sha256::parse(&descriptor.digest).ok_or_else(|| {
        let name: String = descriptor.digest.chars().take(100).collect();
        unsupported(&name, "it is named by something else than a SHA-256 digest")
    })?;
    Ok((format!("blobs/sha256/{}", digest.hex()), digest))
}

/// The contents of a small file, whose length and digest are compared.
fn verified(files: &ImageFiles, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError> {
    let (name, digest) = blob(descriptor)?;
    let bytes = files.small(&name)?;
    compare_bytes(&name, descriptor.size, bytes.len() as u64)?;
    compare(&name, digest, Sha256::of(&bytes))?;
    Ok(bytes)
}

pub(super) fn compare(name: &str, expected: Sha256, found: Sha256) -> Result<(), ImportError> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (expected.to_string(), found.to_string());
    Err(ImportError::Damaged { name: name.to_owned(), expected, found })
}

pub(super) fn compare_bytes(name: &str, expected: u64, found: u64) -> Result<(), ImportError> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (format!("{expected} bytes"), format!("{found} bytes"));
    Err(ImportError::Damaged { name: name.to_owned(), expected, found })
}

fn unsupported(name: &str, why: &str) -> ImportError {
    ImportError::Unsupported { name: name.to_owned(), why: why.to_owned() }
}
