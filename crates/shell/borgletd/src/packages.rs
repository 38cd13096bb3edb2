//! The packages of a machine: fetched when a task first needs them, checked, unpacked once, shared by all tasks that
//! use them, and removed when they have not been used for long.
//!
//! ```text
//! packages/layers/DIGEST/         the files of a layer, by the digest of its tree
//! packages/layers/DIGEST.used     the user that it was fetched for; modified at each use
//! packages/layers/DIGEST.tree     its encoded tree, by which its chunks are found for other machines
//! packages/versions/DIGEST        which layers a package has, by the digest of its manifest
//! packages/layers/.new-DIGEST-1/  one that is being unpacked; removed at the next start
//! ```
//!
//! A layer has its name only when it is complete. What a package is called and who may read it is asked of a master at
//! each start; what it contains is in its manifest, which a store has.

mod fetch;
mod image;
mod layers;
mod sharing;
mod spool;
mod taken;
mod versions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use api::v1;
use borglet::{Desired, PACKAGES_DIRECTORY};
use client::packages::{PackageReader, StoreError};
use linux::record::{Bind, ImageRoot};
use model::{Bytes, Digest, HeldPackage, ImageArchitecture, InstanceId, PackageId, Random, Span};
use package::manifest::{Layer, Manifest};
use process::clock::Clock;
use process::renewal::{Masters, explained};
use rpc::service::packages_client::PackagesClient;
use rpc::{Expect, Role, Rotating};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::{Request, Status};

pub(crate) use self::fetch::FetchCounts;
use self::fetch::{Fetching, Peer, Sources};
use self::layers::{Layers, Unused, fetched_bytes};
pub(crate) use self::sharing::{SHARE_RATE, Sharing};
pub(crate) use self::taken::Taken;
use self::versions::Versions;
use super::clients::is_final;
use super::found_packages::{FoundImage, FoundPackages};
use super::tasks::Files;

/// How long masters are asked for the right to read a package before a start is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The delay before all masters are asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// How many manifests are kept in memory, and how long each of them is at most, in bytes; longer ones are read at
/// each start.
const KEPT_MANIFESTS_MAX: usize = 256;
const KEPT_MANIFEST_BYTES_MAX: usize = 64 << 10;
/// How many machines a package is fetched from at most.
const PEERS_MAX: usize = 8;
/// How often unused layers are looked for.
const LOOK: Duration = Duration::from_secs(60);

/// The packages of a machine. Clones share their state.
#[derive(Clone)]
pub(super) struct Packages(Arc<Inner>);

struct Inner {
    credentials: Rotating,
    masters: Masters,
    layers: Layers,
    versions: Versions,
    /// Manifests that were read lately: a start with all its layers here needs no store.
    manifests: Mutex<VecDeque<(Digest, Arc<Manifest>)>>,
    /// The layers that instances use.
    used: Mutex<BTreeMap<InstanceId, BTreeSet<Digest>>>,
}

