//! The chunks of all packs in memory: at most 64 bytes for each.
//!
//! Each pack keeps its entries (40 bytes each) as they are in its footer; a hash table has only the place of each
//! entry (8 bytes, and as much again when it is half full). A chunk in several packs has several places.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use model::{Asker, Beyond, Digest, Held, SharedBound, Time, UserName};

use crate::pack::{Footer, PackEntry, PackId};

/// The objects that are set aside and remembered with the reason; further ones are read again at each listing.
const ASIDE_MAX: usize = 1_000;

/// The chunks with wrong bytes that are remembered; further ones are noticed at each read.
const SPOILED_MAX: usize = 10_000;

/// A pack and its footer.
#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) id: PackId,
    pub(crate) footer: Footer,
    /// The size of the object, in bytes.
    pub(crate) size: u64,
}

impl Pack {
    /// Whether the pack was written before a moment.
    pub(crate) fn is_before(&self, moment: Time) -> bool {
        self.footer.at < moment
    }

    /// The chunks whose bytes it has, in bytes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.footer.entries.iter().map(PackEntry::bytes).sum()
    }
}

/// The place of an entry: the slot of its pack, and its number there.
type EntryPlace = (u32, u32);

/// What the packs of a user take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Their entries.
    entries: u64,
    /// Their size, in bytes.
    bytes: u64,
}

/// All packs that are known.
#[derive(Debug, Default)]
pub(crate) struct Index {
    slots: Vec<Option<Arc<Pack>>>,
    free: Vec<u32>,
    by_id: HashMap<PackId, u32>,
    places: HashTable<EntryPlace>,
    hasher: RandomState,
    /// What the packs of each user take.
    taken: HashMap<UserName, Taken>,
    pack_bytes: u64,
    /// Objects that are not packs, by name: their size and the reason.
    aside: BTreeMap<String, (u64, String)>,
    /// Chunks that were read and had wrong bytes.
    spoiled: HashSet<(PackId, Digest)>,
}

