//! The unpacked layers of a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use linux::disk::Disk;
use linux::tree::remove_tree;
use model::{Beyond, Bytes, Digest, UserName};
use package::ChunkPlaces;
use package::chunk::{ChunkRef, ChunkSource};
use package::manifest::Layer;
use package::unpack::{Form, unpack};
use rpc::transport::Turns;
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::spawn_blocking;

use super::fetch::{Fetching, Sources};
use super::lock;
use super::spool::Spool;
use super::taken::{LayerTaken, Taken, UseMarker};

/// How long a layer stays that nobody uses: a day.
const KEPT_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);
/// A disk with less free than this fraction of it keeps no unused layers.
const FREE_PART: u64 = 10;
/// How many layers are fetched and unpacked at once; users share them.
const AT_ONCE: usize = 4;
/// The maximum size of the tree of a layer, in bytes: it is kept in memory while the layer is unpacked.
const TREE_BYTES_MAX: u64 = 256 << 20;
/// The maximum number of chunks of a layer: with chunks of the average length, 128 GiB.
pub(super) const CHUNKS_MAX: u32 = 2_000_000;
/// The extension of the files with the encoded trees of layers.
const TREE: &str = "tree";
/// The beginnings of the names of what is not complete, and of what is being removed.
const UNFINISHED: [&str; 2] = [".new-", ".old-"];

/// Layers by the digests of their trees.
pub(super) struct Layers {
    directory: PathBuf,
    /// One task at a time unpacks a layer.
    turns: Mutex<BTreeMap<Digest, Arc<AsyncMutex<()>>>>,
    at_once: Turns<UserName>,
    taken: Taken,
    pub(super) fetching: Fetching,
    /// The layers that are on their way, and what of them is here.
    partial: Mutex<BTreeMap<Digest, Arc<PartialLayer>>>,
    /// The number of the next directory for a layer that is not complete.
    next: AtomicU64,
}

/// A layer that is on its way.
#[derive(Debug)]
pub(super) struct PartialLayer {
    pub(super) spool: Arc<Spool>,
    pub(super) places: Arc<ChunkPlaces>,
}

/// What a machine has of a layer.
pub(super) enum LayerHere {
    /// All: its directory, and the file with its encoded tree.
    All { directory: PathBuf, tree: PathBuf },
    /// Some chunks.
    Some(Arc<PartialLayer>),
}

/// Ends a fetch: its layer is not on its way any more, and nobody waits for more.
struct PartialEnd<'a> {
    layers: &'a Layers,
    layer: Digest,
    spool: Arc<Spool>,
}

impl Drop for PartialEnd<'_> {
    fn drop(&mut self) {
        lock(&self.layers.partial).remove(&self.layer);
        self.spool.end("the layer is not fetched any more");
        if !self.layers.has(self.layer) {
            let removed = fs::remove_file(self.layers.tree_file(self.layer));
            removed.unwrap_or_else(|error| tracing::warn!("the tree of {}: {error}", self.layer));
        }
    }
}

/// Which layers that nobody uses are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// Those that were not used for long; all if the disk is short.
    Old,
    /// These, if they are there.
    Of(BTreeSet<Digest>),
    /// All.
    All,
}

/// Says which layers are used at the moment.
pub(super) type UsedLayers<'a> = &'a (dyn Fn() -> BTreeSet<Digest> + Send + Sync);