impl Packages {
    pub(super) fn new(
        files: &Files,
        credentials: Rotating,
        masters: Masters,
    ) -> anyhow::Result<Self> {
        let identity = credentials.credentials().identity().to_string();
        let seed = package::chunk::digest_of(identity.as_bytes());
        let seed =
            seed.as_bytes().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let (clock, bans, counts) = (Clock::start(), Mutex::default(), FetchCounts::default());
        let fetching = Fetching { clock, bans, counts, seed: Random::mixed(seed) };
        let directory = files.directory.join("packages");
        let layers = Layers::open(&directory, fetching)?;
        let versions = Versions::open(&directory)?;
        let (manifests, used) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { credentials, masters, layers, versions, manifests, used })))
    }

    /// Makes the packages of a task available, and its image.
    ///
    /// # Errors
    /// When one cannot be fetched, with the reason; nothing is left of it then.
    pub(super) async fn begin(&self, desired: &Desired) -> anyhow::Result<FoundPackages> {
        let (mut found, mut missed, begun) = (FoundPackages::default(), false, Instant::now());
        if let Some(image) = &desired.spec.image {
            let id = image.of(&desired.user);
            let image = self.image(desired, &id, &mut missed).await;
            found.image = Some(image.with_context(|| format!("cannot fetch image {id}"))?);
        }
        for package in &desired.spec.packages {
            let id = package.of(&desired.user);
            let files = self.files(desired, &id, &mut missed).await;
            let source = files.with_context(|| format!("cannot fetch package {id}"))?;
            let target = PathBuf::from(PACKAGES_DIRECTORY).join(id.name.as_str());
            found.binds.push(Bind { source, target, writable: false });
        }
        if missed {
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            // Else it looks as if everything had been here.
            found.fetched = Span(took).max(Span::from_millis(1));
        }
        Ok(found)
    }

    /// An instance has ended: its packages may be removed.
    pub(super) fn end(&self, instance: InstanceId) {
        lock(&self.0.used).remove(&instance);
    }

    /// Adopts what running instances use, given the sources of their bind mounts.
    pub(super) fn adopt(&self, instance: InstanceId, sources: impl Iterator<Item = PathBuf>) {
        let layers: BTreeSet<Digest> =
            sources.filter_map(|source| self.0.layers.named(&source)).collect();
        if !layers.is_empty() {
            lock(&self.0.used).insert(instance, layers);
        }
    }

    /// Removes what has not been used for long, forever.
    pub(super) async fn run(self) -> std::convert::Infallible {
        loop {
            let packages = self.clone();
            // A task of its own, which is not dropped in the middle.
            let removed = tokio::spawn(async move {
                packages.0.layers.remove_unused(&|| packages.used(), Unused::Old).await;
            });
            if let Err(error) = removed.await {
                tracing::error!("cannot look for unused layers: {error}");
            }
            self.0.versions.forget(self.0.layers.taken());
            sleep(LOOK).await;
        }
    }

    /// The layers of packages and images that are here or on their way.
    pub(super) fn taken(&self) -> Taken {
        self.0.layers.taken().clone()
    }

    /// What was fetched since the start.
    pub(super) fn counts(&self) -> FetchCounts {
        self.0.layers.fetching.counts.clone()
    }

    /// What is here of packages and images, or on its way: what a master is told.
    pub(super) fn held(&self) -> Vec<HeldPackage> {
        self.0.versions.held(self.0.layers.taken(), &self.used())
    }

    /// The layers that instances use.
    fn used(&self) -> BTreeSet<Digest> {
        lock(&self.0.used).values().flatten().copied().collect()
    }

    /// The directory with the files of a package. Sets `missed` if they were not here.
    async fn files(
        &self,
        desired: &Desired,
        id: &PackageId,
        missed: &mut bool,
    ) -> anyhow::Result<PathBuf> {
        let (digest, manifest, sources) = self.find(id).await?;
        let layer = files_of(&manifest)?;
        self.0.versions.used(digest, std::slice::from_ref(layer));
        let mut layers =
            self.layers(desired, std::slice::from_ref(layer), &sources, missed).await?;
        layers.pop().context("it has no layer")
    }

    /// An image. Sets `missed` if a layer of it was not here.
    async fn image(
        &self,
        desired: &Desired,
        id: &PackageId,
        missed: &mut bool,
    ) -> anyhow::Result<FoundImage> {
        let (digest, manifest, sources) = self.find(id).await?;
        let here = ImageArchitecture::of_machine(std::env::consts::ARCH);
        let variant = manifest.variant(here).ok_or_else(|| {
            let others: Vec<&str> =
                manifest.variants.iter().map(|variant| variant.architecture.as_str()).collect();
            anyhow!("it is for {}, and this machine is {here}", others.join(", "))
        })?;
        let config = variant.config.as_ref();
        let config = config.context("it is a package of files, and no image")?;
        ensure!(
            ![&desired.spec.cmd, &config.entrypoint, &config.cmd].iter().all(|it| it.is_empty()),
            "it names no program to run: set cmd in the job"
        );
        // The kernel merges no directory with itself. The higher of two equal layers undoes all that the lower did.
        let mut seen = BTreeSet::new();
        let higher = variant.layers.iter().rev().filter(|layer| seen.insert(layer.digest));
        let mut layers: Vec<Layer> = higher.cloned().collect();
        layers.reverse();
        ensure!(!layers.is_empty(), "it has no files");
        let stop_signal = config.stop_signal_number()?;
        self.0.versions.used(digest, &layers);
        let layers = self.layers(desired, &layers, &sources, missed).await?;
        Ok(FoundImage {
            root: ImageRoot { layers, user: config.user.clone() },
            defaults: image::defaults(config),
            working_directory: image::working_directory(config),
            stop_signal,
        })
    }

    /// What a package consists of, and where its parts are read.
    async fn find(&self, id: &PackageId) -> anyhow::Result<(Digest, Arc<Manifest>, Sources)> {
        let v1::ReadPackageResponse { right, package, stores, silent_stores, holders } =
            self.right(id).await?;
        let digest = package.unwrap_or_default().digest;
        let digest: Digest = digest.parse().context("the master's answer")?;
        let store = stores.first().ok_or_else(|| StoreError::none(&silent_stores))?;
        let (credentials, right) = (&self.0.credentials, right.unwrap_or_default());
        let store = PackageReader::new(store, credentials, right.clone())?;
        let manifest = self.manifest(store.clone(), digest).await?;
        let encoded: Arc<[u8]> = manifest.encode()?.into();
        let mut peers = Vec::new();
        if encoded.len() <= KEPT_MANIFEST_BYTES_MAX {
            for holder in holders.into_iter().take(PEERS_MAX) {
                match Peer::new(holder, credentials, &right, &encoded) {
                    Ok(peer) => peers.push(peer),
                    Err(error) => tracing::warn!("a machine that has {id} is not asked: {error}"),
                }
            }
        }
        Ok((digest, manifest, Sources { store, peers }))
    }

    /// The directories of layers, which are fetched side by side if they are not here. Sets `missed` if
    /// one was not.
    async fn layers(
        &self,
        desired: &Desired,
        layers: &[Layer],
        sources: &Sources,
        missed: &mut bool,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let user = &desired.user;
        // Before they are looked for: they are not removed from here on.
        let digests = layers.iter().map(|layer| layer.digest);
        lock(&self.0.used).entry(desired.instance).or_default().extend(digests);
        let is_missing = |layer: &&Layer| !self.0.layers.has(layer.digest);
        let missing = layers.iter().filter(is_missing);
        let missing: Vec<(Digest, Bytes)> =
            missing.map(|layer| (layer.digest, fetched_bytes(layer))).collect();
        if !missing.is_empty() {
            *missed = true;
            let (packages, user) = (self.clone(), user.clone());
            // A task of its own: the start may be prevented while something is removed.
            let made = tokio::spawn(async move {
                packages.0.layers.make_room(&user, &missing, &|| packages.used()).await
            });
            made.await.context("making room for layers")??;
        }
        let mut fetched = JoinSet::new();
        for (number, layer) in layers.iter().cloned().enumerate() {
            let (inner, user, sources) = (Arc::clone(&self.0), user.clone(), sources.clone());
            fetched.spawn(async move {
                let directory = inner.layers.get(&user, &layer, sources).await;
                directory.map(|directory| (number, directory))
            });
        }
        let mut directories = BTreeMap::new();
        while let Some(next) = fetched.join_next().await {
            let (number, directory) = next.context("fetching a layer")??;
            directories.insert(number, directory);
        }
        Ok(directories.into_values().collect())
    }

    async fn manifest(
        &self,
        reader: PackageReader,
        digest: Digest,
    ) -> anyhow::Result<Arc<Manifest>> {
        let known = |(of, manifest): &(Digest, Arc<Manifest>)| {
            (*of == digest).then(|| Arc::clone(manifest))
        };
        if let Some(known) = lock(&self.0.manifests).iter().find_map(known) {
            return Ok(known);
        }
        let bytes = reader.one(digest).await?;
        ensure!(
            package::chunk::digest_of(&bytes) == digest,
            "its manifest has another digest than {digest}"
        );
        let manifest = Arc::new(Manifest::decode(&bytes)?);
        if bytes.len() <= KEPT_MANIFEST_BYTES_MAX {
            let mut kept = lock(&self.0.manifests);
            if kept.len() >= KEPT_MANIFESTS_MAX {
                kept.pop_front();
            }
            kept.push_back((digest, Arc::clone(&manifest)));
        }
        Ok(manifest)
    }

    /// Asks the masters for the right to read a package.
    async fn right(&self, id: &PackageId) -> anyhow::Result<v1::ReadPackageResponse> {
        let until = Instant::now() + PATIENCE;
        let request = v1::ReadPackageRequest { package: id.to_string() };
        loop {
            let error = match self.ask(&request).await {
                Ok(response) if !response.stores.is_empty() => return Ok(response),
                // A store that has just started is not known at once.
                Ok(response) => anyhow::Error::from(StoreError::none(&response.silent_stores)),
                Err(error) => error,
            };
            let refused = error.downcast_ref::<Status>().is_some_and(is_final);
            if refused || Instant::now() + PAUSE >= until {
                bail!("{}", explained(&error));
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask(
        &self,
        request: &v1::ReadPackageRequest,
    ) -> anyhow::Result<v1::ReadPackageResponse> {
        let mut failed = anyhow::anyhow!("this machine's Borglet knows no master");
        for master in self.0.masters.all() {
            let expect = Expect::Role(Role::Master);
            let channel = rpc::transport::connect(&master, &self.0.credentials, &expect)?;
            let mut request = Request::new(request.clone());
            request.set_timeout(TIMEOUT);
            match PackagesClient::new(channel).read(request).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) if is_final(&status) => return Err(status.into()),
                Err(status) => failed = status.into(),
            }
        }
        Err(failed)
    }
}

/// The only layer of a package of files.
fn files_of(manifest: &Manifest) -> anyhow::Result<&Layer> {
    match manifest.variants.as_slice() {
        [variant] if variant.config.is_none() => match variant.layers.as_slice() {
            [layer] => Ok(layer),
            layers => bail!("it has {} layers, and a package of files has one", layers.len()),
        },
        _ => bail!("it is an image, and not a package of files"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
