//! Objects of a store, each operation with a timeout and an error that names the object.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};
use tokio_stream::StreamExt as _;

use crate::error::of_object;
use crate::pack::PackId;
use crate::{Error, StoreLocation, StoreResult};

/// The folder of packs.
const PACKS: &str = "packs";
/// The ending of a pack's name.
const ENDING: &str = ".pack";
/// The object of a collection under way.
const COLLECTING: &str = "collecting";

/// The objects of a store; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    location: StoreLocation,
    /// The text of the location, for errors.
    shown: Arc<str>,
    timeout: Duration,
}

/// An object in a listing of packs.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The name in the folder of packs.
    pub(crate) name: String,
    /// The pack of this name, or why it is none.
    pub(crate) id: Result<PackId, String>,
    /// The size in bytes.
    pub(crate) size: u64,
}

impl Objects {
    pub(crate) async fn open(location: &StoreLocation, timeout: Duration) -> StoreResult<Self> {
        let (store, prefix) = location.open().await?;
        let shown = location.to_string().into();
        Ok(Self { store, prefix, location: location.clone(), shown, timeout })
    }

    /// The store, for messages.
    pub(crate) fn location(&self) -> String {
        (*self.shown).to_owned()
    }

    /// The bytes that are free on the disk of a directory; `None` of an object store, which has no such number.
    pub(crate) fn free_bytes(&self) -> StoreResult<Option<u64>> {
        let StoreLocation::Directory(root) = &self.location else { return Ok(None) };
        let disk = nix::sys::statvfs::statvfs(root).map_err(|error| Error::Object {
            action: "ask for the free space of",
            object: root.display().to_string(),
            location: self.location(),
            why: error.to_string(),
        })?;
        Ok(Some(disk.blocks_available().saturating_mul(disk.fragment_size())))
    }

    /// Lists the packs, at most `max` of them.
    pub(crate) async fn list(&self, max: usize) -> StoreResult<Vec<Listed>> {
        let folder = self.prefix.clone().join(PACKS);
        let mut found = Vec::new();
        let mut listed = self.store.list(Some(&folder));
        while let Some(next) =
            self.within("list", PACKS, async { listed.next().await.transpose() }).await?
        {
            if found.len() >= max {
                return Err(Error::Packs { max, location: self.location() });
            }
            let name = next.location.filename().unwrap_or_default().to_owned();
            let id = name.strip_suffix(ENDING).ok_or("its name does not end in .pack");
            let id = id.map_err(str::to_owned).and_then(str::parse);
            found.push(Listed { name, id, size: next.size });
        }
        Ok(found)
    }

    /// The last bytes of a pack, at most `length`; `None` if the pack is gone.
    pub(crate) async fn tail(&self, id: PackId, length: u64) -> StoreResult<Option<Bytes>> {
        self.read("read the footer of", &pack_name(id), GetRange::Suffix(length)).await
    }

    /// A range of a pack; `None` if the pack is gone.
    pub(crate) async fn range(
        &self,
        id: PackId,
        range: std::ops::Range<u64>,
    ) -> StoreResult<Option<Bytes>> {
        self.read("read from", &pack_name(id), GetRange::Bounded(range)).await
    }

    /// Ranges of a pack; `None` if the pack is gone. Neighbouring ones are read together.
    pub(crate) async fn ranges(
        &self,
        id: PackId,
        ranges: &[std::ops::Range<u64>],
    ) -> StoreResult<Option<Vec<Bytes>>> {
        let name = pack_name(id);
        let path = self.path(&name);
        self.within("read from", &name, async {
            match self.store.get_ranges(&path, ranges).await {
                Ok(read) => Ok(Some(read)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Writes a pack durably, unless there is one of this name: then it has the same bytes.
    pub(crate) async fn create(&self, id: PackId, bytes: PutPayload) -> StoreResult<()> {
        self.put(&pack_name(id), bytes).await.map(|_| ())
    }

    /// Deletes a pack, which may be gone already.
    pub(crate) async fn delete(&self, id: PackId) -> StoreResult<()> {
        self.remove(&pack_name(id)).await
    }

    /// Writes the object of a collection; `false` if there is one already.
    pub(crate) async fn begin_collecting(&self, doomed: Bytes) -> StoreResult<bool> {
        self.put(COLLECTING, doomed.into()).await
    }

    /// The object of the collection that is under way, and its age.
    pub(crate) async fn collecting(&self) -> StoreResult<Option<(Bytes, Duration)>> {
        let path = self.path(COLLECTING);
        let read = self.within("read", COLLECTING, async {
            let object = match self.store.get_opts(&path, GetOptions::default()).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                object => object?,
            };
            let written = SystemTime::from(object.meta.last_modified);
            Ok(Some((object.bytes().await?, written)))
        });
        let read = read.await?;
        Ok(read.map(|(bytes, written)| {
            (bytes, SystemTime::now().duration_since(written).unwrap_or_default())
        }))
    }

    /// Removes the object of a collection.
    pub(crate) async fn end_collecting(&self) -> StoreResult<()> {
        self.remove(COLLECTING).await
    }

    /// Removes files of interrupted writes that are older than a duration, and returns their size. Only
    /// directories have such files.
    pub(crate) async fn sweep(&self, older_than: Duration) -> StoreResult<u64> {
        let StoreLocation::Directory(root) = &self.location else { return Ok(0) };
        let mut swept = 0;
        for folder in [root.clone(), root.join(PACKS)] {
            let failed = |error: std::io::Error| Error::Object {
                action: "clean up",
                object: folder.display().to_string(),
                location: self.location(),
                why: error.to_string(),
            };
            let mut entries = match tokio::fs::read_dir(&folder).await {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                entries => entries.map_err(failed)?,
            };
            while let Some(entry) = entries.next_entry().await.map_err(failed)? {
                // The suffix of a file before it gets its name.
                let name = entry.file_name();
                let suffix = name.to_str().and_then(|name| name.rsplit_once('#'));
                let is_staged = suffix.is_some_and(|(_, number)| number.parse::<u64>().is_ok());
                let Ok(metadata) = entry.metadata().await else { continue };
                let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
                if is_staged && metadata.is_file() && age.is_some_and(|age| age > older_than) {
                    tokio::fs::remove_file(entry.path()).await.map_err(failed)?;
                    swept += metadata.len();
                }
            }
        }
        Ok(swept)
    }

    async fn put(&self, name: &str, bytes: PutPayload) -> StoreResult<bool> {
        let path = self.path(name);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        self.within("write", name, async {
            match self.store.put_opts(&path, bytes, options).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn remove(&self, name: &str) -> StoreResult<()> {
        let path = self.path(name);
        self.within("delete", name, async {
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn read(
        &self,
        action: &'static str,
        name: &str,
        range: GetRange,
    ) -> StoreResult<Option<Bytes>> {
        let path = self.path(name);
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        self.within(action, name, async {
            match self.store.get_opts(&path, options).await {
                Ok(read) => read.bytes().await.map(Some),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }

    /// Limits the duration of an operation, and names the object in its error.
    async fn within<T>(
        &self,
        action: &'static str,
        object: &str,
        operation: impl Future<Output = object_store::Result<T>>,
    ) -> StoreResult<T> {
        match tokio::time::timeout(self.timeout, operation).await {
            Ok(done) => done.map_err(|error| of_object(action, object, &self.shown, &error)),
            Err(_elapsed) => Err(Error::Slow {
                action,
                object: object.to_owned(),
                location: self.location(),
                after: self.timeout,
            }),
        }
    }
}

fn pack_name(id: PackId) -> String {
    format!("{PACKS}/{id}{ENDING}")
}
