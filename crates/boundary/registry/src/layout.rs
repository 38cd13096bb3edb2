//! The directory of an image in OCI's layout.
//!
//! `partial/` has what is not complete; it is on the same file system, so that a rename gives a file its final
//! name. The directory is locked while an image is downloaded into it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::fs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::digest::{BlobDigest, BlobHasher};
use crate::error::RegistryError;

const VERSION_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
const BLOBS: &str = "blobs/sha256";
const PARTIAL: &str = "partial";
/// How many bytes are read from a file at once.
const READ_BYTES: usize = 128 << 10;

/// A directory with an image in it, or with what is there of one.
#[derive(Debug)]
pub(crate) struct Layout {
    path: PathBuf,
    /// Locked until it is dropped.
    _locked: File,
}

impl Layout {
    /// Opens a directory, which is created if it is missing.
    pub(crate) async fn open(path: &Path) -> Result<Self, RegistryError> {
        for directory in [path.join(BLOBS), path.join(PARTIAL)] {
            let created = fs::create_dir_all(&directory).await;
            created.map_err(|error| RegistryError::of_file("create", &directory, &error))?;
        }
        let locked =
            File::open(path).map_err(|error| RegistryError::of_file("open", path, &error))?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => RegistryError::Busy { path: path.to_owned() },
            TryLockError::Error(error) => RegistryError::of_file("lock", path, &error),
        })?;
        let layout = Self { path: path.to_owned(), _locked: locked };
        let version = json!({ "imageLayoutVersion": "1.0.0" });
        layout.write(VERSION_FILE, version.to_string().as_bytes()).await?;
        Ok(layout)
    }

    /// The file of a blob.
    pub(crate) fn blob(&self, digest: BlobDigest) -> PathBuf {
        self.path.join(BLOBS).join(digest.digits())
    }

    /// The file of what is there of a blob that is not complete.
    pub(crate) fn partial(&self, digest: BlobDigest) -> PathBuf {
        self.path.join(PARTIAL).join(digest.digits())
    }

    /// Whether a blob is there whole. Its bytes are read and checked.
    pub(crate) async fn has(&self, digest: BlobDigest, size: u64) -> Result<bool, RegistryError> {
        let path = self.blob(digest);
        let Ok(mut file) = fs::File::open(&path).await else { return Ok(false) };
        let failed = |error: &std::io::Error| RegistryError::of_file("read", &path, error);
        if file.metadata().await.map_err(|error| failed(&error))?.len() != size {
            return Ok(false);
        }
        let hashed = hash(&mut file).await.map_err(|error| failed(&error))?;
        Ok(hashed.hasher.finish() == digest)
    }

    /// The bytes of a small blob that is there.
    pub(crate) async fn read(&self, digest: BlobDigest) -> Result<Vec<u8>, RegistryError> {
        let path = self.blob(digest);
        fs::read(&path).await.map_err(|error| RegistryError::of_file("read", &path, &error))
    }

    /// Keeps the bytes of a manifest.
    pub(crate) async fn keep(&self, digest: BlobDigest, bytes: &[u8]) -> Result<(), RegistryError> {
        self.write(&format!("{BLOBS}/{}", digest.digits()), bytes).await
    }

    /// Writes the list of images, with which the image is complete, and removes what is left of the download.
    pub(crate) async fn finish(&self, manifests: Vec<Value>) -> Result<(), RegistryError> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        });
        self.write(INDEX_FILE, index.to_string().as_bytes()).await?;
        let partial = self.path.join(PARTIAL);
        let removed = fs::remove_dir_all(&partial).await;
        removed.map_err(|error| RegistryError::of_file("remove", &partial, &error))
    }

    /// Writes a file that has its name only when it is complete.
    async fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RegistryError> {
        let path = self.path.join(name);
        let partial = self.path.join(PARTIAL).join("file");
        let written = async {
            let mut file = fs::File::create(&partial).await?;
            file.write_all(bytes).await?;
            file.sync_all().await?;
            fs::rename(&partial, &path).await
        };
        written.await.map_err(|error| RegistryError::of_file("write", &path, &error))
    }
}

/// What a file has from a place on.
pub(crate) struct HashedBytes {
    pub(crate) hasher: BlobHasher,
    pub(crate) length: u64,
}

/// Reads a file from where it is to its end.
pub(crate) async fn hash(file: &mut fs::File) -> std::io::Result<HashedBytes> {
    let mut hashed = HashedBytes { hasher: BlobHasher::new(), length: 0 };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer).await? {
            0 => return Ok(hashed),
            read => {
                hashed.hasher.update(&buffer[..read]);
                hashed.length += read as u64;
            }
        }
    }
}