impl Layers {
    /// Removes what an earlier process has not completed.
    pub(super) fn open(packages: &Path, fetching: Fetching) -> anyhow::Result<Self> {
        let directory = packages.join("layers");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.with_context(|| format!("cannot create {}", directory.display()))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if UNFINISHED.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
                let removed = remove_tree(&entry.path());
                removed.with_context(|| format!("cannot remove {}", entry.path().display()))?;
            }
        }
        let (turns, at_once) = (Mutex::default(), Turns::new(AT_ONCE));
        let (taken, next) = (Taken::default(), AtomicU64::new(0));
        let partial = Mutex::default();
        let layers = Self { directory, turns, at_once, taken, fetching, partial, next };
        for entry in fs::read_dir(&layers.directory)? {
            let path = entry?.path();
            let of = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let is_tree = path.extension().is_some_and(|extension| extension == TREE);
            if is_tree && of.is_none_or(|layer| !layers.has(layer)) {
                fs::remove_file(&path)?;
            }
        }
        for layer in layers.all()? {
            let marker = layers.marker(layer);
            match LayerTaken::read(&marker.0) {
                Some(taken) => layers.taken.adopt(layer, taken),
                None => tracing::warn!("{} does not say whose layer it is", marker.0.display()),
            }
        }
        Ok(layers)
    }

    /// The layers that are there.
    fn all(&self) -> io::Result<Vec<Digest>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            all.extend(self.named(&entry?.path()));
        }
        Ok(all)
    }

    /// Whether a layer is there.
    pub(super) fn has(&self, layer: Digest) -> bool {
        self.directory.join(layer.to_string()).exists()
    }

    /// The digest of the layer in a directory.
    pub(super) fn named(&self, path: &Path) -> Option<Digest> {
        let parent = path.parent().filter(|parent| *parent == self.directory);
        parent.and(path.file_name()).and_then(|name| name.to_str()?.parse().ok())
    }

    /// The directory of a layer, which is fetched for a user if it is not there.
    pub(super) async fn get(
        &self,
        user: &UserName,
        layer: &Layer,
        sources: Sources,
    ) -> anyhow::Result<PathBuf> {
        let path = self.directory.join(layer.digest.to_string());
        let turn = Arc::clone(lock(&self.turns).entry(layer.digest).or_default());
        // With its turn: it may be about to be removed, or another start fetches it.
        let is_there = async || {
            let _turn = turn.lock().await;
            path.exists()
        };
        let fetched = if is_there().await {
            Ok(())
        } else {
            // That of the user first: nobody waits for a layer of a user who waits.
            let _one_of_few = self.at_once.of(user).await;
            let _turn = turn.lock().await;
            if path.exists() { Ok(()) } else { self.fetch(user, layer, &sources, &path).await }
        };
        drop(turn);
        lock(&self.turns).retain(|_, turn| Arc::strong_count(turn) > 1);
        fetched?;
        if let Err(error) = self.marker(layer.digest).touch() {
            tracing::warn!("cannot record the use of layer {}: {error}", layer.digest);
        }
        Ok(path)
    }

    async fn fetch(
        &self,
        user: &UserName,
        layer: &Layer,
        sources: &Sources,
        path: &Path,
    ) -> anyhow::Result<()> {
        ensure!(
            tree_bytes(layer) <= TREE_BYTES_MAX,
            "its list of files has more than {TREE_BYTES_MAX} bytes"
        );
        let taken = LayerTaken::new(user, kept_bytes(layer));
        let taken_bytes = fetched_bytes(layer);
        let on_its_way = LayerTaken::new(user, taken_bytes);
        let room = self.taken.reserve(layer.digest, on_its_way, self.free()?);
        let room =
            room.map_err(|beyond| anyhow::anyhow!("{}", no_room(taken_bytes, user, beyond)))?;
        // No two have the same name: a thread whose start was prevented may still remove its own.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let new = self.directory.join(format!("{}{}-{number}", UNFINISHED[0], layer.digest));
        let chunks = new.with_extension("chunks");

        let of_tree = Arc::new(Spool::new(&chunks, distinct(&layer.tree))?);
        self.fetching.fetch(layer.digest, &of_tree, sources).await?;
        let (of, file) = (layer.clone(), self.tree_file(layer.digest));
        let located = spawn_blocking(move || {
            let mut tree = Vec::new();
            for chunk in &of.tree {
                let position = of_tree.chunks().iter().position(|it| it.digest == chunk.digest);
                let position = position.and_then(|it| u32::try_from(it).ok()).unwrap_or(u32::MAX);
                tree.extend(of_tree.wait(position)?);
            }
            let places = ChunkPlaces::of(&of, &tree, CHUNKS_MAX)?;
            let spool = Spool::new(&chunks, places.chunks().to_vec())?;
            for position in 0..places.of_tree() {
                spool.put(position, &of_tree.wait(position)?)?;
            }
            fs::write(&file, &tree)?;
            anyhow::Ok((Arc::new(places), Arc::new(spool)))
        });
        let (places, spool) = located.await.context("the thread that reads the tree")??;
        let partial = PartialLayer { spool: Arc::clone(&spool), places: Arc::clone(&places) };
        lock(&self.partial).insert(layer.digest, Arc::new(partial));
        let _end = PartialEnd { layers: self, layer: layer.digest, spool: Arc::clone(&spool) };

        let (of, path, marker) = (layer.clone(), path.to_owned(), self.marker(layer.digest));
        let (done, is_done) = oneshot::channel();
        let mut source = LayerChunks { spool: Arc::clone(&spool), places };
        // A thread of its own: the few for other work that blocks would all wait for chunks. It ends what it has begun,
        // also if the start was prevented and nobody waits.
        std::thread::Builder::new().name("unpack".to_owned()).spawn(move || {
            let unpacked = unpack_into(&of, &mut source, &new).and_then(|()| {
                taken.write(&marker.0)?;
                put(&new, &path)?;
                room.keep(taken);
                Ok(())
            });
            if unpacked.is_err()
                && let Err(error) = remove_tree(&new)
            {
                tracing::error!("cannot remove an incomplete layer: {error}");
            }
            let _nobody_waits = done.send(unpacked);
        })?;
        let fetched = async {
            let fetched = self.fetching.fetch(layer.digest, &spool, sources).await;
            if let Err(error) = &fetched {
                spool.end(&format!("{error:#}"));
            }
            fetched
        };
        let (unpacked, fetched) = tokio::join!(is_done, fetched);
        fetched?;
        unpacked.context("the thread that unpacks has ended")?
    }

    /// What is here of a layer.
    pub(super) fn here(&self, layer: Digest) -> Option<LayerHere> {
        if let Some(partial) = lock(&self.partial).get(&layer) {
            return Some(LayerHere::Some(Arc::clone(partial)));
        }
        let (directory, tree) = (self.directory.join(layer.to_string()), self.tree_file(layer));
        (directory.exists() && tree.exists()).then_some(LayerHere::All { directory, tree })
    }

    fn tree_file(&self, layer: Digest) -> PathBuf {
        self.directory.join(format!("{layer}.{TREE}"))
    }

    /// What is free for layers, so that a tenth of the disk stays free.
    pub(super) fn free(&self) -> anyhow::Result<Bytes> {
        let disk = Disk::of(&self.directory)?;
        Ok(Bytes(disk.free_bytes.saturating_sub(disk.bytes / FREE_PART)))
    }

    /// Makes room for layers of a user that are not there: out of what nobody uses of the user's, and of others only if
    /// that would be enough. So no user who asks for more than its share empties what others keep.
    ///
    /// # Errors
    /// When there is no room for all of them.
    pub(super) async fn make_room(
        &self,
        user: &UserName,
        layers: &[(Digest, Bytes)],
        used: UsedLayers<'_>,
    ) -> anyhow::Result<()> {
        if self.has_room(user, layers, &BTreeSet::new())?.is_ok() {
            return Ok(());
        }
        self.remove_unused(used, Unused::Of(self.taken.of(user))).await;
        let Err(beyond) = self.has_room(user, layers, &BTreeSet::new())? else { return Ok(()) };
        let unused = self.unused(&used(), &Unused::All)?.into_iter().collect();
        if self.has_room(user, layers, &unused)?.is_ok() {
            self.remove_unused(used, Unused::All).await;
            return Ok(());
        }
        let bytes = layers.iter().map(|layer| layer.1.0).fold(0, u64::saturating_add);
        Err(anyhow::anyhow!("{}", no_room(Bytes(bytes), user, beyond)))
    }

    fn has_room(
        &self,
        user: &UserName,
        layers: &[(Digest, Bytes)],
        removed: &BTreeSet<Digest>,
    ) -> anyhow::Result<Result<(), Beyond>> {
        Ok(self.taken.has_room(user, layers, self.free()?, removed))
    }

    /// Who takes how much.
    pub(super) fn taken(&self) -> &Taken {
        &self.taken
    }

    fn marker(&self, layer: Digest) -> UseMarker {
        UseMarker(self.directory.join(format!("{layer}.used")))
    }

    /// Removes layers that nobody uses. It must not be dropped before it is done.
    pub(super) async fn remove_unused(&self, used: UsedLayers<'_>, which: Unused) {
        for layer in self.unused(&used(), &which).unwrap_or_default() {
            let turn = Arc::clone(lock(&self.turns).entry(layer).or_default());
            // Somebody is fetching it, or about to use it.
            let Ok(_turn) = turn.try_lock() else { continue };
            if used().contains(&layer) {
                continue;
            }
            let path = self.directory.join(layer.to_string());
            let old = self.directory.join(format!("{}{layer}", UNFINISHED[1]));
            let (marker, tree) = (self.marker(layer), self.tree_file(layer));
            let removed = spawn_blocking(move || remove(&path, &old, [&marker.0, &tree]));
            match removed.await.map_err(io::Error::other).and_then(|removed| removed) {
                Ok(()) => {
                    self.taken.remove(layer);
                    tracing::info!("removed layer {layer}, which was not used any more");
                }
                Err(error) => tracing::error!("cannot remove layer {layer}: {error}"),
            }
        }
    }

    fn unused(&self, used: &BTreeSet<Digest>, which: &Unused) -> io::Result<Vec<Digest>> {
        let disk = Disk::of(&self.directory).ok();
        let is_short = disk.is_some_and(|disk| disk.free_bytes < disk.bytes / FREE_PART);
        let is_old = |layer: &Digest| {
            let last = self.marker(*layer).last_use();
            let age = last.map(|last| SystemTime::now().duration_since(last).unwrap_or_default());
            age.unwrap_or(KEPT_UNUSED) >= KEPT_UNUSED
        };
        let mut unused = self.all()?;
        unused.retain(|layer| {
            !used.contains(layer)
                && match which {
                    Unused::Old => is_short || is_old(layer),
                    Unused::Of(these) => these.contains(layer),
                    Unused::All => true,
                }
        });
        Ok(unused)
    }
}

