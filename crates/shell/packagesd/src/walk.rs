//! What is reachable from a manifest.

use std::collections::HashSet;

use model::Digest;
use package_store::{Error, PackageStore};
use tonic::Status;

use crate::contents::{self, Contents, Reference};
use crate::failure;

/// The maximum number of different digests of a package.
pub(crate) const PACKAGE_DIGESTS_MAX: usize = 1 << 20;

/// A package as the store has it.
#[derive(Debug)]
pub(crate) struct Walked {
    /// What its manifest says.
    pub(crate) contents: Contents,
    /// The size of everything that was not seen before, each digest once, in bytes.
    pub(crate) bytes_stored: u64,
}

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
    let contents = contents::manifest(&read(store, manifest, manifest).await?);
    let mut contents = contents.map_err(|why| malformed("manifest", manifest, &why))?;
    let references = std::mem::take(&mut contents.references);
    let mut next = manifests.insert(manifest).then_some(references);
    // Trees that are to be read, each once.
    let mut pending = Vec::new();
    while let Some(references) = next.take() {
        for reference in references {
            match reference {
                Reference::Chunk(digest, length) => visit(digest, Some(length))?,
                Reference::Tree(digest) => {
                    visit(digest, None)?;
                    if trees.insert(digest) {
                        pending.push(digest);
                    }
                }
            }
        }
        if let Some(digest) = pending.pop() {
            let tree = contents::tree(&read(store, manifest, digest).await?);
            next = Some(tree.map_err(|why| malformed("tree", digest, &why))?);
            tokio::task::yield_now().await;
        }
    }
    Ok(Walked { contents, bytes_stored })
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

fn malformed(what: &str, digest: Digest, why: &str) -> Status {
    Status::failed_precondition(format!("{digest} is not a {what} of a package: {why}"))
}
