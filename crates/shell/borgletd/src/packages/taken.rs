//! How much of a machine's disk the layers of each user take. A layer counts for the user that it was fetched for,
//! although others may use it, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use model::{Asker, Beyond, Bytes, Digest, Held, SharedBound, UserName};

use super::lock;

/// The layers of a machine, present or being fetched, with their users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<Mutex<TakenRoom>>);

/// What is there, and what is on its way. The disk has room for the latter, and does not know of it yet.
#[derive(Debug, Default)]
struct TakenRoom {
    kept: BTreeMap<Digest, LayerTaken>,
    /// By the number of the reservation: a layer may be on its way twice, if a start was prevented.
    reserved: BTreeMap<u64, (Digest, LayerTaken)>,
    reservations: u64,
}

/// What a layer takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayerTaken {
    /// The user that it was fetched for.
    user: UserName,
    /// The bytes of its files.
    bytes: Bytes,
}

/// Room for a layer that is on its way; it is given back when this is dropped before [`Self::keep`].
#[derive(Debug)]
pub(super) struct ReservedRoom {
    taken: Taken,
    number: u64,
}

impl ReservedRoom {
    /// The layer is there now, and takes this.
    pub(super) fn keep(self, taken: LayerTaken) {
        let mut room = lock(&self.taken.0);
        if let Some((layer, _)) = room.reserved.remove(&self.number) {
            room.kept.insert(layer, taken);
        }
    }
}

impl Drop for ReservedRoom {
    fn drop(&mut self) {
        lock(&self.taken.0).reserved.remove(&self.number);
    }
}

impl Taken {
    /// Takes room for a layer that a user needs, out of what layers take and what is free.
    ///
    /// # Errors
    /// The user has its share of that, or would have more.
    pub(super) fn reserve(
        &self,
        layer: Digest,
        taken: LayerTaken,
        free: Bytes,
    ) -> Result<ReservedRoom, Beyond> {
        let mut room = lock(&self.0);
        room.take(&taken.user, taken.bytes, free, &BTreeSet::new())?;
        let number = room.reservations;
        room.reservations += 1;
        room.reserved.insert(number, (layer, taken));
        drop(room);
        Ok(ReservedRoom { taken: self.clone(), number })
    }

    /// Whether there is room for layers of a user together, if those in `removed` were gone. A layer that has its room
    /// already needs none.
    ///
    /// # Errors
    /// The user has its share, or would have more.
    pub(super) fn has_room(
        &self,
        user: &UserName,
        layers: &[(Digest, Bytes)],
        free: Bytes,
        removed: &BTreeSet<Digest>,
    ) -> Result<(), Beyond> {
        let room = lock(&self.0);
        let on_its_way: BTreeSet<Digest> = room.reserved.values().map(|it| it.0).collect();
        let needs = |layer: &&(Digest, Bytes)| {
            !room.kept.contains_key(&layer.0) && !on_its_way.contains(&layer.0)
        };
        let sizes = layers.iter().filter(needs).map(|layer| layer.1.0);
        let more = Bytes(sizes.fold(0, u64::saturating_add));
        room.take(user, more, free, removed)
    }

    /// The layers that were fetched for a user and are there.
    pub(super) fn of(&self, user: &UserName) -> BTreeSet<Digest> {
        let room = lock(&self.0);
        let own = room.kept.iter().filter(|layer| layer.1.user == *user);
        own.map(|layer| *layer.0).collect()
    }

    /// Takes in a layer that an earlier process has fetched.
    pub(super) fn adopt(&self, layer: Digest, taken: LayerTaken) {
        lock(&self.0).kept.insert(layer, taken);
    }

    /// A layer is gone.
    pub(super) fn remove(&self, layer: Digest) {
        lock(&self.0).kept.remove(&layer);
    }

    /// The layers that are there or on their way.
    pub(super) fn layers(&self) -> BTreeSet<Digest> {
        let room = lock(&self.0);
        room.kept.keys().copied().chain(room.reserved.values().map(|it| it.0)).collect()
    }

    /// The layers that are on their way.
    pub(super) fn fetching(&self) -> BTreeSet<Digest> {
        lock(&self.0).reserved.values().map(|it| it.0).collect()
    }

    /// The number of layers, and the bytes of all, with those on their way.
    pub(crate) fn totals(&self) -> (usize, Bytes) {
        let room = lock(&self.0);
        let bytes = room.all().map(|taken| taken.bytes.0).fold(0, u64::saturating_add);
        (room.all().count(), Bytes(bytes))
    }
}

impl TakenRoom {
    fn all(&self) -> impl Iterator<Item = &LayerTaken> {
        self.kept.values().chain(self.reserved.values().map(|it| &it.1))
    }

    /// Whether a user may have this much more. The bound is what layers take that are there, and what is free: what is on
    /// its way will take a part of that.
    fn take(
        &self,
        user: &UserName,
        more: Bytes,
        free: Bytes,
        removed: &BTreeSet<Digest>,
    ) -> Result<(), Beyond> {
        let there = self.kept.values().map(|taken| taken.bytes.0).fold(0, u64::saturating_add);
        let stays = self.kept.iter().filter(|layer| !removed.contains(layer.0)).map(|it| it.1);
        let mut held = Held::default();
        for taken in stays.chain(self.reserved.values().map(|it| &it.1)) {
            held.all = held.all.saturating_add(taken.bytes.0);
            if taken.user == *user {
                held.own = held.own.saturating_add(taken.bytes.0);
            }
        }
        SharedBound::new(there.saturating_add(free.0)).take(held, more.0, Asker::User)
    }
}

