//! Removal of what is not needed.
//!
//! A chunk is needed if the caller says so, or if a young pack holds it. Packs without needed chunks are removed,
//! packs of which less than half is needed are rewritten, and small packs of a user are merged. Young packs
//! stay. A chunk in several packs keeps its bytes in one of them; the other users keep an entry without bytes, so that
//! they still possess it.
//!
//! A collection announces the packs that it may delete in the object `collecting`, then lists the packs again,
//! plans anew, and deletes only what both plans agree on. An upload that relies on an old chunk writes an entry
//! that holds it, and then looks for the announcement. Whichever comes second sees the other. The
//! announcement is also the lock of the store: one collection at a time.
//!
//! New packs are written before old ones are deleted: a collection that ends at any point leaves duplicates at
//! most, which end at the next one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Digest, Span, Time, UserName};
use tokio::time::Instant;

use crate::index::{Index, Pack};
use crate::pack::{Builder, PackEntry, PackId};
use crate::upload::before;
use crate::{Error, PackageStore, StoreResult};

/// How old the announcement of a collection becomes before another one may begin.
const LEASE: Duration = Duration::from_secs(3_600);

/// How long a collection deletes packs: well within its lease. The next one continues.
const WORK_TIME: Duration = Duration::from_secs(1_200);

/// Packs smaller than this are merged, in bytes,
const SMALL_BYTES: u64 = 1 << 20;
/// if a user has so many of them.
const MERGED_PACKS_MIN: usize = 8;

/// The packs of one collection, at most; the next one continues.
const VICTIMS_MAX: usize = 4_096;

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The packs that were removed, without a needed chunk.
    pub removed: Vec<PackId>,
    /// The packs that were replaced by new ones with their needed chunks.
    pub rewritten: Vec<PackId>,
    /// The bytes that became free.
    pub bytes: u64,
}

/// A pack to delete, and the entries to keep.
#[derive(Debug)]
struct Victim {
    pack: Arc<Pack>,
    keep: Vec<Keep>,
}

#[derive(Debug)]
enum Keep {
    Bytes(PackEntry),
    Hold(PackEntry),
}

impl PackageStore {
    /// Removes what is not needed: chunks that are not `live`, that are older than `younger_than` (at least the
    /// grace of [`crate::Settings`]) and that no upload relies on. With `plan_only` it only tells what it would do.
    ///
    /// # Errors
    /// [`Error::Collecting`] if another collection is under way; [`Error::Full`], [`Error::Object`] and
    /// [`Error::Slow`]. What was done until then stays done.
    pub async fn collect(
        &self,
        live: impl Fn(&Digest) -> bool,
        younger_than: Duration,
        plan_only: bool,
    ) -> StoreResult<Collected> {
        let grace = Span(u64::try_from(younger_than.as_micros()).unwrap_or(u64::MAX));
        let grace = Span(grace.0.max(self.settings().grace.0));
        self.refresh().await?;
        let planned = self.plan(&live, grace).await;
        if plan_only {
            return Ok(summary(&planned));
        }
        self.objects().sweep(grace.to_std()).await?;
        if planned.is_empty() {
            return Ok(Collected::default());
        }
        let announced: HashSet<PackId> = planned.iter().map(|victim| victim.pack.id).collect();
        drop(planned);
        self.announce(&announced).await?;
        let began = Instant::now();
        let done = async {
            self.refresh().await?;
            let mut victims = self.plan(&live, grace).await;
            victims.retain(|victim| announced.contains(&victim.pack.id));
            self.carry_out(victims, began).await
        };
        let done = done.await;
        // If this fails, the announcement ends with its lease.
        let ended = self.objects().end_collecting().await;
        done.and_then(|plan| ended.map(|()| plan))
    }