/// Why a layer is not fetched.
fn no_room(bytes: Bytes, user: &UserName, beyond: Beyond) -> String {
    format!(
        "it takes {bytes}, and the disk of this machine has no room for it in the share of {user}, in bytes: {beyond}"
    )
}

/// Gives a complete layer its name. One of that name has the same files.
fn put(new: &Path, path: &Path) -> anyhow::Result<()> {
    match fs::rename(new, path) {
        Err(_) if path.exists() => remove_tree(new).context("cannot remove a layer that is there"),
        renamed => renamed.with_context(|| format!("cannot rename a layer to {}", path.display())),
    }
}

/// Removes a layer and then the files beside it, those that are there.
fn remove(path: &Path, old: &Path, files: [&Path; 2]) -> io::Result<()> {
    fs::rename(path, old)?;
    remove_tree(old).map_err(io::Error::other)?;
    for file in files {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The length of the encoded tree of a layer, in bytes.
fn tree_bytes(layer: &Layer) -> u64 {
    layer.tree.iter().map(|chunk| u64::from(chunk.length)).sum()
}

/// What a layer takes of the disk: its files, and its tree.
fn kept_bytes(layer: &Layer) -> Bytes {
    Bytes(layer.unpacked.saturating_add(tree_bytes(layer)))
}

/// What it takes while it is fetched: its chunks, too.
pub(super) fn fetched_bytes(layer: &Layer) -> Bytes {
    Bytes(kept_bytes(layer).0.saturating_add(layer.stored))
}

/// Each chunk once.
fn distinct(chunks: &[ChunkRef]) -> Vec<ChunkRef> {
    let mut seen = BTreeSet::new();
    chunks.iter().filter(|chunk| seen.insert(chunk.digest)).copied().collect()
}

/// The chunks of a layer that is on its way, as it is unpacked.
struct LayerChunks {
    spool: Arc<Spool>,
    places: Arc<ChunkPlaces>,
}

impl ChunkSource for LayerChunks {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        let position = self.places.position(chunk.digest).ok_or(io::ErrorKind::NotFound)?;
        *into = self.spool.wait(position)?;
        Ok(())
    }
}

/// Unpacks a layer into a new directory and makes it durable.
fn unpack_into(layer: &Layer, source: &mut LayerChunks, into: &Path) -> anyhow::Result<()> {
    DirBuilder::new().mode(0o755).create(into)?;
    let directory = File::open(into)?;
    unpack(layer, source, directory.as_fd(), Form::Overlay)?;
    // A name that survives a power failure without the files would be a broken package for ever.
    nix::unistd::syncfs(&directory).context("cannot sync the layer")
}

#[cfg(test)]
mod tests {
    use process::clock::Clock;

    use super::super::fetch::FetchCounts;
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest::from_bytes([number; Digest::BYTES])
    }

    /// Layers as an earlier process has left them: their number, their user, and their bytes, if they have a marker.
    fn left(place: &Path, there: &[(u8, Option<(&UserName, u64)>)]) -> Layers {
        let layers = place.join("layers");
        for (number, taken) in there {
            let path = layers.join(digest(*number).to_string());
            fs::create_dir_all(&path).expect("there is room");
            fs::write(path.join("file"), "content").expect("there is room");
            if let Some((user, bytes)) = taken {
                let marker = layers.join(format!("{}.used", digest(*number)));
                LayerTaken::new(user, Bytes(*bytes)).write(&marker).expect("there is room");
            }
        }
        let (clock, bans, counts) = (Clock::start(), Mutex::default(), FetchCounts::default());
        let fetching = Fetching { clock, bans, counts, seed: 7 };
        Layers::open(place, fetching).expect("a directory")
    }

    fn is_there(layers: &Layers, numbers: [u8; 3]) -> [bool; 3] {
        numbers.map(|number| layers.has(digest(number)))
    }

    #[tokio::test]
    async fn a_start_makes_room_with_its_own_layers_first() {
        let (ana, ben): (UserName, UserName) =
            ("ana".parse().expect("a name"), "ben".parse().expect("a name"));
        let free = Disk::of(Path::new("/tmp")).expect("a disk").free_bytes;
        // The owner of the unused layer that fills the disk, how much ana requests, whether the request succeeds, and which
        // layers stay: the large one, another unused one of ben, and one in use.
        for (owner, asks, gets, stays) in [
            (&ana, 1, true, [false, true, true]),
            (&ben, free / 8, true, [false, false, true]),
            (&ben, free.saturating_mul(100), false, [true, true, true]),
        ] {
            let place = tempfile::tempdir().expect("a temporary directory");
            let large = free.saturating_mul(100);
            let there = [(1, Some((owner, large))), (2, Some((&ben, 1))), (3, Some((&ben, 1)))];
            let layers = left(place.path(), &there);
            let used = || BTreeSet::from([digest(3)]);
            let made = layers.make_room(&ana, &[(digest(9), Bytes(asks))], &used).await;
            assert_eq!(made.is_ok(), gets, "{made:?}");
            assert_eq!(is_there(&layers, [1, 2, 3]), stays, "of {owner}, {asks} asked");
        }
    }

    #[tokio::test]
    async fn what_is_used_stays_and_a_layer_without_a_marker_goes() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let ana: UserName = "ana".parse().expect("a name");
        let layers = left(place.path(), &[(1, None), (2, Some((&ana, 7))), (3, Some((&ana, 7)))]);
        assert_eq!(layers.taken().totals(), (2, Bytes(14)));
        // A start begins to use a layer after it was found to be unused.
        let asked = AtomicU64::new(0);
        let used = || match asked.fetch_add(1, Ordering::Relaxed) {
            0 => BTreeSet::new(),
            _ => BTreeSet::from([digest(2)]),
        };
        layers.remove_unused(&used, Unused::All).await;
        assert_eq!(is_there(&layers, [1, 2, 3]), [false, true, false]);
        assert_eq!(layers.taken().totals(), (1, Bytes(7)));
        let left = fs::read_dir(place.path().join("layers")).expect("it is there").count();
        assert_eq!(left, 2, "a layer and its marker");
    }

    #[test]
    fn a_layer_that_cannot_have_its_name_says_so() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        for name in ["new", "there"] {
            fs::create_dir(at(name)).expect("there is room");
            fs::write(at(name).join("file"), name).expect("there is room");
        }
        // One that another start has put there: it is the same.
        put(&at("new"), &at("there")).expect("it is there");
        assert!(!at("new").exists() && at("there").exists());
        assert!(put(&at("new"), &at("another")).is_err());
    }
}
