//! A handle on a store: what it has, and reading it.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use model::{Digest, Time, UserName};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::index::{Index, Pack};
use crate::objects::Objects;
use crate::pack::{Footer, PackId};
use crate::refresh::{self, read};
use crate::{Error, Settings, StoreLocation, StoreResult};

/// A store of packages, as this process sees it. Clones share the index.
#[derive(Clone, Debug)]
pub struct PackageStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    objects: Objects,
    settings: Settings,
    index: Arc<RwLock<Index>>,
    /// When the last complete listing began.
    listed: Mutex<Option<Instant>>,
}

/// What a store contains, as far as this process knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of packs.
    pub packs: usize,
    /// The number of entries of all packs; a chunk in two packs counts twice.
    pub chunks: usize,
    /// The size of all packs, in bytes.
    pub bytes: u64,
    /// Objects among the packs that are not packs, at most 1,000, each with the reason.
    pub aside: Vec<(String, String)>,
}

impl PackageStore {
    /// Opens a store, creating a directory that is missing, and reads the indexes of all packs.
    ///
    /// # Errors
    /// [`Error::Location`], and those of [`Self::refresh`].
    pub async fn open(location: &StoreLocation, settings: Settings) -> StoreResult<Self> {
        let objects = Objects::open(location, settings.timeout).await?;
        let (index, listed) = (Arc::default(), Mutex::new(None));
        let store = Self(Arc::new(Inner { objects, settings, index, listed }));
        store.refresh().await?;
        Ok(store)
    }

    /// Lists the packs: afterwards this process knows all packs that existed when it was called. Concurrent
    /// calls share a listing.
    ///
    /// # Errors
    /// [`Error::Object`], [`Error::Slow`], and [`Error::Packs`] or [`Error::Chunks`] if there are more than
    /// [`Settings`] allow.
    pub async fn refresh(&self) -> StoreResult<()> {
        let asked = Instant::now();
        let mut listed = self.0.listed.lock().await;
        if listed.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        let (began, settings) = (Instant::now(), &self.0.settings);
        let (packs_max, chunks_max) = (settings.packs_max, settings.chunks_max);
        refresh::refresh(&self.0.objects, &self.0.index, packs_max, chunks_max).await?;
        *listed = Some(began);
        Ok(())
    }

    /// Whether this user has uploaded the chunk, or holds it, and its bytes are there. Looks only at the packs
    /// known since the last [`Self::refresh`].
    #[must_use]
    pub fn has_of(&self, user: &UserName, digest: &Digest) -> bool {
        let index = self.index();
        index.of(digest).any(|(pack, _)| pack.footer.user == *user)
            && index.copies(digest).next().is_some()
    }

    /// The length of a chunk in bytes, if a known pack has its bytes.
    #[must_use]
    pub fn length(&self, digest: &Digest) -> Option<u32> {
        self.index().copies(digest).next().map(|(_, entry)| entry.length())
    }

