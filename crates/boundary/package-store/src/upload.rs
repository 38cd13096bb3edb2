//! Chunks of one user on their way into packs.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use model::{Digest, Span, Time, UserName};

use crate::pack::{Builder, MAX_CHUNK_BYTES, PackId};
use crate::{Error, PackageStore, StoreResult};

/// How often [`Upload::rely`] looks for chunks while packs change.
const RELY_ATTEMPTS: usize = 3;

/// An upload. It has at most one pack in memory, and writes it when it is full; dropped without
/// [`Self::seal`] it loses only that one.
#[derive(Debug)]
pub struct Upload {
    store: PackageStore,
    user: UserName,
    pack: Builder,
    /// What is in the pack.
    packed: HashSet<Digest>,
    stored: u64,
}

impl PackageStore {
    /// An upload of a user.
    #[must_use]
    pub fn upload(&self, user: UserName) -> Upload {
        Upload::new(self.clone(), user)
    }
}

impl Upload {
    fn new(store: PackageStore, user: UserName) -> Self {
        Self { store, user, pack: Builder::default(), packed: HashSet::new(), stored: 0 }
    }

    /// Who uploads.
    #[must_use]
    pub fn user(&self) -> &UserName {
        &self.user
    }

    /// Takes a chunk, and writes a pack if it is full. A chunk that this user has uploaded recently is not
    /// stored again. Returns the bytes that were added.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDigest`] and [`Error::Chunks`] before anything is stored;
    /// [`Error::Bytes`], [`Error::Full`], [`Error::Object`] and [`Error::Slow`] if a pack cannot be written: its chunks
    /// are lost.
    pub async fn put(&mut self, digest: Digest, bytes: Bytes) -> StoreResult<u64> {
        if digest_of(&bytes) != digest {
            return Err(Error::WrongDigest { digest });
        }
        self.append(digest, bytes).await
    }