    /// Announces the packs that may be deleted from now on.
    async fn announce(&self, packs: &HashSet<PackId>) -> StoreResult<()> {
        let text: String = packs.iter().map(|pack| format!("{pack}\n")).collect();
        for _ in 0..2 {
            if self.objects().begin_collecting(text.clone().into()).await? {
                return Ok(());
            }
            match self.objects().collecting().await? {
                Some((_, since)) if since < LEASE => {
                    return Err(Error::Collecting { since, location: self.objects().location() });
                }
                Some(_) => self.objects().end_collecting().await?,
                None => {}
            }
        }
        let since = Duration::ZERO;
        Err(Error::Collecting { since, location: self.objects().location() })
    }

    /// Which packs would be deleted, and what is kept of them.
    async fn plan(&self, live: &impl Fn(&Digest) -> bool, grace: Span) -> Vec<Victim> {
        let young = before(self.now(), grace);
        let packs: Vec<Arc<Pack>> = self.index().packs().cloned().collect();
        let (old, new): (Vec<_>, Vec<_>) =
            packs.into_iter().partition(|pack| pack.is_before(young));
        let held = |pack: &Arc<Pack>| {
            let held = pack.footer.entries.iter().filter(|entry| !entry.has_bytes());
            held.map(|entry| entry.digest).collect::<Vec<_>>()
        };
        let held: HashSet<Digest> = new.iter().flat_map(held).collect();
        let needed = |digest: &Digest| held.contains(digest) || live(digest);
        let mut victims = Vec::new();
        let mut small: BTreeMap<UserName, Vec<Victim>> = BTreeMap::new();
        for pack in old {
            let keep = kept(&self.index(), &pack, young, &needed);
            let bytes: u64 = keep.iter().map(Keep::bytes).sum();
            let victim = Victim { pack, keep };
            let pack = &victim.pack;
            let is_sparse = match pack.data_bytes() {
                0 => victim.keep.len() * 2 < pack.footer.entries.len(),
                data => bytes * 2 < data,
            };
            if victim.keep.is_empty() || is_sparse {
                victims.push(victim);
            } else if pack.size < SMALL_BYTES {
                small.entry(pack.footer.user.clone()).or_default().push(victim);
            }
            tokio::task::yield_now().await;
        }
        let merged = small.into_values().filter(|of_user| of_user.len() >= MERGED_PACKS_MIN);
        victims.extend(merged.flatten());
        victims.truncate(VICTIMS_MAX);
        victims
    }

    async fn carry_out(&self, victims: Vec<Victim>, began: Instant) -> StoreResult<Collected> {
        let mut by_user: BTreeMap<UserName, Vec<Victim>> = BTreeMap::new();
        for victim in victims {
            by_user.entry(victim.pack.footer.user.clone()).or_default().push(victim);
        }
        let mut done = Collected::default();
        for (user, victims) in by_user {
            let at = victims.iter().map(|victim| victim.pack.footer.at).max();
            let at = at.unwrap_or_default();
            let mut rewrite = Rewrite::new(self, user, at);
            for victim in victims {
                if began.elapsed() > WORK_TIME {
                    break;
                }
                rewrite.take(victim, &mut done).await?;
            }
            rewrite.finish(&mut done).await?;
        }
        Ok(done)
    }
}

/// New packs of one user from old ones.
struct Rewrite<'a> {
    store: &'a PackageStore,
    user: UserName,
    at: Time,
    pack: Builder,
    written: HashSet<PackId>,
    /// Whose entries are all in `pack` or in packs that are written.
    finished: Vec<Victim>,
}

impl<'a> Rewrite<'a> {
    fn new(store: &'a PackageStore, user: UserName, at: Time) -> Self {
        let (pack, written, finished) = (Builder::default(), HashSet::new(), Vec::new());
        Self { store, user, at, pack, written, finished }
    }

