//! What is reachable from a manifest.

use std::collections::HashSet;

use model::Digest;
use package_store::{Error, PackageStore};
use tonic::Status;

use crate::contents::{self, Contents, Reference};
use crate::failure;

/// The maximum number of different digests of a package.
pub(crate) const MAX_DIGESTS: usize = 1 << 20;

/// A package as the store has it.
#[derive(Debug)]
pub(crate) struct Walked {
    /// What its manifest says.
    pub(crate) contents: Contents,
    /// The size of everything that was not seen before, each digest once, in bytes.
    pub(crate) bytes_stored: u64,
}

/// Reads the manifest and all trees of a package, and adds every digest to `seen`. Trees that were seen
/// before are not read again.
///
/// # Errors
/// `FAILED_PRECONDITION` for a digest that is not `there`, a length that is not that of the manifest or tree, and
/// bytes that are no manifest or tree; `RESOURCE_EXHAUSTED` for more than `max` digests; those of the store.
pub(crate) async fn walk(
    store: &PackageStore,
    manifest: Digest,
    there: impl Fn(&Digest) -> bool,
    seen: &mut HashSet<Digest>,
    max: usize,
) -> Result<Walked, Status> {
    let mut bytes_stored = 0;
    let mut visit = |digest: Digest, length: Option<u32>, seen: &mut HashSet<Digest>| {
        if !seen.insert(digest) {
            return Ok(false);
        }
        if seen.len() > max {
            let why = format!("package {manifest} consists of more than {max} pieces");
            return Err(Status::resource_exhausted(why));
        }
        let stored = store.length(&digest).filter(|_| there(&digest));
        let Some(stored) = stored else { return Err(missing(manifest, digest)) };
        if length.is_some_and(|length| length != stored) {
            let why =
                format!("package {manifest} is wrong about the length of {digest}: push it again");
            return Err(Status::failed_precondition(why));
        }
        bytes_stored += u64::from(stored);
        Ok(true)
    };
    let is_new = visit(manifest, None, seen)?;
    let contents = contents::manifest(&read(store, manifest, manifest).await?);
    let mut contents = contents.map_err(|why| malformed("manifest", manifest, &why))?;
    let references = std::mem::take(&mut contents.references);
    let mut next = is_new.then_some(references);
    // Trees that are to be read, each once.
    let mut trees = Vec::new();
    while let Some(references) = next.take() {
        for reference in references {
            match reference {
                Reference::Chunk(digest, length) => _ = visit(digest, Some(length), seen)?,
                Reference::Tree(digest) => {
                    if visit(digest, None, seen)? {
                        trees.push(digest);
                    }
                }
            }
        }
        if let Some(digest) = trees.pop() {
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
