//! `bourg package build`: a directory becomes a version.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use api::v1;
use clap::Args;
use client::packages::{Offered, Sending, StoreError};
use client::{Connection, Target};
use command::{Done, Failure, output, with_cell};
use model::{Bytes, Digest, PackageName, PackageReference, PackageVersion, UserName};
use package::chunk::ChunkSink;
use package::directory::{self, PackLimits, Packed};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::Readers;

/// The number of chunks that wait to be sent.
const QUEUE: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The directory.
    directory: PathBuf,
    /// The name of the package.
    #[arg(long)]
    name: PackageName,
    /// The version. Default: the first digits of the digest, so that the same files have the same version.
    #[arg(long)]
    version: Option<PackageVersion>,
    /// The owner of the package. Default: you.
    #[arg(long, value_name = "USER")]
    owner: Option<UserName>,
    #[command(flatten)]
    readers: Readers,
}

/// Remembers which chunks a package has.
#[derive(Debug, Default)]
struct Digests(BTreeSet<Digest>);

impl ChunkSink for Digests {
    fn put(&mut self, digest: Digest, _: &[u8]) -> io::Result<()> {
        self.0.insert(digest);
        Ok(())
    }
}

/// Passes on the chunks that a store lacks.
struct Missing {
    offered: Offered,
    chunks: mpsc::Sender<Vec<u8>>,
}

impl ChunkSink for Missing {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        if !self.offered.take(&digest) {
            return Ok(());
        }
        let ended = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the upload has ended");
        self.chunks.blocking_send(bytes.to_vec()).map_err(ended)
    }
}

/// Packs a directory on a thread.
async fn pack<S: ChunkSink + Send + 'static>(
    directory: &Path,
    mut sink: S,
) -> Result<(Packed, S), Failure> {
    let directory = directory.to_owned();
    let packed = spawn_blocking(move || {
        directory::pack(&directory, &mut sink, &PackLimits::default()).map(|packed| (packed, sink))
    });
    packed
        .await
        .map_err(Failure::failed)?
        .map_err(|error| Failure::failed(format!("error: {error}")))
}

pub(super) fn build(cell: Target<'_>, args: &BuildArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let (packed, Digests(digests)) = pack(&args.directory, Digests::default()).await?;
        let short = packed.digest.to_string()[..12].parse();
        let version = match &args.version {
            Some(version) => version.clone(),
            None => short.map_err(Failure::failed)?,
        };
        let (owner, name) = (args.owner.clone(), args.name.clone());
        let reference = PackageReference { owner, name, version }.to_string();
        let request = v1::UploadPackageRequest { id: reference.clone() };
        let allowed = connection
            .ask(request, async |mut client, request| client.packages.upload(request).await)
            .await?;
        let id = allowed.id.clone();
        if let Some(exists) = &allowed.exists {
            if exists.digest != packed.digest.to_string() {
                return Err(Failure::failed(format!(
                    "error: {id} exists with another content: a version never changes"
                ))
                .next("give the new content another version (--version)"));
            }
            if !args.readers.is_given() {
                return output::print(&format!("{id} is unchanged\n"));
            }
            set(&mut connection, &args.readers, reference, None).await?;
            return output::print(&format!("{id} is unchanged, and its readers are set\n"));
        }
        let digests: Vec<Digest> = digests.into_iter().collect();
        let (receipt, sent) = upload(&connection, args, allowed, &packed, &digests).await?;
        let package = set(&mut connection, &args.readers, reference, Some(receipt)).await?;
        let stored = Bytes(u64::try_from(package.stored_bytes).unwrap_or_default());
        output::print(&format!("{id}: {stored}, {sent} sent, digest {}\n", package.digest))
    })
}

/// Sends what the store lacks. Returns the receipt, and how much was sent.
async fn upload(
    connection: &Connection,
    args: &BuildArgs,
    allowed: v1::UploadPackageResponse,
    packed: &Packed,
    digests: &[Digest],
) -> Result<(v1::Statement, Bytes), Failure> {
    let failed = |error: StoreError| Failure::failed(format!("error: {error}"));
    let store = allowed.stores.first().ok_or_else(|| failed(StoreError::NoStore))?;
    let right = allowed.right.unwrap_or_default();
    let credentials = connection.credentials().ok_or_else(|| {
        Failure::failed("error: this connection has no certificate for a store of packages")
    })?;
    let begun = Sending::begin(store, credentials, right, allowed.bases).await;
    let mut sending = begun.map_err(failed)?;
    let offered = sending.offer(digests).await.map_err(failed)?;
    let mut sent = 0;
    if !offered.is_empty() {
        let (chunks, mut missing) = mpsc::channel(QUEUE);
        // The sink ends with it: then no chunk is missing any more.
        let packing = async {
            pack(&args.directory, Missing { offered, chunks }).await.map(|(again, _)| again)
        };
        let transfer = async {
            while let Some(chunk) = missing.recv().await {
                sent += chunk.len() as u64;
                sending.chunk(chunk).await?;
            }
            Ok(())
        };
        let (packed_again, transferred) = tokio::join!(packing, transfer);
        transferred.map_err(failed)?;
        if packed_again?.digest != packed.digest {
            return Err(Failure::failed(format!(
                "error: {} changed while it was read",
                args.directory.display()
            ))
            .next("build the package again when nothing writes there"));
        }
    }
    Ok((sending.commit(packed.digest).await.map_err(failed)?, Bytes(sent)))
}

async fn set(
    connection: &mut Connection,
    readers: &Readers,
    package: String,
    receipt: Option<v1::Statement>,
) -> Result<v1::Package, Failure> {
    let id = connection.request_id().await?;
    let request = readers.request(id, package, receipt);
    let answer = connection
        .ask(request, async |mut client, request| client.packages.set(request).await)
        .await?;
    Ok(answer.package.unwrap_or_default())
}
