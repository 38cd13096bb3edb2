//! Where a store keeps its objects.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::{Error, StoreResult};

/// The scheme of an S3-compatible store.
const S3: &str = "s3://";

/// A directory, or a bucket of an S3-compatible store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A directory on a file system that this machine has mounted; created if it is missing. Several
    /// processes may share it, on several machines if the file system has atomic hard links.
    Directory(PathBuf),
    /// `s3://BUCKET/PREFIX`. Region, endpoint and keys are taken from the environment: `AWS_REGION`, `AWS_ENDPOINT`,
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, or the role of the machine. The store needs conditional writes
    /// (`If-None-Match`).
    Bucket(String),
}

impl StoreLocation {
    /// Parses `s3://BUCKET/PREFIX`; anything else is the path of a directory.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.starts_with(S3) {
            true => Self::Bucket(text.to_owned()),
            false => Self::Directory(PathBuf::from(text)),
        }
    }

    /// Opens the store of objects, and the prefix of all their names. On a directory, objects are synced
    /// together with their names.
    pub(crate) async fn open(&self) -> StoreResult<(Arc<dyn ObjectStore>, Path)> {
        match self {
            Self::Directory(path) => {
                // What users upload is not for everybody on this machine.
                let mut private = tokio::fs::DirBuilder::new();
                private.recursive(true).mode(0o700);
                private.create(path).await.map_err(|error| self.bad(&error))?;
                let files = LocalFileSystem::new_with_prefix(path);
                let files = files.map_err(|error| self.bad(&error))?.with_fsync(true);
                Ok((Arc::new(files), Path::default()))
            }
            Self::Bucket(url) => self.bucket(url),
        }
    }

    #[cfg(feature = "s3")]
    fn bucket(&self, url: &str) -> StoreResult<(Arc<dyn ObjectStore>, Path)> {
        use object_store::aws::{AmazonS3Builder, S3ConditionalPut};

        let rest = url.strip_prefix(S3).ok_or_else(|| self.bad(&"it does not begin with s3://"))?;
        if rest.split('/').next().is_none_or(str::is_empty) {
            return Err(self.bad(&"it names no bucket"));
        }
        // The HTTP client takes the process's provider; an error only says that there is one already.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let prefix = rest.split_once('/').map_or("", |(_, prefix)| prefix);
        let prefix = Path::parse(prefix).map_err(|error| self.bad(&error))?;
        let bucket = AmazonS3Builder::from_env()
            .with_url(url)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .build()
            .map_err(|error| self.bad(&error))?;
        Ok((Arc::new(bucket), prefix))
    }

    #[cfg(not(feature = "s3"))]
    fn bucket(&self, _: &str) -> StoreResult<(Arc<dyn ObjectStore>, Path)> {
        Err(self.bad(&"this program was built without the feature s3"))
    }

    fn bad(&self, why: &dyn fmt::Display) -> Error {
        let instead = match self {
            Self::Directory(_) => "give a directory that belongs to you",
            Self::Bucket(_) if cfg!(feature = "s3") => {
                "name the bucket as s3://BUCKET/PREFIX or s3://BUCKET, and its region, endpoint and keys in the environment"
            }
            Self::Bucket(_) => "give a directory, or run a program that was built with it",
        };
        Error::Location { location: self.to_string(), why: why.to_string(), instead }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Bucket(url) => f.write_str(url),
        }
    }
}

#[cfg(all(test, feature = "s3"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_bucket_is_explained_with_what_a_bucket_looks_like() {
        for (given, why) in [
            ("s3://", "it names no bucket"),
            ("s3:///prefix", "it names no bucket"),
            ("bucket/prefix", "it does not begin with s3://"),
        ] {
            let opened = StoreLocation::Bucket(given.to_owned()).open().await;
            let said = opened.map(drop).expect_err(given).to_string();
            assert_eq!(
                said,
                format!(
                    "cannot use {given} as a store of packages: {why}; name the bucket as s3://BUCKET/PREFIX or \
                     s3://BUCKET, and its region, endpoint and keys in the environment"
                )
            );
        }
    }
}
