//! What is reachable from a manifest.

use std::collections::HashSet;

use model::Digest;
use package::chunk::digest_of;
use package::manifest::{Layer, Manifest};
use package::tree::{EntryKind, Segment, TreeReader};
use package_store::{Error, PackageStore};
use tonic::Status;

use crate::failure;

/// The maximum number of different digests of a package.
pub(crate) const MAX_DIGESTS: usize = 1 << 20;

/// A package as the store has it.
#[derive(Debug)]
pub(crate) struct Walked {
    /// What its manifest says.
    pub(crate) manifest: Manifest,
    /// The size of everything that was not seen before, each digest once, in bytes.
    pub(crate) bytes_stored: u64,
}

/// The maximum size of the encoded tree of a layer, in bytes: it is in memory while it is read.
const TREE_BYTES_MAX: u64 = 256 << 20;

/// What was reached.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Every digest.
    all: HashSet<Digest>,
    /// The manifests and the trees that were read. The same bytes may also be a chunk, of this package or of another
    /// one: that alone does not reach what they refer to.
    manifests: HashSet<Digest>,
    trees: HashSet<Digest>,
}

impl Reached {
    /// Whether a digest was reached.
    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        self.all.contains(digest)
    }

    /// Every digest.
    pub(crate) fn into_all(self) -> HashSet<Digest> {
        self.all
    }
}

/// Reads the manifest and all trees of a package, and adds every digest to `reached`. What was read before is not
/// read again.
///
/// # Errors
/// `FAILED_PRECONDITION` for a digest that is not `there`, a length that is not that of the manifest or tree, and
/// bytes that are no manifest or tree; `RESOURCE_EXHAUSTED` for more than `max` digests; those of the store.
pub(crate) async fn walk(
    store: &PackageStore,
    manifest: Digest,
    there: impl Fn(&Digest) -> bool,
    reached: &mut Reached,
    max: usize,
) -> Result<Walked, Status> {
    let Reached { all, manifests, trees } = reached;
    let mut bytes_stored = 0;
    let mut visit = |digest: Digest, length: Option<u32>| {
        let is_new = !all.contains(&digest);
        if !is_new && length.is_none() {
            return Ok(());
        }
        let stored = store.length(&digest).filter(|_| there(&digest));
        let Some(stored) = stored else { return Err(missing(manifest, digest)) };
        if length.is_some_and(|length| length != stored) {
            let why =
                format!("package {manifest} is wrong about the length of {digest}: push it again");
            return Err(Status::failed_precondition(why));
        }
        if is_new {
            all.insert(digest);
            bytes_stored += u64::from(stored);
        }
        if all.len() > max {
            let why = format!("package {manifest} consists of more than {max} pieces");
            return Err(Status::resource_exhausted(why));
        }
        Ok(())
    };
    visit(manifest, None)?;
    let encoded = read(store, manifest, manifest).await?;
    let decoded = Manifest::decode(&encoded).map_err(|error| malformed(manifest, &error))?;
    let is_new = manifests.insert(manifest);
    for layer in decoded.layers().filter(|_| is_new) {
        for chunk in &layer.tree {
            visit(chunk.digest, Some(chunk.length))?;
        }
        if trees.insert(layer.digest) {
            let tree = tree(store, manifest, layer).await?;
            let mut has = Has::default();
            for entry in TreeReader::new(&*tree) {
                let entry = entry.map_err(|error| malformed(manifest, &error))?;
                (has.entries, has.bytes) =
                    (has.entries + 1, has.bytes.saturating_add(entry.bytes()));
                let EntryKind::File { segments } = &entry.kind else { continue };
                for segment in segments {
                    let Segment::Chunk(chunk) = segment else { continue };
                    visit(chunk.digest, Some(chunk.length))?;
                }
            }
            if has != (Has { entries: layer.entries, bytes: layer.unpacked }) {
                return Err(malformed(manifest, &"it is wrong about the size of a layer"));
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(Walked { manifest: decoded, bytes_stored })
}

/// What a tree has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Has {
    entries: u64,
    bytes: u64,
}

/// The encoded tree of a layer.
async fn tree(store: &PackageStore, manifest: Digest, layer: &Layer) -> Result<Vec<u8>, Status> {
    if layer.tree.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>() > TREE_BYTES_MAX {
        return Err(malformed(manifest, &"the list of files of a layer is too long"));
    }
    let mut tree = Vec::new();
    for chunk in &layer.tree {
        tree.extend_from_slice(&read(store, manifest, chunk.digest).await?);
    }
    match digest_of(&tree) == layer.digest {
        true => Ok(tree),
        false => Err(malformed(manifest, &"a list of files has another digest than it says")),
    }
}

async fn read(
    store: &PackageStore,
    manifest: Digest,
    digest: Digest,
) -> Result<bytes::Bytes, Status> {
    store.get(&digest).await.map_err(|error| match error {
        Error::NotFound { .. } => missing(manifest, digest),
        error => failure::of_store(&error),
    })
}

fn missing(manifest: Digest, digest: Digest) -> Status {
    Status::failed_precondition(format!(
        "package {manifest} is incomplete: {digest} was not uploaded; push it again"
    ))
}

fn malformed(manifest: Digest, why: &dyn std::fmt::Display) -> Status {
    Status::failed_precondition(format!("{manifest} is not the manifest of a package: {why}"))
}