    /// Takes a chunk like [`Self::put`], and returns its digest, too.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn take(&mut self, bytes: Bytes) -> StoreResult<(Digest, u64)> {
        let digest = digest_of(&bytes);
        Ok((digest, self.append(digest, bytes).await?))
    }

    async fn append(&mut self, digest: Digest, bytes: Bytes) -> StoreResult<u64> {
        let length = bytes.len() as u64;
        if length == 0 || length > MAX_CHUNK_BYTES {
            return Err(Error::Length { digest, length });
        }
        if self.packed.contains(&digest) || self.has_recently(&digest) {
            return Ok(0);
        }
        self.check_room(1)?;
        if !self.pack.has_room(length) {
            self.seal().await?;
        }
        self.packed.insert(digest);
        self.pack.append(digest, bytes);
        Ok(length)
    }

    /// Writes what was taken. When it returns, every chunk is durable, and possessed by the user.
    ///
    /// # Errors
    /// [`Error::Bytes`], [`Error::Full`], [`Error::Object`] and [`Error::Slow`]: the chunks since the last pack are
    /// lost.
    pub async fn seal(&mut self) -> StoreResult<()> {
        let pack = std::mem::take(&mut self.pack);
        self.packed.clear();
        let bytes = pack.data_bytes();
        self.write(pack).await?;
        self.stored += bytes;
        Ok(())
    }

    /// Relies on chunks that are in the store: they stay there for at least half of the grace. Those in old packs
    /// and those of other users are held for the user by entries without bytes. Tells for each whether it is there; what is not
    /// has to be sent.
    ///
    /// The caller checks that the user may have these chunks ([`PackageStore::has_of`], or a package that it may
    /// read): from now on the user possesses them.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn rely(&mut self, digests: &[Digest]) -> StoreResult<Vec<bool>> {
        let there = self.are_there(digests, &HashSet::new());
        if there.iter().all(|there| *there) && self.unprotected(digests).is_empty() {
            return Ok(there);
        }
        self.confirm(digests).await
    }

    /// Relies on chunks like [`Self::rely`], and looks at the store again, whose packs other processes may have collected
    /// since: at the end of an upload, for all that it needs.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn confirm(&mut self, digests: &[Digest]) -> StoreResult<Vec<bool>> {
        for _ in 0..RELY_ATTEMPTS {
            self.hold(self.unprotected(digests)).await?;
            // First the collection that is under way, then the packs: if it has ended meanwhile, they are gone.
            let doomed = self.store.doomed().await?;
            self.store.refresh().await?;
            // The listing may have found chunks that were not known before.
            if self.unprotected(digests).is_empty() {
                return Ok(self.are_there(digests, &doomed));
            }
        }
        // Packs come and go: whatever is sent again is there.
        Ok(vec![false; digests.len()])
    }

    /// For each chunk whether it is in this upload's pack, or in one that will not be deleted.
    fn are_there(&self, digests: &[Digest], doomed: &HashSet<PackId>) -> Vec<bool> {
        let index = self.store.index();
        let is_there = |digest: &Digest| {
            let stays = index.copies(digest).any(|(pack, _)| !doomed.contains(&pack.id));
            stays || self.packed.contains(digest)
        };
        digests.iter().map(is_there).collect()
    }

    /// Those of these chunks that are in old packs alone, or that the user does not possess, with their lengths.
    fn unprotected(&self, digests: &[Digest]) -> BTreeMap<Digest, u32> {
        let (index, recent) = (self.store.index(), self.recent());
        let unprotected = |digest: &&Digest| {
            let recently = index.of(digest).any(|(pack, _)| !pack.is_before(recent));
            let possessed = index.of(digest).any(|(pack, _)| pack.footer.user == self.user);
            !(recently && possessed || self.packed.contains(*digest))
        };
        let chunks = digests.iter().filter(unprotected);
        chunks
            .filter_map(|digest| Some((*digest, index.copies(digest).next()?.1.length())))
            .collect()
    }

    /// Writes entries without bytes.
    async fn hold(&self, chunks: BTreeMap<Digest, u32>) -> StoreResult<()> {
        self.check_room(chunks.len() as u64)?;
        let mut holds = Builder::default();
        for (digest, length) in chunks {
            if !holds.has_room(0) {
                self.write(std::mem::take(&mut holds)).await?;
            }
            holds.hold(digest, length);
        }
        self.write(holds).await
    }

    /// The bytes of the chunks that were taken and are not durable yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pack.data_bytes()
    }

    /// The bytes of the chunks that this upload has made durable.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Whether a pack of this user that will not be collected soon has the bytes.
    fn has_recently(&self, digest: &Digest) -> bool {
        let (index, recent) = (self.store.index(), self.recent());
        index
            .copies(digest)
            .any(|(pack, _)| pack.footer.user == self.user && !pack.is_before(recent))
    }

    /// Packs from this moment on are not collected before an upload must be complete.
    fn recent(&self) -> Time {
        let half = self.store.settings().grace.0 / 2;
        before(self.store.now(), Span(half))
    }

    fn check_room(&self, more: u64) -> StoreResult<()> {
        let (pending, max) = (self.packed.len() as u64, self.store.settings().chunks_max);
        let room = self.store.index().has_room(&self.user, pending + more, max);
        let location = || self.store.objects().location();
        if more == 0 {
            return Ok(());
        }
        room.map_err(|beyond| Error::Chunks { beyond, location: location() })
    }

    /// Whether a pack may take so many bytes of the disk, which users share.
    fn check_disk(&self, more: u64) -> StoreResult<()> {
        let objects = self.store.objects();
        let Some(free) = objects.free_bytes()? else { return Ok(()) };
        let room = self.store.index().has_bytes(&self.user, more, free);
        room.map_err(|beyond| Error::Bytes { beyond, location: objects.location() })
    }

    async fn write(&self, pack: Builder) -> StoreResult<()> {
        if pack.is_empty() {
            return Ok(());
        }
        let (id, footer, bytes) = pack.finish(&self.user, self.store.now());
        let size = bytes.content_length() as u64;
        self.check_disk(size)?;
        self.store.objects().create(id, bytes).await?;
        self.store.insert(id, footer, size);
        Ok(())
    }
}

fn digest_of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// The moment so long before another, or the start of 1970.
pub(crate) fn before(moment: Time, span: Span) -> Time {
    Time(moment.0.saturating_sub(span.0))
}