impl Index {
    /// Adds a pack, unless it is known.
    pub(crate) fn insert(&mut self, pack: Pack) {
        if self.by_id.contains_key(&pack.id) {
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Packs are bounded far below.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_id.insert(pack.id, slot);
        self.pack_bytes += pack.size;
        let taken = self.taken.entry(pack.footer.user.clone()).or_default();
        taken.entries += pack.footer.entries.len() as u64;
        taken.bytes += pack.size;
        let pack = Arc::new(pack);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Arc::clone(&pack));
        }
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |place: &EntryPlace| hasher.hash_one(digest_at(slots, *place));
        for (number, entry) in (0..).zip(&pack.footer.entries) {
            let hash = hasher.hash_one(Some(entry.digest));
            self.places.insert_unique(hash, (slot, number), rehash);
        }
    }

    /// Forgets a pack.
    pub(crate) fn remove(&mut self, id: PackId) {
        let Some(slot) = self.by_id.remove(&id) else { return };
        let Some(pack) = self.slots.get(slot as usize).cloned().flatten() else { return };
        for (number, entry) in (0..).zip(&pack.footer.entries) {
            let hash = self.hasher.hash_one(Some(entry.digest));
            if let Ok(found) = self.places.find_entry(hash, |place| *place == (slot, number)) {
                found.remove();
            }
        }
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = None;
        }
        self.free.push(slot);
        self.spoiled.retain(|(pack, _)| *pack != id);
        self.pack_bytes -= pack.size;
        if let Some(taken) = self.taken.get_mut(&pack.footer.user) {
            taken.entries -= pack.footer.entries.len() as u64;
            taken.bytes -= pack.size;
            if *taken == Taken::default() {
                self.taken.remove(&pack.footer.user);
            }
        }
    }

    /// The entries of a chunk with their packs.
    pub(crate) fn of(&self, digest: &Digest) -> impl Iterator<Item = (&Arc<Pack>, &PackEntry)> {
        let hash = self.hasher.hash_one(Some(*digest));
        let places = self.places.iter_hash(hash);
        places.filter_map(move |(slot, number)| {
            let pack = self.slots.get(*slot as usize)?.as_ref()?;
            let entry = pack.footer.entries.get(*number as usize)?;
            (entry.digest == *digest).then_some((pack, entry))
        })
    }

    /// Where the bytes of a chunk are: all packs that have them, except where they were found to be wrong.
    pub(crate) fn copies(&self, digest: &Digest) -> impl Iterator<Item = (&Arc<Pack>, &PackEntry)> {
        self.of(digest).filter(|(pack, entry)| {
            entry.has_bytes()
                && (self.spoiled.is_empty() || !self.spoiled.contains(&(pack.id, entry.digest)))
        })
    }

    /// Remembers whether the bytes of a chunk in a pack are wrong.
    pub(crate) fn found(&mut self, pack: PackId, digest: Digest, wrong: bool) {
        if !wrong {
            self.spoiled.remove(&(pack, digest));
        } else if self.spoiled.len() < SPOILED_MAX {
            self.spoiled.insert((pack, digest));
        }
    }

    /// Whether any chunk was found to have wrong bytes.
    pub(crate) fn has_spoiled(&self) -> bool {
        !self.spoiled.is_empty()
    }

    /// Whether a pack is known.
    pub(crate) fn has_pack(&self, id: PackId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// All packs.
    pub(crate) fn packs(&self) -> impl Iterator<Item = &Arc<Pack>> {
        self.slots.iter().flatten()
    }

    /// The number of packs.
    pub(crate) fn pack_count(&self) -> usize {
        self.by_id.len()
    }

    /// The number of entries of all packs.
    pub(crate) fn entry_count(&self) -> usize {
        self.places.len()
    }

    /// The size of all packs, in bytes.
    pub(crate) fn pack_bytes(&self) -> u64 {
        self.pack_bytes
    }

    /// Whether a user may have so many more entries.
    pub(crate) fn has_room(
        &self,
        user: &UserName,
        more: u64,
        bound: SharedBound,
    ) -> Result<(), Beyond> {
        let held = Held { all: self.places.len() as u64, own: self.taken_by(user).entries };
        bound.take(held, more, Asker::User)
    }

    /// Whether packs of a user may have so many more bytes, if so many are free. What the packs have and what
    /// is free is the bound that users share.
    pub(crate) fn has_bytes(&self, user: &UserName, more: u64, free: u64) -> Result<(), Beyond> {
        let bound = SharedBound::new(self.pack_bytes.saturating_add(free));
        let held = Held { all: self.pack_bytes, own: self.taken_by(user).bytes };
        bound.take(held, more, Asker::User)
    }

    fn taken_by(&self, user: &UserName) -> Taken {
        self.taken.get(user).copied().unwrap_or_default()
    }

    /// Remembers that an object is not a pack; `true` if that is new.
    pub(crate) fn set_aside(&mut self, name: &str, size: u64, why: &str) -> bool {
        let known = self.is_aside(name, size);
        if self.aside.len() < ASIDE_MAX || self.aside.contains_key(name) {
            self.aside.insert(name.to_owned(), (size, why.to_owned()));
        }
        !known
    }

    /// Forgets why an object was set aside: it is a pack now.
    pub(crate) fn not_aside(&mut self, name: &str) {
        self.aside.remove(name);
    }

    /// Whether an object is set aside.
    pub(crate) fn is_aside(&self, name: &str, size: u64) -> bool {
        self.aside.get(name).is_some_and(|(known, _)| *known == size)
    }

    /// The objects that are set aside, with the reasons.
    pub(crate) fn aside(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aside.iter().map(|(name, (_, why))| (name.as_str(), why.as_str()))
    }

    /// Forgets what is not in a listing any more. Packs of `known` were there before the listing began; others
    /// may be newer than it.
    pub(crate) fn keep_listed(
        &mut self,
        known: &[PackId],
        packs: &HashSet<PackId>,
        names: &HashSet<String>,
    ) {
        for id in known.iter().filter(|id| !packs.contains(id)) {
            self.remove(*id);
        }
        self.aside.retain(|name, _| names.contains(name));
    }
}

