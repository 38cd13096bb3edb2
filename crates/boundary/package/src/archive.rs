//! From a container image to a package.
//!
//! A source is one of these, told apart by what is in it:
//! - an OCI layout in a directory, or in an archive (`skopeo copy … oci-archive:`, `docker save` of
//!   version 25 and later)
//! - an archive with `manifest.json` and the layers in `ID/layer.tar` or elsewhere (older versions
//!   of `docker save`, `skopeo copy … docker-archive:`, `podman save`)
//!
//! An archive may be compressed as a whole, with gzip or zstd, and so may layers. All digests and
//! lengths that the image says are compared. Every platform of Linux becomes a variant;
//! attestations are skipped. Nothing is written but chunks: archives are read where they are, and only
//! the metadata of files is held in memory.
//!
//! The same image is the same package, in any of these forms and however often it is imported. Other
//! than those of a directory, its files keep owners, times and extended attributes.
//!
//! Not here: registries, signatures, and images for other systems.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::Path;

use crate::chunk::{ChunkSink, digest_of};
use crate::contents::{Contents, OnceSink};
use crate::directory::Packed;
use crate::manifest::{Manifest, Variant};

pub use self::error::{ArchiveError, ImportError};
pub use self::layer::LayerStack;
pub use self::limits::{ImportLimits, LimitError};
pub use self::path::PathError;

use self::files::ImageFiles;
use self::image::{FoundImage, LayerBlob, compare, compare_bytes, images};
use self::layer::LowerLayers;
use self::limits::ImportBudget;
use self::tar::{LayerMember, members};

mod choose;
mod decompress;
mod error;
mod files;
mod image;
mod json;
mod layer;
mod limits;
mod path;
mod sha256;
mod stream;
mod tar;

/// What to import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The name of the image, as in `docker save`, or its digest. Needed if there are several.
    pub image: Option<String>,
    /// The architectures to import, such as `amd64` and `arm/v7`; all if it is empty. One that the
    /// image is not for is left out, unless none is left.
    pub architectures: Vec<String>,
    /// Bounds of all variants together.
    pub limits: ImportLimits,
}

/// Imports an image from a directory or an archive as a package with one variant for each
/// architecture. All chunks go to the sink, each once: of the files, of the trees, and last the manifest
/// as one chunk.
///
/// # Errors
///
/// The first thing that is wrong with the image, or an error of the sink. Chunks that were given to the
/// sink until then are of no use.
pub fn import(
    source: &Path,
    options: &ImportOptions,
    sink: &mut dyn ChunkSink,
) -> Result<Packed, ImportError> {
    let mut budget = ImportBudget::new(&options.limits);
    let files = ImageFiles::open(source, &budget)?;
    let images = images(&files, options)?;
    let mut importer = Importer {
        files,
        contents: Contents::new(),
        sink: OnceSink::new(sink),
        read: HashMap::new(),
    };
    importer.read_in_order(&images, &mut budget)?;
    let mut variants = Vec::new();
    for image in images {
        variants.push(importer.variant(image, &mut budget)?);
    }
    let manifest = Manifest { variants };
    let bytes = manifest.encode()?;
    let digest = digest_of(&bytes);
    importer.sink.put(digest, &bytes).map_err(ImportError::Sink)?;
    Ok(Packed { manifest, bytes, digest })
}

struct Importer<'a> {
    files: ImageFiles,
    contents: Contents,
    sink: OnceSink<'a>,
    /// The members of all layers of a compressed archive, by the names of their files.
    read: HashMap<String, Vec<LayerMember>>,
}

