//! A store in a directory of its own, with a clock that the test moves.

#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::{Digest, Time, UserName};
use package_store::{Clock, PackageStore, Settings, StoreLocation};

pub const HOUR: Duration = Duration::from_secs(3_600);
pub const DAY: Duration = Duration::from_secs(86_400);

pub fn digest(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

pub fn user(name: &str) -> UserName {
    name.parse().unwrap()
}

/// A chunk that differs for each number, of a length in bytes.
pub fn chunk(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    let mut hash = blake3::Hasher::new();
    hash.update(&number.to_le_bytes());
    hash.finalize_xof().fill(&mut bytes);
    bytes.into()
}

pub struct Directory {
    pub dir: tempfile::TempDir,
    pub now: Arc<AtomicU64>,
}

impl Directory {
    pub fn new() -> Self {
        let now = Arc::new(AtomicU64::new(1_800_000_000_000_000));
        Self { dir: tempfile::tempdir().unwrap(), now }
    }

    pub fn settings(&self) -> Settings {
        let now = Arc::clone(&self.now);
        let clock = Clock::new(move || Time(now.load(Ordering::Relaxed)));
        Settings { clock, ..Settings::default() }
    }

    pub fn location(&self) -> StoreLocation {
        StoreLocation::Directory(self.dir.path().to_owned())
    }

    /// A handle, as another process would have it.
    pub async fn open(&self) -> PackageStore {
        PackageStore::open(&self.location(), self.settings()).await.unwrap()
    }

    pub fn later(&self, by: Duration) {
        self.now.fetch_add(u64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }

    /// The files of packs.
    pub fn packs(&self) -> Vec<PathBuf> {
        let packs = self.dir.path().join("packs");
        let Ok(packs) = std::fs::read_dir(packs) else { return Vec::new() };
        let mut packs: Vec<_> = packs.map(|pack| pack.unwrap().path()).collect();
        packs.sort();
        packs
    }
}

/// Uploads chunks, each of these numbers and of 1,000 bytes, in one pack.
pub async fn upload(store: &PackageStore, of: &str, numbers: impl IntoIterator<Item = u64>) {
    let mut upload = store.upload(user(of));
    for number in numbers {
        let bytes = chunk(number, 1_000);
        upload.put(digest(&bytes), bytes).await.unwrap();
    }
    upload.seal().await.unwrap();
}

/// The digest of the chunk of a number.
pub fn named(number: u64) -> Digest {
    digest(&chunk(number, 1_000))
}

/// Whether a store has the right bytes of the chunk of a number.
pub async fn has(store: &PackageStore, number: u64) -> bool {
    match store.get(&named(number)).await {
        Ok(bytes) => {
            assert_eq!(bytes, chunk(number, 1_000));
            true
        }
        Err(package_store::Error::NotFound { .. }) => false,
        Err(error) => panic!("{number}: {error}"),
    }
}
