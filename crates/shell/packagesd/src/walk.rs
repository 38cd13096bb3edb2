//! What is reachable from a manifest.

use std::collections::HashSet;

use model::Digest;
use package::chunk::{ChunkRef, ChunkSink as _, MemoryChunks, digest_of};
use package::manifest::{Layer, Manifest, Variant};
use package::tree::MAX_TREE_BYTES;
use package::verify::reachable;
use package_store::{Error, PackageStore};
use tonic::Status;

use crate::failure;

/// The maximum number of different digests of a package.
pub(crate) const PACKAGE_DIGESTS_MAX: usize = 1 << 20;

/// A package as the store has it.
#[derive(Debug)]
pub(crate) struct Walked {
    /// What it consists of, as its trees say, too.
    pub(crate) manifest: Manifest,
    /// The size of everything that was not reached before, each digest once, in bytes.
    pub(crate) bytes_stored: u64,
}

/// What was reached.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Every digest.
    all: HashSet<Digest>,
    /// The manifests and the layers that were read. The same bytes may also be a chunk of a file, of this package or
    /// of another one: that alone does not reach what they refer to.
    manifests: HashSet<Digest>,
    layers: HashSet<Digest>,
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
/// `FAILED_PRECONDITION` for a digest that is not `there`, a length that is not that of the manifest or tree, bytes
/// that are no manifest or tree, and a manifest that says something else of a layer than its tree;
/// `RESOURCE_EXHAUSTED` for more than `max` digests; those of the store.
pub(crate) async fn walk(
    store: &PackageStore,
    digest: Digest,
    there: impl Fn(&Digest) -> bool,
    reached: &mut Reached,
    max: usize,
) -> Result<Walked, Status> {
    let Reached { all, manifests, layers } = reached;
    let mut bytes_stored = 0;
    let mut visit = |chunk: Digest, length: Option<u32>| {
        let is_new = !all.contains(&chunk);
        if !is_new && length.is_none() {
            return Ok(());
        }
        let stored = store.length(&chunk).filter(|_| there(&chunk));
        let Some(stored) = stored else { return Err(missing(digest, chunk)) };
        if length.is_some_and(|length| length != stored) {
            let why =
                format!("package {digest} is wrong about the length of {chunk}: push it again");
            return Err(Status::failed_precondition(why));
        }
        if is_new {
            all.insert(chunk);
            bytes_stored += u64::from(stored);
        }
        if all.len() > max {
            let why = format!("package {digest} consists of more than {max} pieces");
            return Err(Status::resource_exhausted(why));
        }
        Ok(())
    };
    visit(digest, None)?;
    let manifest = Manifest::decode(&read(store, digest, digest).await?);
    let manifest = manifest.map_err(|error| malformed(digest, &error))?;
    if manifests.insert(digest) {
        for layer in manifest.variants.iter().flat_map(|variant| &variant.layers) {
            for chunk in &layer.tree {
                visit(chunk.digest, Some(chunk.length))?;
            }
            if layers.insert(identity(layer)) {
                for chunk in files(store, digest, layer.clone(), max).await? {
                    visit(chunk.digest, Some(chunk.length))?;
                }
            }
        }
    }
    Ok(Walked { manifest, bytes_stored })
}

/// A digest of everything that a manifest says of a layer.
fn identity(layer: &Layer) -> Digest {
    let numbers = [layer.stored, layer.unpacked, layer.entries].map(u64::to_le_bytes);
    let tree = layer
        .tree
        .iter()
        .flat_map(|chunk| [&chunk.digest.as_bytes()[..], &chunk.length.to_le_bytes()].concat());
    let all: Vec<u8> =
        layer.digest.as_bytes().iter().copied().chain(numbers.concat()).chain(tree).collect();
    digest_of(&all)
}

/// The chunks of the files of a layer, each once; one more than `max` at most.
async fn files(
    store: &PackageStore,
    package: Digest,
    layer: Layer,
    max: usize,
) -> Result<HashSet<ChunkRef>, Status> {
    let bytes: u64 = layer.tree.iter().map(|chunk| u64::from(chunk.length)).sum();
    if bytes > MAX_TREE_BYTES {
        let why = format!("a tree of package {package} has more than {MAX_TREE_BYTES} bytes");
        return Err(Status::failed_precondition(why));
    }
    let mut tree = MemoryChunks::new();
    for chunk in &layer.tree {
        let bytes = read(store, package, chunk.digest).await?;
        tree.put(chunk.digest, &bytes).map_err(|error| Status::internal(error.to_string()))?;
    }
    // Trees may be large, and reading them is all computation.
    let found = tokio::task::spawn_blocking(move || {
        let (mut files, in_tree) = (HashSet::new(), layer.tree.len());
        let mut seen = 0;
        let variant = Variant { layers: vec![layer.clone()], ..Variant::default() };
        let alone = Manifest { variants: vec![variant] };
        let read = reachable(&alone, &mut tree, &mut |chunk| {
            seen += 1;
            if seen > in_tree && files.len() <= max {
                files.insert(*chunk);
            }
        });
        let all: HashSet<ChunkRef> = layer.tree.iter().chain(&files).copied().collect();
        let has: u64 = all.iter().map(|chunk| u64::from(chunk.length)).sum();
        read.map(|()| (files, layer.stored, has))
    });
    let found = found.await.map_err(|error| Status::internal(error.to_string()))?;
    let (files, said, has) = found.map_err(|error| malformed(package, &error))?;
    // With more than the maximum, not all were counted: then the package is rejected for that.
    if said != has && files.len() <= max {
        return Err(Status::failed_precondition(format!(
            "{package} is not a package: a layer has {has} bytes in chunks, and its manifest says {said}"
        )));
    }
    Ok(files)
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

fn malformed(package: Digest, why: &dyn std::error::Error) -> Status {
    Status::failed_precondition(format!("{package} is not a package: {why}"))
}
