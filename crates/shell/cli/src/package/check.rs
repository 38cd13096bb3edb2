//! `bourg package verify`: every byte of a version is read from a store and checked.

use std::io;

use api::v1;
use client::Target;
use client::packages::{PackageReader, StoreError};
use command::{Done, Failure, output, with_cell};
use model::{Bytes, Digest, PackageReference};
use package::chunk::{ChunkRef, ChunkSource};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tonic::Code;

/// The chunks of a store, read one after the other on a thread.
struct FromStore {
    reader: PackageReader,
    runtime: Handle,
    /// Whether the store could not be read, so that nothing is known of the package.
    failed: bool,
}

/// Whether an error says nothing of the chunk that was asked for.
fn is_of_the_store(error: &StoreError) -> bool {
    match error {
        StoreError::Failed { code, .. } => !matches!(code, Code::NotFound | Code::DataLoss),
        StoreError::NoStore | StoreError::Silent { .. } | StoreError::Source(_) => true,
        StoreError::Wrong { .. } => false,
    }
}

impl ChunkSource for FromStore {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        let read = self.runtime.block_on(self.reader.one(chunk.digest));
        *into = read
            .inspect_err(|error| self.failed = is_of_the_store(error))
            .map_err(io::Error::other)?;
        Ok(())
    }
}

pub(super) fn verify(cell: Target<'_>, package: &PackageReference) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::ReadPackageRequest { package: package.to_string() };
        let allowed = connection
            .ask(request, async |mut client, request| client.packages.read(request).await)
            .await?;
        let failed = |error: StoreError| Failure::failed(format!("error: {error}"));
        let known = allowed.package.unwrap_or_default();
        let digest: Digest = known.digest.parse().map_err(Failure::failed)?;
        let store = allowed.stores.first();
        let store = store.ok_or_else(|| failed(StoreError::none(&allowed.silent_stores)))?;
        let credentials = connection.credentials().ok_or_else(|| {
            Failure::failed("error: this connection has no certificate for a store of packages")
        })?;
        let reader = PackageReader::new(store, credentials, allowed.right.unwrap_or_default());
        let (reader, runtime) = (reader.map_err(failed)?, Handle::current());
        let verified = spawn_blocking(move || {
            let mut source = FromStore { reader, runtime, failed: false };
            let verified = package::verify::verify(digest, &mut source);
            verified.map_err(|error| (error, source.failed))
        });
        let verified = verified.await.map_err(Failure::failed)?.map_err(|(error, failed)| {
            let what = if failed { "cannot be read" } else { "is damaged" };
            Failure::failed(format!("error: {} {what}: {error}", known.id))
        })?;
        let (stored, entries) = (Bytes(verified.stored), verified.entries);
        output::print(&format!("{} is complete: {stored}, {entries} entries\n", known.id))
    })
}
