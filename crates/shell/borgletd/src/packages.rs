//! The packages of a machine: fetched when a task first needs them, checked, unpacked once, shared by all tasks that
//! use them, and removed when they have not been used for long.
//!
//! ```text
//! packages/layers/DIGEST/       the files of a layer, by the digest of its tree
//! packages/layers/.new-DIGEST/  one that is being unpacked; removed at the next start
//! ```
//!
//! A layer has its name only when it is complete. What a package is called and who may read it is asked of a master at
//! each start; what it contains is in its manifest, which a store has.

mod fetch;
mod layers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use api::v1;
use borglet::{Desired, PACKAGES_DIRECTORY};
use client::packages::{PackageReader, StoreError};
use linux::record::Bind;
use model::{Digest, InstanceId, PackageId};
use package::manifest::{Layer, Manifest};
use process::renewal::{Masters, explained};
use rpc::service::packages_client::PackagesClient;
use rpc::{Expect, Role, Rotating};
use tokio::time::{Instant, sleep};
use tonic::{Request, Status};

use self::layers::Layers;
use super::clients::is_final;
use super::tasks::Files;

/// How long masters are asked for the right to read a package before a start is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The delay before all masters are asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// How often unused layers are looked for.
const LOOK: Duration = Duration::from_secs(60);

/// The packages of a machine. Clones share their state.
#[derive(Clone)]
pub(super) struct Packages(Arc<Inner>);

struct Inner {
    credentials: Rotating,
    masters: Masters,
    layers: Layers,
    /// The layers that instances use.
    used: Mutex<BTreeMap<InstanceId, BTreeSet<Digest>>>,
}

impl Packages {
    pub(super) fn new(
        files: &Files,
        credentials: Rotating,
        masters: Masters,
    ) -> anyhow::Result<Self> {
        let layers = Layers::open(&files.directory.join("packages"))?;
        Ok(Self(Arc::new(Inner { credentials, masters, layers, used: Mutex::default() })))
    }

    /// Makes the packages of a task available. Returns its bind mounts.
    ///
    /// # Errors
    /// When one cannot be fetched, with the reason; nothing is left of it then.
    pub(super) async fn begin(&self, desired: &Desired) -> anyhow::Result<Vec<Bind>> {
        let mut binds = Vec::new();
        for package in &desired.spec.packages {
            let id = package.of(&desired.user);
            let layer = self.layer(desired, &id).await;
            let source = layer.with_context(|| format!("cannot get package {id}"))?;
            let target = PathBuf::from(PACKAGES_DIRECTORY).join(id.name.as_str());
            binds.push(Bind { source, target, writable: false });
        }
        Ok(binds)
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
            let used = lock(&self.0.used).values().flatten().copied().collect();
            self.0.layers.remove_unused(used).await;
            sleep(LOOK).await;
        }
    }

    /// The directory with the files of a package.
    async fn layer(&self, desired: &Desired, id: &PackageId) -> anyhow::Result<PathBuf> {
        let v1::ReadPackageResponse { right, package, stores } = self.right(id).await?;
        let digest = package.unwrap_or_default().digest;
        let digest: Digest = digest.parse().context("the master's answer")?;
        let store = stores.first().ok_or(StoreError::NoStore)?;
        let reader = PackageReader::new(store, &self.0.credentials, right.unwrap_or_default())?;
        let manifest = self.manifest(reader.clone(), digest).await?;
        let layer = files_of(&manifest)?;
        // Before it is looked for: it is not removed from here on.
        lock(&self.0.used).entry(desired.instance).or_default().insert(layer.digest);
        self.0.layers.get(&desired.user, layer, reader).await
    }

    async fn manifest(&self, reader: PackageReader, digest: Digest) -> anyhow::Result<Manifest> {
        let bytes = reader.one(digest).await?;
        ensure!(
            package::chunk::digest_of(&bytes) == digest,
            "its manifest has another digest than {digest}"
        );
        Ok(Manifest::decode(&bytes)?)
    }

    /// Asks the masters for the right to read a package.
    async fn right(&self, id: &PackageId) -> anyhow::Result<v1::ReadPackageResponse> {
        let until = Instant::now() + PATIENCE;
        let request = v1::ReadPackageRequest { package: id.to_string() };
        loop {
            let error = match self.ask(&request).await {
                Ok(response) if !response.stores.is_empty() => return Ok(response),
                // A store that has just started is not known at once.
                Ok(_) => anyhow::Error::from(StoreError::NoStore),
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
