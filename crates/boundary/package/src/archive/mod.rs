//! Imports container images: OCI layouts, and what `docker save` writes.
//!
//! A source is one of these, told apart by what is in it:
//! - an OCI layout in a directory, or in an archive (`skopeo copy … oci-archive:`, `docker save` of
//!   version 25 and later)
//! - an archive with `manifest.json` and the layers in `ID/layer.tar` or elsewhere (older versions
//!   of `docker save`, `skopeo copy … docker-archive:`, `podman save`)
//!
//! An archive may be compressed as a whole, with gzip or zstd, and so may layers. All digests and
//! lengths that the image says are compared. Every platform of Linux becomes a variant;
//! attestations are skipped. Nothing is written but chunks: archives are read where they are.
//!
//! Not here: registries, signatures, and images for other systems.

mod choose;
mod decompress;
mod error;
mod image;
mod json;
mod sha256;
mod store;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::Path;

use crate::chunk::{ChunkSink, Contents};
use crate::layer::{self, LayerError, Lower, Member};
use crate::limits::{Budget, LimitError, PackageLimits};
use crate::manifest::{Manifest, Packed, Variant};
use crate::tree;

pub use error::ImportError;
use image::{Blob, Image, compare, compare_bytes, images};
use store::Store;

/// What to import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of the image, as in `docker save`, or its digest. Needed if there are several.
    pub image: Option<String>,
    /// The architectures to import, such as `amd64` and `arm/v7`; all if it is empty. One that the
    /// image is not for is left out, unless none is left.
    pub architectures: Vec<String>,
    /// Bounds of all variants together.
    pub limits: PackageLimits,
}

/// Imports an image from a directory or an archive as a package with one variant for each
/// architecture.
///
/// # Errors
/// The first thing that is wrong with the image, or an error of the sink. Some chunks may have
/// been kept.
pub fn import(
    source: &Path,
    options: &Options,
    sink: &mut dyn ChunkSink,
) -> Result<Packed, ImportError> {
    let mut budget = Budget::new(&options.limits);
    let store = Store::open(source, &budget)?;
    let images = images(&store, options)?;
    let mut read = read_in_order(&store, &images, &mut *sink, &mut budget)?;
    let mut variants = Vec::new();
    for image in images {
        let mut lower = Lower::default();
        let mut layers = Vec::new();
        for blob in &image.layers {
            let members = match read.get(&blob.name) {
                Some(members) => members.clone(),
                None => {
                    let mut contents = Contents::new(&mut *sink);
                    let mut members = Vec::new();
                    store.with(&blob.name, &mut |_, bytes| {
                        members = read_layer(blob, bytes, &mut contents, &mut budget)?;
                        Ok(())
                    })?;
                    members
                }
            };
            let tree = layer::tree(members, &lower).map_err(|source| of_layer(blob, source))?;
            layers.push(tree::encode(&tree, &mut *sink)?);
            lower.push(tree);
        }
        let (architecture, config) = (image.architecture, Some(image.config));
        variants.push(Variant { architecture, layers, config });
    }
    read.clear();
    Ok(Manifest { variants }.encode()?)
}

/// Reads all layers of a compressed archive; of others none, for they can be read one by one.
fn read_in_order(
    store: &Store,
    images: &[Image],
    sink: &mut dyn ChunkSink,
    budget: &mut Budget,
) -> Result<HashMap<String, Vec<Member>>, ImportError> {
    let mut read = HashMap::new();
    if !store.is_sequential() {
        return Ok(read);
    }
    let blobs: BTreeMap<&str, &Blob> =
        images.iter().flat_map(|image| &image.layers).map(|blob| (&blob.name[..], blob)).collect();
    let names: Vec<&str> = blobs.keys().copied().collect();
    let mut contents = Contents::new(sink);
    let outer = *budget;
    store.with_all(&names, &outer, &mut |name, bytes| {
        // Only these names were asked for.
        if let Some(blob) = blobs.get(name) {
            let members = read_layer(blob, bytes, &mut contents, budget)?;
            read.insert(name.to_owned(), members);
        }
        Ok(())
    })?;
    match names.iter().find(|name| !read.contains_key(**name)) {
        Some(name) => Err(ImportError::Missing { name: (*name).to_owned() }),
        None => Ok(read),
    }
}

/// Reads the members of a layer, and compares its digests and its length.
fn read_layer(
    blob: &Blob,
    bytes: &mut (dyn Read + Send),
    contents: &mut Contents<'_>,
    budget: &mut Budget,
) -> Result<Vec<Member>, ImportError> {
    let failed = |source| of_layer(blob, LayerError::Read { offset: 0, source });
    let limit = budget.decompressed();
    let (members, digests) = stream::decompress(bytes, limit, |reader| {
        let mut reader = reader.map_err(failed)?;
        let members = layer::members(&mut reader, contents, budget);
        let members = members.map_err(|source| of_layer(blob, source));
        if !matches!(members, Err(ImportError::Limit(_))) {
            // What follows the archive belongs to its digest.
            io::copy(&mut reader, &mut io::sink()).map_err(failed)?;
        }
        members
    });
    if let Err(ImportError::Limit(_)) = members {
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

fn of_layer(blob: &Blob, source: LayerError) -> ImportError {
    let limit = |source: &io::Error| {
        source.get_ref().and_then(|error| error.downcast_ref::<LimitError>()).cloned()
    };
    match source {
        LayerError::Limit(source) => ImportError::Limit(source),
        LayerError::Read { source, offset } => match limit(&source) {
            Some(source) => ImportError::Limit(source),
            None => {
                let source = LayerError::Read { offset, source };
                ImportError::Layer { name: blob.name.clone(), source }
            }
        },
        LayerError::Contents { source, path } => match limit(&source) {
            Some(source) => ImportError::Limit(source),
            None => {
                let source = LayerError::Contents { path, source };
                ImportError::Layer { name: blob.name.clone(), source }
            }
        },
        source => ImportError::Layer { name: blob.name.clone(), source },
    }
}