    /// Copies what is kept of a pack. A pack with wrong bytes stays as it is, for somebody to look at.
    async fn take(&mut self, victim: Victim, done: &mut Collected) -> StoreResult<()> {
        for keep in &victim.keep {
            if !self.pack.has_room(keep.bytes()) {
                self.write().await?;
            }
            match keep {
                Keep::Hold(entry) => self.pack.hold(entry.digest, entry.length()),
                Keep::Bytes(entry) => {
                    let Some(range) = entry.range() else { continue };
                    let pack = victim.pack.id;
                    let read = self.store.objects().range(pack, range).await?;
                    let right = |bytes: &bytes::Bytes| {
                        blake3::hash(bytes).as_bytes() == entry.digest.as_bytes()
                    };
                    let Some(bytes) = read.filter(right) else {
                        let error = self.store.wrong_bytes(pack, entry.digest);
                        tracing::error!("not collected: {error}");
                        return Ok(());
                    };
                    self.pack.append(entry.digest, bytes);
                }
            }
        }
        self.finished.push(victim);
        if self.pack.data_bytes() > crate::pack::MAX_DATA_BYTES / 2 || self.pack.is_empty() {
            self.finish(done).await?;
        }
        Ok(())
    }

    /// Writes what is left, then deletes the old packs.
    async fn finish(&mut self, done: &mut Collected) -> StoreResult<()> {
        self.write().await?;
        for victim in std::mem::take(&mut self.finished) {
            let id = victim.pack.id;
            // The new pack may be equal to the old one.
            if self.written.contains(&id) {
                continue;
            }
            self.store.objects().delete(id).await?;
            self.store.forget(id);
            done.add(&victim);
        }
        Ok(())
    }

    async fn write(&mut self) -> StoreResult<()> {
        let pack = std::mem::take(&mut self.pack);
        if pack.is_empty() {
            return Ok(());
        }
        let (id, footer, bytes) = pack.finish(&self.user, self.at);
        let size = bytes.content_length() as u64;
        self.store.objects().create(id, bytes).await?;
        self.store.insert(id, footer, size);
        self.written.insert(id);
        Ok(())
    }
}

impl Keep {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(entry) => entry.bytes(),
            Self::Hold(_) => 0,
        }
    }
}

impl Collected {
    fn add(&mut self, victim: &Victim) {
        let kept: u64 = victim.keep.iter().map(Keep::bytes).sum();
        self.bytes += victim.pack.size.saturating_sub(kept);
        let id = victim.pack.id;
        if victim.keep.is_empty() { self.removed.push(id) } else { self.rewritten.push(id) }
    }
}

fn summary(victims: &[Victim]) -> Collected {
    let mut plan = Collected::default();
    victims.iter().for_each(|victim| plan.add(victim));
    plan
}

/// What an old pack would keep. Of the packs with the bytes of a chunk one keeps them: a young one, else the
/// one with the first name; of the packs of a user with an entry of it one keeps the entry.
fn kept(index: &Index, pack: &Pack, young: Time, needed: &impl Fn(&Digest) -> bool) -> Vec<Keep> {
    let rank = |pack: &Pack| (pack.is_before(young), pack.id);
    let own = rank(pack);
    let mut keep = Vec::new();
    let mut seen = HashSet::new();
    for entry in &pack.footer.entries {
        if !needed(&entry.digest) || seen.contains(&entry.digest) {
            continue;
        }
        let good = index.copies(&entry.digest).map(|(pack, _)| rank(pack)).min();
        // Of wrong bytes alone the first are kept: their pack is not rewritten.
        let all = index.of(&entry.digest).filter(|(_, entry)| entry.has_bytes());
        let Some(keeper) = good.or_else(|| all.map(|(pack, _)| rank(pack)).min()) else {
            continue;
        };
        let of_user = index.of(&entry.digest).filter(|(of, _)| of.footer.user == pack.footer.user);
        if entry.has_bytes() && keeper == own {
            keep.push(Keep::Bytes(*entry));
        } else if keeper != own && of_user.map(|(pack, _)| rank(pack)).min() == Some(own) {
            keep.push(Keep::Hold(*entry));
        } else {
            continue;
        }
        seen.insert(entry.digest);
    }
    keep
}
