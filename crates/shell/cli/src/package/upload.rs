//! A new version of a package: its content is read twice. First its digest and those of its parts are learned, then
//! what the store lacks is sent. So nothing is kept on the way, whatever the size.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use api::v1;
use client::Connection;
use client::packages::{MissingChunks, Sending, StoreError};
use command::Failure;
use model::{Bytes, Digest, PackageName, PackageReference, PackageVersion, UserName};
use package::archive::{self, ImportOptions};
use package::chunk::ChunkSink;
use package::directory::{self, PackLimits, Packed};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Readers;

/// How long a store is waited for if the cell knows none, and the delay between two questions.
const STORE_PATIENCE: Duration = Duration::from_secs(5);
const STORE_RETRY: Duration = Duration::from_millis(100);

/// What becomes a package.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The files of a directory.
    Directory(PathBuf),
    /// A container image.
    Image {
        /// A directory or an archive.
        path: PathBuf,
        /// Which image, and what of it.
        options: Box<ImportOptions>,
    },
}

/// A version to be added.
#[derive(Clone, Debug)]
pub(crate) struct NewVersion {
    /// Its owner; `None`: the user who adds it.
    pub(crate) owner: Option<UserName>,
    pub(crate) name: PackageName,
    /// `None`: the first digits of the digest.
    pub(crate) version: Option<PackageVersion>,
    pub(crate) readers: Readers,
}

/// What has become of a version.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    /// The version, with its owner.
    pub(crate) id: String,
    pub(crate) outcome: UploadOutcome,
}

/// Whether there was anything to do.
#[derive(Clone, Debug)]
pub(crate) enum UploadOutcome {
    /// The version was there, with this content.
    Unchanged,
    /// The version was there, and has other readers now.
    Shared,
    /// The version is new.
    New {
        /// The bytes of its chunks.
        stored: Bytes,
        /// The bytes that the store lacked.
        sent: Bytes,
        digest: String,
    },
}

impl Added {
    /// Whether anything was added.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.outcome, UploadOutcome::New { .. })
    }
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        match &self.outcome {
            UploadOutcome::Unchanged => write!(f, "{id} is unchanged"),
            UploadOutcome::Shared => write!(f, "{id} is unchanged, and its readers are set"),
            UploadOutcome::New { stored, sent, digest } => {
                write!(f, "{id}: {stored}, {sent} sent, digest {digest}")
            }
        }
    }
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
struct Missing(MissingChunks);

impl ChunkSink for Missing {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        self.0.put(digest, bytes)
    }
}

impl Content {
    fn read_here(&self, sink: &mut dyn ChunkSink) -> Result<Packed, String> {
        match self {
            Self::Directory(directory) => {
                let packed = directory::pack(directory, sink, &PackLimits::default());
                packed.map_err(|error| error.to_string())
            }
            Self::Image { path, options } => {
                archive::import(path, options, sink).map_err(|error| error.to_string())
            }
        }
    }

    /// Reads it on a thread.
    async fn read<S: ChunkSink + Send + 'static>(
        &self,
        mut sink: S,
    ) -> Result<(Packed, S), Failure> {
        let content = self.clone();
        let read =
            spawn_blocking(move || content.read_here(&mut sink).map(|packed| (packed, sink)));
        let read = read.await.map_err(Failure::failed)?;
        read.map_err(|error| Failure::failed(format!("error: {error}")))
    }

    /// The version that it has if none is given: the first digits of its digest.
    pub(crate) fn version(&self) -> Result<PackageVersion, Failure> {
        let packed = self.read_here(&mut Digests::default());
        short(&packed.map_err(|error| Failure::failed(format!("error: {error}")))?)
    }

    /// It was not the same the second time.
    fn changed(&self) -> Failure {
        let (Self::Directory(path) | Self::Image { path, .. }) = self;
        Failure::failed(format!("error: {} changed while it was read", path.display()))
            .next("try again when nothing writes there")
    }
}

/// Adds a version of a package.
pub(crate) async fn add(
    connection: &mut Connection,
    new: &NewVersion,
    content: &Content,
) -> Result<Added, Failure> {
    let (packed, Digests(digests)) = content.read(Digests::default()).await?;
    let version = match &new.version {
        Some(version) => version.clone(),
        None => short(&packed)?,
    };
    let (owner, name) = (new.owner.clone(), new.name.clone());
    let reference = PackageReference { owner, name, version }.to_string();
    let allowed = permission(connection, &reference).await?;
    let id = allowed.id.clone();
    if let Some(exists) = &allowed.exists {
        if exists.digest != packed.digest.to_string() {
            return Err(Failure::failed(format!(
                "error: {id} exists with another content: a version never changes"
            ))
            .next("give the new content another version (--version)"));
        }
        if !new.readers.is_given() {
            return Ok(Added { id, outcome: UploadOutcome::Unchanged });
        }
        set(connection, &new.readers, reference, None).await?;
        return Ok(Added { id, outcome: UploadOutcome::Shared });
    }
    let digests: Vec<Digest> = digests.into_iter().collect();
    let (receipt, sent) = upload(connection, content, allowed, &packed, &digests).await?;
    let package = set(connection, &new.readers, reference, Some(receipt)).await?;
    let stored = Bytes(u64::try_from(package.stored_bytes).unwrap_or_default());
    Ok(Added { id, outcome: UploadOutcome::New { stored, sent, digest: package.digest } })
}

/// Asks for the right to upload a version. A store that has just started is not known at once.
async fn permission(
    connection: &mut Connection,
    reference: &str,
) -> Result<v1::UploadPackageResponse, Failure> {
    let until = Instant::now() + STORE_PATIENCE;
    loop {
        let request = v1::UploadPackageRequest { id: reference.to_owned() };
        let allowed = connection
            .ask(request, async |mut client, request| client.packages.upload(request).await)
            .await?;
        if !allowed.stores.is_empty()
            || allowed.exists.is_some()
            || Instant::now() + STORE_RETRY >= until
        {
            return Ok(allowed);
        }
        sleep(STORE_RETRY).await;
    }
}

/// The version of a content that has no other.
fn short(packed: &Packed) -> Result<PackageVersion, Failure> {
    packed.digest.to_string()[..12].parse().map_err(Failure::failed)
}

/// Sends what the store lacks. Returns the receipt, and how much was sent.
async fn upload(
    connection: &Connection,
    content: &Content,
    allowed: v1::UploadPackageResponse,
    packed: &Packed,
    digests: &[Digest],
) -> Result<(v1::Statement, Bytes), Failure> {
    let failed = |error: StoreError| Failure::failed(format!("error: {error}"));
    let store = allowed.stores.first();
    let store = store.ok_or_else(|| failed(StoreError::none(&allowed.silent_stores)))?;
    let right = allowed.right.unwrap_or_default();
    let credentials = connection.credentials().ok_or_else(|| {
        Failure::failed("error: this connection has no certificate for a store of packages")
    })?;
    let begun = Sending::begin(store, credentials, right, allowed.bases).await;
    let mut sending = begun.map_err(failed)?;
    let offered = sending.offer(digests).await.map_err(failed)?;
    let mut sent = 0;
    if !offered.is_empty() {
        let read = |chunks: MissingChunks| {
            let read = content.read(Missing(chunks));
            async move { read.await.map(|(again, _)| again) }
        };
        let (packed_again, transferred) = sending.transfer(offered, read).await;
        sent = transferred.map_err(failed)?;
        if packed_again?.digest != packed.digest {
            return Err(content.changed());
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