impl LayerTaken {
    pub(super) fn new(user: &UserName, bytes: Bytes) -> Self {
        Self { user: user.clone(), bytes }
    }

    /// Writes it into a file that exists as long as its layer; when that was modified is when the layer was used last.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        fs::write(file, format!("{} {}\n", self.user, self.bytes.0))
    }

    /// Reads what [`Self::write`] has written; `None` if it is something else.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let (user, bytes) = text.trim_end().split_once(' ')?;
        Some(Self { user: user.parse().ok()?, bytes: Bytes(bytes.parse().ok()?) })
    }
}

/// The file that names the user of a layer and, by its time, the last use of the layer.
#[derive(Debug)]
pub(super) struct UseMarker(pub(super) PathBuf);

impl UseMarker {
    /// Remembers that the layer was used now.
    pub(super) fn touch(&self) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(&self.0)?;
        file.set_modified(SystemTime::now())
    }

    /// When the layer was used last.
    pub(super) fn last_use(&self) -> io::Result<SystemTime> {
        fs::metadata(&self.0)?.modified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest::from_bytes([number; Digest::BYTES])
    }

    #[test]
    fn users_share_the_disk_for_layers() {
        let (ana, ben) = ("ana".parse().expect("a name"), "ben".parse().expect("a name"));
        let taken = Taken::default();
        let mut free = 1_600;
        let mut take = |user: &UserName, number: u8, bytes: u64| {
            let layer = LayerTaken::new(user, Bytes(bytes));
            let room = taken.reserve(digest(number), layer.clone(), Bytes(free));
            room.map(|room| {
                room.keep(layer);
                free -= bytes;
            })
        };
        assert_eq!(take(&ana, 1, 700), Ok(()));
        assert_eq!(take(&ana, 2, 1), Err(Beyond::Share { own: 700, share: 700 }));
        assert_eq!(take(&ben, 3, 351), Err(Beyond::Share { own: 0, share: 350 }));
        assert_eq!(take(&ben, 4, 350), Ok(()));
        // What did not come is given back.
        drop(taken.reserve(digest(5), LayerTaken::new(&ben, Bytes(0)), Bytes(free)));
        assert_eq!(taken.totals(), (2, Bytes(1_050)));
        taken.remove(digest(1));
        assert_eq!(taken.totals(), (1, Bytes(350)));
    }

    #[test]
    fn what_is_on_its_way_is_no_room_for_more() {
        let (ana, ben): (UserName, UserName) =
            ("ana".parse().expect("a name"), "ben".parse().expect("a name"));
        let taken = Taken::default();
        // Nothing is written yet, so the disk still says that all is free. Half of seven eighths is one user's.
        let free = Bytes(1_600);
        let reserve = |user: &UserName, number: u8, bytes: u64| {
            taken.reserve(digest(number), LayerTaken::new(user, Bytes(bytes)), free)
        };
        let first = reserve(&ana, 1, 400).expect("there is room");
        let second = reserve(&ana, 2, 300).expect("there is room");
        assert_eq!(reserve(&ana, 3, 1).err(), Some(Beyond::Share { own: 700, share: 700 }));
        assert_eq!(reserve(&ben, 4, 351).err(), Some(Beyond::Share { own: 0, share: 350 }));
        assert_eq!(taken.totals(), (2, Bytes(700)));
        // Twice on its way, and once there.
        let again = reserve(&ben, 1, 350).expect("there is room");
        first.keep(LayerTaken::new(&ana, Bytes(400)));
        drop(again);
        drop(second);
        assert_eq!(taken.totals(), (1, Bytes(400)));
        assert_eq!(
            (taken.of(&ana), taken.of(&ben)),
            (BTreeSet::from([digest(1)]), BTreeSet::new())
        );
    }

    #[test]
    fn the_layers_of_an_image_need_room_together() {
        let ana: UserName = "ana".parse().expect("a name");
        let ben: UserName = "ben".parse().expect("a name");
        let taken = Taken::default();
        taken.adopt(digest(1), LayerTaken::new(&ben, Bytes(800)));
        let fits = |layers: &[(u8, u64)], removed: &[u8]| {
            let layers: Vec<_> =
                layers.iter().map(|layer| (digest(layer.0), Bytes(layer.1))).collect();
            let removed = removed.iter().copied().map(digest).collect();
            taken.has_room(&ana, &layers, Bytes(800), &removed).is_ok()
        };
        // Seven eighths of 1,600 without the 800, and half of that.
        for (layers, removed, is_enough) in [
            (&[(2, 300)][..], &[][..], true),
            (&[(2, 301)], &[], false),
            (&[(2, 150), (3, 150)], &[], true),
            (&[(2, 200), (3, 200)], &[], false),
            (&[(1, 800), (2, 300)], &[], true),
            (&[(2, 200), (3, 200)], &[1], true),
            (&[(2, 701)], &[1], false),
        ] {
            assert_eq!(fits(layers, removed), is_enough, "{layers:?} without {removed:?}");
        }
    }

    #[test]
    fn a_marker_keeps_its_user_when_it_is_touched() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let marker = UseMarker(place.path().join("marker"));
        let layer = LayerTaken::new(&"ana".parse().expect("a name"), Bytes(7));
        layer.write(&marker.0).expect("there is room");
        marker.touch().expect("it is there");
        assert_eq!(LayerTaken::read(&marker.0), Some(layer));
        assert!(marker.last_use().expect("it is there").elapsed().is_ok());
        fs::write(&marker.0, "ana").expect("there is room");
        assert_eq!(LayerTaken::read(&marker.0), None);
    }
}
