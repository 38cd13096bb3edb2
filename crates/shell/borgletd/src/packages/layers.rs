//! The unpacked layers of a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use client::packages::PackageReader;
use linux::disk::Disk;
use linux::tree::remove_tree;
use model::{Bytes, Digest, UserName};
use package::chunk::{ChunkRef, ChunkSource};
use package::manifest::Layer;
use package::tree::{EntryKind, Segment, TreeReader};
use package::unpack::{Form, unpack};
use rpc::transport::Turns;
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::spawn_blocking;

use super::fetch::Ahead;
use super::lock;

/// How long a layer stays that nobody uses: a day.
const KEPT_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);
/// A disk with less free than this fraction of it keeps no unused layers.
const FREE_PART: u64 = 10;
/// How many layers are fetched and unpacked at once; users share them.
const AT_ONCE: usize = 4;
/// The maximum size of the tree of a layer, in bytes: it is kept in memory while the layer is unpacked.
const TREE_BYTES_MAX: u64 = 256 << 20;
/// The beginnings of the names of what is not complete, and of what is being removed.
const UNFINISHED: [&str; 2] = [".new-", ".old-"];

/// Layers by the digests of their trees.
pub(super) struct Layers {
    directory: PathBuf,
    /// One task at a time unpacks a layer.
    turns: Mutex<BTreeMap<Digest, Arc<AsyncMutex<()>>>>,
    at_once: Turns<UserName>,
}

impl Layers {
    /// Removes what an earlier process has not completed.
    pub(super) fn open(packages: &Path) -> anyhow::Result<Self> {
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
        Ok(Self { directory, turns, at_once })
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
        reader: PackageReader,
    ) -> anyhow::Result<PathBuf> {
        let path = self.directory.join(layer.digest.to_string());
        let turn = Arc::clone(lock(&self.turns).entry(layer.digest).or_default());
        let turn = turn.lock().await;
        let fetched = match path.exists() {
            true => Ok(()),
            false => {
                let _one_of_few = self.at_once.of(user).await;
                self.fetch(layer, reader, &path).await
            }
        };
        drop(turn);
        lock(&self.turns).retain(|_, turn| Arc::strong_count(turn) > 1);
        fetched?;
        self.note_use(layer.digest);
        Ok(path)
    }

    async fn fetch(&self, layer: &Layer, reader: PackageReader, path: &Path) -> anyhow::Result<()> {
        self.has_room(layer)?;
        let mut tree = BTreeMap::new();
        let mut encoded = Vec::new();
        let mut chunks = reader.read(layer.tree.iter().map(|chunk| chunk.digest));
        while let Some(chunk) = chunks.next().await? {
            encoded.extend_from_slice(&chunk);
            tree.insert(package::chunk::digest_of(&chunk), chunk);
        }
        let mut chunks = Vec::new();
        for entry in TreeReader::new(&*encoded) {
            let EntryKind::File { segments } = entry?.kind else { continue };
            let of = |segment: Segment| match segment {
                Segment::Chunk(chunk) => Some(chunk.digest),
                Segment::Hole { .. } => None,
            };
            chunks.extend(segments.into_iter().filter_map(of).filter(|it| !tree.contains_key(it)));
        }
        drop(encoded);
        let (ahead, reading) = Ahead::begin(reader.read(chunks));
        let new = self.directory.join(format!(".new-{}", layer.digest));
        let (layer, into) = (layer.clone(), new.clone());
        let (done, is_done) = oneshot::channel();
        // A thread of its own: the few for other work that blocks would all wait for stores.
        std::thread::Builder::new().name("unpack".to_owned()).spawn(move || {
            let mut source = LayerChunks { tree, ahead };
            // Nobody waits if the start was prevented; what is there is removed below.
            let _ = done.send(unpack_into(&layer, &mut source, &into));
        })?;
        let (unpacked, ()) = tokio::join!(is_done, reading);
        let moved = match unpacked.context("the thread that unpacks has ended")? {
            Ok(()) => fs::rename(&new, path).map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        if moved.is_err() {
            let removed = spawn_blocking(move || remove_tree(&new)).await?;
            if let Err(error) = removed {
                tracing::error!("cannot remove an incomplete layer: {error}");
            }
        }
        moved
    }

    /// Whether the disk has room for a layer, and a tenth of it is free afterwards.
    fn has_room(&self, layer: &Layer) -> anyhow::Result<()> {
        ensure!(
            layer.tree.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>() <= TREE_BYTES_MAX,
            "its list of files has more than {TREE_BYTES_MAX} bytes"
        );
        let disk = Disk::of(&self.directory)?;
        let free = disk.free_bytes.saturating_sub(disk.bytes / FREE_PART);
        ensure!(
            layer.unpacked <= free,
            "it takes {}, and the disk of this machine has {} for it",
            Bytes(layer.unpacked),
            Bytes(free)
        );
        Ok(())
    }

    fn marker(&self, layer: Digest) -> PathBuf {
        self.directory.join(format!("{layer}.used"))
    }

    /// Remembers that a layer was used now.
    fn note_use(&self, layer: Digest) {
        let noted = File::create(self.marker(layer));
        if let Err(error) = noted {
            tracing::warn!("cannot record the use of layer {layer}: {error}");
        }
    }

    /// Removes layers that nobody uses: those that were not used for long, and all if the disk is short.
    pub(super) async fn remove_unused(&self, used: BTreeSet<Digest>) {
        for layer in self.unused(&used).unwrap_or_default() {
            let turn = Arc::clone(lock(&self.turns).entry(layer).or_default());
            // Somebody is fetching it, or about to use it.
            let Ok(_turn) = turn.try_lock() else { continue };
            let (path, old) = (
                self.directory.join(layer.to_string()),
                self.directory.join(format!(".old-{layer}")),
            );
            let marker = self.marker(layer);
            let removed = spawn_blocking(move || {
                fs::rename(&path, &old)?;
                remove_tree(&old).map_err(io::Error::other)?;
                fs::remove_file(marker)
            });
            match removed.await.map_err(io::Error::other).and_then(|removed| removed) {
                Ok(()) => tracing::info!("removed layer {layer}, which was not used any more"),
                Err(error) => tracing::error!("cannot remove layer {layer}: {error}"),
            }
        }
    }

    fn unused(&self, used: &BTreeSet<Digest>) -> io::Result<Vec<Digest>> {
        let disk = Disk::of(&self.directory).ok();
        let is_short = disk.is_some_and(|disk| disk.free_bytes < disk.bytes / FREE_PART);
        let mut unused = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let Some(layer) = self.named(&entry?.path()) else { continue };
            let last = fs::metadata(self.marker(layer)).and_then(|marker| marker.modified());
            let age = last.map(|last| SystemTime::now().duration_since(last).unwrap_or_default());
            if !used.contains(&layer) && (is_short || age.unwrap_or(KEPT_UNUSED) >= KEPT_UNUSED) {
                unused.push(layer);
            }
        }
        Ok(unused)
    }
}

/// The chunks of a layer: those of its tree, which are here, and those of its files, in the order of the tree.
struct LayerChunks {
    tree: BTreeMap<Digest, Vec<u8>>,
    ahead: Ahead,
}

impl ChunkSource for LayerChunks {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        match self.tree.get(&chunk.digest) {
            Some(bytes) => {
                bytes.clone_into(into);
                Ok(())
            }
            None => self.ahead.get(chunk, into),
        }
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