fn digest_at(slots: &[Option<Arc<Pack>>], place: EntryPlace) -> Option<Digest> {
    let (slot, number) = place;
    let pack = slots.get(slot as usize)?.as_ref()?;
    Some(pack.footer.entries.get(number as usize)?.digest)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::pack::Builder;

    fn digest(number: u64) -> Digest {
        Digest::from_bytes(*blake3::hash(&number.to_le_bytes()).as_bytes())
    }

    fn pack(user: &str, numbers: std::ops::Range<u64>) -> Pack {
        let mut builder = Builder::default();
        for number in numbers {
            builder.append(digest(number), Bytes::copy_from_slice(&number.to_le_bytes()));
        }
        let (id, footer, payload) = builder.finish(&user.parse().unwrap(), Time(1));
        Pack { id, footer, size: payload.content_length() as u64 }
    }

    #[test]
    fn chunks_are_found_in_all_their_packs_until_the_last_is_gone() {
        let mut index = Index::default();
        let (first, second) = (pack("ana", 0..1_000), pack("ben", 500..1_500));
        let (a, b) = (first.id, second.id);
        index.insert(first);
        index.insert(second);
        index.insert(pack("ana", 0..1_000));
        assert_eq!((index.pack_count(), index.entry_count()), (2, 2_000));
        let found =
            |index: &Index| [0, 700, 1_400, 2_000].map(|n| index.copies(&digest(n)).count());
        assert_eq!(found(&index), [1, 2, 1, 0]);
        index.remove(a);
        assert_eq!(found(&index), [0, 1, 1, 0]);
        index.insert(pack("ana", 0..1_000));
        assert_eq!(found(&index), [1, 2, 1, 0]);
        index.remove(b);
        index.remove(a);
        assert_eq!((index.pack_count(), index.entry_count(), index.pack_bytes()), (0, 0, 0));
        assert!(index.taken.is_empty());
    }

    #[test]
    fn a_chunk_takes_at_most_64_bytes() {
        let mut index = Index::default();
        for number in 0..10 {
            let first = number * 60_000;
            index.insert(pack("ana", first..first + 60_000));
            let entries = index.entry_count() * size_of::<PackEntry>();
            let table = index.places.allocation_size();
            assert!(entries + table <= 64 * index.entry_count(), "{number}: {table}");
        }
    }

    #[test]
    fn users_share_the_index() {
        let mut index = Index::default();
        index.insert(pack("ana", 0..700));
        let room = |user: &str, more| {
            index.has_room(&user.parse().unwrap(), more, SharedBound::new(1_600))
        };
        assert_eq!(room("ana", 1), Err(Beyond::Share { own: 700, share: 700 }));
        assert_eq!(room("ben", 350), Ok(()));
        assert_eq!(room("ben", 351), Err(Beyond::Share { own: 0, share: 350 }));
    }

    #[test]
    fn users_share_the_disk() {
        let mut index = Index::default();
        let ana = pack("ana", 0..700);
        let size = ana.size;
        index.insert(ana);
        let room = |index: &Index, user: &str, more| {
            index.has_bytes(&user.parse().unwrap(), more, 7 * size)
        };
        // An eighth is reserved, and half of what is left is the share of each.
        let share = (7 * size).div_ceil(2);
        assert_eq!(room(&index, "ana", share - size), Ok(()));
        assert_eq!(room(&index, "ana", share - size + 1), Err(Beyond::Share { own: size, share }));
        assert_eq!(room(&index, "ben", 3 * size), Ok(()));
        assert_eq!(
            room(&index, "ben", 3 * size + 1),
            Err(Beyond::Share { own: 0, share: 3 * size })
        );
        let id = index.packs().next().unwrap().id;
        index.remove(id);
        assert!(index.taken.is_empty());
    }
}
