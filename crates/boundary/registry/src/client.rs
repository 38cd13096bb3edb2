//! Resolving and downloading.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::blob;
use crate::collect::{ChosenVariant, Collection};
use crate::digest::BlobDigest;
use crate::error::RegistryError;
use crate::exchange::Transport;
use crate::layout::Layout;
use crate::manifest::Descriptor;
use crate::platform::{Platform, Platforms};
use crate::progress::{DownloadTally, ProgressReport};
use crate::reference::ImageReference;
use crate::session::ImageSession;
use crate::settings::RegistrySettings;

/// How many blobs of an image are fetched at once.
const BLOBS_AT_ONCE: usize = 4;

/// A client of registries.
#[derive(Clone, Debug)]
pub struct RegistryClient {
    settings: RegistrySettings,
    transport: Transport,
}

/// An image that is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadedImage {
    /// The digest of the manifest or index that the name meant.
    pub digest: BlobDigest,
    /// The platforms whose variants are in the directory, sorted.
    pub platforms: Vec<Platform>,
    /// How many bytes the blobs have together, each counted once.
    pub bytes: u64,
}

impl RegistryClient {
    /// A client with these settings. Nothing is sent yet.
    ///
    /// # Errors
    /// The certificates or the proxy of the settings cannot be used.
    pub fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        let transport = Transport::new(&settings)?;
        Ok(Self { settings, transport })
    }

    /// The digest of the manifest or index that a name means. A name with a digest is looked up as well.
    ///
    /// # Errors
    /// There is no such image, this user may not read it, or the registry fails.
    pub async fn resolve(&self, image: &ImageReference) -> Result<BlobDigest, RegistryError> {
        ImageSession::open(self.transport.clone(), &self.settings, image).await?.resolve().await
    }

    /// Downloads the variants of an image for Linux on these platforms into a directory, as an OCI layout. The
    /// directory is created if it is missing. Its `index.json` names the variants that were asked for, each with its
    /// platform, and is written last; what it named before is not named any more. Blobs that are there and right
    /// are not fetched again.
    ///
    /// If the future is dropped, or fails, what has arrived stays in `partial/` of the directory, and the next download
    /// continues behind it.
    ///
    /// # Errors
    /// There is no such image, none for a platform that is named, or none for Linux; this user may not read it; the
    /// registry fails, or sends what it should not; the directory cannot be written, or is in use.
    pub async fn download(
        &self,
        image: &ImageReference,
        platforms: &Platforms,
        into: &Path,
        progress: ProgressReport,
    ) -> Result<DownloadedImage, RegistryError> {
        let session = ImageSession::open(self.transport.clone(), &self.settings, image).await?;
        let root = session.root().await?;
        let digest = root.digest;
        let layout = Layout::open(into).await?;
        let collection = Collection::new(&session, &layout, image, platforms);
        let variants = collection.of(root).await?;
        let blobs = distinct(image, digest, &variants)?;
        let bytes = self.total(image, &blobs)?;
        let tally = Arc::new(DownloadTally::new(blobs.len() as u64, bytes, progress));
        tally.tell();
        let layout = fetch_all(session, layout, blobs, tally).await?;
        layout
            .finish(variants.iter().map(|variant| variant.to_json(image.tag())).collect())
            .await?;
        let mut platforms: Vec<Platform> =
            variants.into_iter().map(|variant| variant.platform).collect();
        platforms.dedup();
        Ok(DownloadedImage { digest, platforms, bytes })
    }

    /// How many bytes the blobs have together.
    fn total(&self, image: &ImageReference, blobs: &[Descriptor]) -> Result<u64, RegistryError> {
        let bytes = blobs.iter().fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
        let max = self.settings.image_bytes_max;
        match bytes <= max {
            true => Ok(bytes),
            false => Err(RegistryError::Big { image: image.to_string(), bytes, max }),
        }
    }
}

/// The blobs of all variants, each once.
fn distinct(
    image: &ImageReference,
    root: BlobDigest,
    variants: &[ChosenVariant],
) -> Result<Vec<Descriptor>, RegistryError> {
    let mut sizes = BTreeMap::new();
    let mut blobs = Vec::new();
    for blob in variants.iter().flat_map(ChosenVariant::blobs) {
        match sizes.entry(blob.digest) {
            Entry::Vacant(entry) => {
                entry.insert(blob.size);
                blobs.push(blob.clone());
            }
            Entry::Occupied(entry) if *entry.get() == blob.size => {}
            Entry::Occupied(_) => {
                let why = format!("says of {} that it has two lengths", blob.digest);
                return Err(RegistryError::Manifest {
                    image: image.to_string(),
                    manifest: root,
                    why,
                });
            }
        }
    }
    Ok(blobs)
}

/// Fetches blobs, a few at once. The first that fails ends the others.
async fn fetch_all(
    session: ImageSession,
    layout: Layout,
    blobs: Vec<Descriptor>,
    tally: Arc<DownloadTally>,
) -> Result<Layout, RegistryError> {
    let shared = Arc::new((session, layout));
    let mut waiting = blobs.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < BLOBS_AT_ONCE
            && let Some(blob) = waiting.next()
        {
            let (shared, tally) = (Arc::clone(&shared), Arc::clone(&tally));
            running.spawn(async move {
                let (session, layout) = &*shared;
                blob::fetch(session, layout, &blob, &tally).await
            });
        }
        match running.join_next().await {
            None => break,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                // The directory is free again when this function ends.
                running.shutdown().await;
                return Err(error);
            }
            Some(Err(failed)) if failed.is_panic() => panic::resume_unwind(failed.into_panic()),
            // Nothing ends these tasks but the drop of all of them.
            Some(Err(_)) => {}
        }
    }
    drop(running);
    let shared = Arc::into_inner(shared).expect("every task has ended");
    Ok(shared.1)
}
