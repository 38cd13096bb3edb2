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
pub(crate) struct Taken {
    all: Arc<Mutex<BTreeMap<Digest, LayerTaken>>>,
    /// Those of them that are on their way.
    fetching: Arc<Mutex<BTreeSet<Digest>>>,
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
    layer: Digest,
    is_kept: bool,
}

impl ReservedRoom {
    /// The layer is there now.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
        lock(&self.taken.fetching).remove(&self.layer);
    }
}

impl Drop for ReservedRoom {
    fn drop(&mut self) {
        if !self.is_kept {
            self.taken.remove(self.layer);
        }
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
        let mut all = lock(&self.all);
        room(&all, &taken, free)?;
        all.insert(layer, taken);
        drop(all);
        lock(&self.fetching).insert(layer);
        Ok(ReservedRoom { taken: self.clone(), layer, is_kept: false })
    }

    /// Whether there is room for a layer, or it has its room already.
    pub(super) fn has_room(&self, layer: Digest, taken: &LayerTaken, free: Bytes) -> bool {
        let all = lock(&self.all);
        all.contains_key(&layer) || room(&all, taken, free).is_ok()
    }

    /// Takes in a layer that an earlier process has fetched.
    pub(super) fn adopt(&self, layer: Digest, taken: LayerTaken) {
        lock(&self.all).insert(layer, taken);
    }

    /// A layer is gone.
    pub(super) fn remove(&self, layer: Digest) {
        lock(&self.all).remove(&layer);
        lock(&self.fetching).remove(&layer);
    }

    /// The layers that are there or on their way.
    pub(super) fn layers(&self) -> BTreeSet<Digest> {
        lock(&self.all).keys().copied().collect()
    }

    /// The layers that are on their way.
    pub(super) fn fetching(&self) -> BTreeSet<Digest> {
        lock(&self.fetching).clone()
    }

    /// The number of layers, and the bytes of all.
    pub(crate) fn totals(&self) -> (usize, Bytes) {
        let all = lock(&self.all);
        let bytes = all.values().map(|taken| taken.bytes.0).fold(0, u64::saturating_add);
        (all.len(), Bytes(bytes))
    }
}

/// Whether a user may have one more layer.
fn room(all: &BTreeMap<Digest, LayerTaken>, more: &LayerTaken, free: Bytes) -> Result<(), Beyond> {
    let mut held = Held::default();
    for taken in all.values() {
        held.all = held.all.saturating_add(taken.bytes.0);
        if taken.user == more.user {
            held.own = held.own.saturating_add(taken.bytes.0);
        }
    }
    SharedBound::new(held.all.saturating_add(free.0)).take(held, more.bytes.0, Asker::User)
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
            let room = taken.reserve(digest(number), layer, Bytes(free));
            room.map(|room| {
                room.keep();
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