    /// The bytes of a chunk; they have the digest. Lists the packs again before it reports that there are none.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::WrongBytes`] if no pack has the right bytes; [`Error::Object`] and
    /// [`Error::Slow`].
    pub async fn get(&self, digest: &Digest) -> StoreResult<Bytes> {
        let mut failure = None;
        for attempt in 0..2 {
            if attempt > 0 {
                self.refresh().await?;
            }
            let copies: Vec<_> = {
                let index = self.index();
                // Wrong bytes are tried last: somebody may have restored the pack.
                let good = index.copies(digest);
                let all = good.chain(index.of(digest).filter(|_| index.has_spoiled()));
                all.filter_map(|(pack, entry)| Some((pack.id, entry.range()?))).collect()
            };
            for (pack, range) in copies {
                match self.0.objects.range(pack, range).await {
                    Ok(Some(bytes)) if blake3::hash(&bytes).as_bytes() == digest.as_bytes() => {
                        if self.index().has_spoiled() {
                            self.index_mut().found(pack, *digest, false);
                        }
                        return Ok(bytes);
                    }
                    Ok(Some(_)) => {
                        // It counts as missing, so that it can be uploaded again.
                        self.index_mut().found(pack, *digest, true);
                        failure = Some(self.wrong_bytes(pack, *digest));
                    }
                    // It was collected; the chunk may be in a new pack.
                    Ok(None) => {}
                    Err(error) => failure = Some(error),
                }
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Err(Error::NotFound { digest: *digest, location: self.0.objects.location() })
    }

    /// The bytes of several chunks, in their order; what is in one pack is read together. All of them are in memory at
    /// once: the caller limits their lengths ([`Self::length`]).
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_many(&self, digests: &[Digest]) -> StoreResult<Vec<Bytes>> {
        let mut by_pack: BTreeMap<PackId, Vec<(usize, Range<u64>)>> = BTreeMap::new();
        {
            let index = self.index();
            for (number, digest) in digests.iter().enumerate() {
                let copy = index
                    .copies(digest)
                    .map(|(pack, entry)| (pack.id, entry.range()))
                    .min_by_key(|(id, _)| *id);
                if let Some((pack, Some(range))) = copy {
                    by_pack.entry(pack).or_default().push((number, range));
                }
            }
        }
        let mut found: Vec<Option<Bytes>> = vec![None; digests.len()];
        for (pack, places) in by_pack {
            let ranges: Vec<_> = places.iter().map(|(_, range)| range.clone()).collect();
            // What cannot be read this way is read alone: from another pack, or with an error of its own.
            let Ok(Some(read)) = self.0.objects.ranges(pack, &ranges).await else { continue };
            for ((number, _), bytes) in places.into_iter().zip(read) {
                let digest = digests.get(number);
                if digest.is_some_and(|digest| blake3::hash(&bytes).as_bytes() == digest.as_bytes())
                    && let Some(found) = found.get_mut(number)
                {
                    *found = Some(bytes);
                }
            }
        }
        let mut all = Vec::with_capacity(digests.len());
        for (digest, found) in digests.iter().zip(found) {
            all.push(match found {
                Some(bytes) => bytes,
                None => self.get(digest).await?,
            });
        }
        Ok(all)
    }

    /// Checks that the store answers.
    ///
    /// # Errors
    /// [`Error::Object`] and [`Error::Slow`].
    pub async fn check(&self) -> StoreResult<()> {
        self.doomed().await.map(drop)
    }

    /// Where the store is.
    #[must_use]
    pub fn location(&self) -> String {
        self.0.objects.location()
    }

    /// The size of all known packs, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index().pack_bytes()
    }

    /// What the store contains, as far as this process knows.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let index = self.index();
        let aside = index.aside().map(|(name, why)| (name.to_owned(), why.to_owned()));
        Totals {
            packs: index.pack_count(),
            chunks: index.entry_count(),
            bytes: index.pack_bytes(),
            aside: aside.collect(),
        }
    }

    /// How the store is used.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn wrong_bytes(&self, pack: PackId, digest: Digest) -> Error {
        Error::WrongBytes { pack, digest, location: self.0.objects.location() }
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.0.objects
    }

    pub(crate) fn index(&self) -> std::sync::RwLockReadGuard<'_, Index> {
        read(&self.0.index)
    }

    fn index_mut(&self) -> std::sync::RwLockWriteGuard<'_, Index> {
        self.0.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        self.0.settings.clock.now()
    }

    /// Adds a pack that this process wrote.
    pub(crate) fn insert(&self, id: PackId, footer: Footer, size: u64) {
        self.index_mut().insert(Pack { id, footer, size });
    }

    /// Forgets a pack that this process deleted.
    pub(crate) fn forget(&self, id: PackId) {
        self.index_mut().remove(id);
    }

    /// The packs that a collection under way may delete.
    pub(crate) async fn doomed(&self) -> StoreResult<HashSet<PackId>> {
        let read = self.0.objects.collecting().await?;
        let text = read.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned());
        Ok(text.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect())
    }
}