impl Importer<'_> {
    fn variant(
        &mut self,
        image: FoundImage,
        budget: &mut ImportBudget,
    ) -> Result<Variant, ImportError> {
        let mut lower = LowerLayers::default();
        let mut layers = Vec::new();
        for blob in &image.layers {
            let members = self.members(blob, budget)?;
            let layer = layer::add(members, &mut lower, &mut self.sink, budget);
            layers.push(layer.map_err(|error| of_layer(blob, error))?);
        }
        Ok(Variant { architecture: image.architecture, layers, config: Some(image.config) })
    }

    fn members(
        &mut self,
        blob: &LayerBlob,
        budget: &mut ImportBudget,
    ) -> Result<Vec<LayerMember>, ImportError> {
        if let Some(members) = self.read.get(&blob.name) {
            return Ok(members.clone());
        }
        let Self { files, contents, sink, .. } = self;
        let mut members = Vec::new();
        files.with(&blob.name, &mut |_, bytes| {
            members = read_layer(blob, bytes, contents, sink, budget)?;
            Ok(())
        })?;
        Ok(members)
    }

    /// Reads all layers of a compressed archive; of others none, for they can be read one by one.
    fn read_in_order(
        &mut self,
        images: &[FoundImage],
        budget: &mut ImportBudget,
    ) -> Result<(), ImportError> {
        let Self { files, contents, sink, read } = self;
        if !files.is_sequential() {
            return Ok(());
        }
        let blobs: BTreeMap<&str, &LayerBlob> = images
            .iter()
            .flat_map(|image| &image.layers)
            .map(|blob| (&blob.name[..], blob))
            .collect();
        let names: Vec<&str> = blobs.keys().copied().collect();
        let outer = *budget;
        files.with_all(&names, &outer, &mut |name, bytes| {
            // Only these names were asked for.
            if let Some(blob) = blobs.get(name) {
                let members = read_layer(blob, bytes, contents, sink, budget)?;
                read.insert(name.to_owned(), members);
            }
            Ok(())
        })?;
        match names.iter().find(|name| !read.contains_key(**name)) {
            Some(name) => Err(ImportError::Missing { name: (*name).to_owned() }),
            None => Ok(()),
        }
    }
}

/// Reads the members of a layer, and compares its digests and its length.
fn read_layer(
    blob: &LayerBlob,
    bytes: &mut (dyn Read + Send),
    contents: &mut Contents,
    sink: &mut dyn ChunkSink,
    budget: &mut ImportBudget,
) -> Result<Vec<LayerMember>, ImportError> {
    let failed = |source| of_layer(blob, ArchiveError::Read { offset: 0, source });
    let limit = budget.decompressed();
    let (members, digests) = stream::decompress(bytes, limit, |reader| {
        let mut reader = reader.map_err(failed)?;
        let members = members(&mut reader, contents, sink, budget);
        let members = members.map_err(|source| of_layer(blob, source));
        if !is_final(&members) {
            // What follows the archive belongs to its digest.
            io::copy(&mut reader, &mut io::sink()).map_err(failed)?;
        }
        members
    });
    if is_final(&members) {
        return members;
    }
    // If the bytes are not those of the image, then this is why a member is not valid.
    let digests = match digests {
        Ok(digests) => digests,
        Err(error) => return members.and(Err(failed(error))),
    };
    if let Some(expected) = blob.bytes {
        compare_bytes(&blob.name, expected, digests.blob_bytes)?;
    }
    if let Some(expected) = blob.digest {
        compare(&blob.name, expected, digests.blob)?;
    }
    let members = members?;
    budget.spend_decompressed(digests.archive_bytes);
    if let Some(expected) = blob.diff_id {
        compare(&blob.name, expected, digests.archive)?;
    }
    Ok(members)
}

/// Whether nothing else that may be wrong with a layer matters.
fn is_final(members: &Result<Vec<LayerMember>, ImportError>) -> bool {
    matches!(members, Err(ImportError::Limit(_) | ImportError::Sink(_)))
}

fn of_layer(blob: &LayerBlob, error: ArchiveError) -> ImportError {
    match error {
        ArchiveError::Limit(limit) => ImportError::Limit(limit),
        ArchiveError::Sink(source) => ImportError::Sink(source),
        error => match error.limit() {
            Some(limit) => ImportError::Limit(limit),
            None => ImportError::Layer { name: blob.name.clone(), source: error },
        },
    }
}
