//! Which packages the layers of a machine belong to: what is reported of them.
//!
//! Layers are kept by the digests of their trees, and the cell knows a package by the digest of its manifest. So a
//! small file beside the layers says for each package which layers it has, and outlives a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use anyhow::Context as _;
use model::{Bytes, Digest, HELD_PACKAGES_MAX, HeldPackage, HeldUse};
use package::manifest::Layer;

use super::lock;
use super::taken::Taken;

/// The packages that were used on this machine, with their layers.
pub(super) struct Versions {
    directory: PathBuf,
    known: Mutex<KnownVersions>,
}

#[derive(Default)]
struct KnownVersions {
    /// By the digests of their manifests.
    all: BTreeMap<Digest, VersionLayers>,
    /// The number of the last use.
    last_use: u64,
}

/// The layers of a package that a task on this machine needs.
struct VersionLayers {
    /// With what each takes.
    layers: Vec<(Digest, Bytes)>,
    /// The number of its last use: a higher one is later.
    used: u64,
}

impl Versions {
    /// Reads what an earlier process has recorded. Files that are something else are left alone.
    pub(super) fn open(packages: &Path) -> anyhow::Result<Self> {
        let directory = packages.join("versions");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.with_context(|| format!("cannot create {}", directory.display()))?;
        let mut found: Vec<(SystemTime, Digest, _)> = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let version = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if let (Some(version), Some(layers)) = (version, read(&path)) {
                found.push((fs::metadata(&path)?.modified()?, version, layers));
            }
        }
        found.sort_unstable();
        let mut known = KnownVersions::default();
        for (_, version, layers) in found {
            known.last_use += 1;
            known.all.insert(version, VersionLayers { layers, used: known.last_use });
        }
        Ok(Self { directory, known: Mutex::new(known) })
    }

    /// A task needs these layers of a package. A package that cannot be recorded is only not reported after a restart.
    pub(super) fn used(&self, version: Digest, layers: &[Layer]) {
        let layers: Vec<(Digest, Bytes)> =
            layers.iter().map(|layer| (layer.digest, Bytes(layer.unpacked))).collect();
        let lines = layers.iter().map(|(layer, bytes)| format!("{layer} {}\n", bytes.0));
        let text: String = lines.collect();
        let mut known = lock(&self.known);
        known.last_use += 1;
        let used = known.last_use;
        known.all.insert(version, VersionLayers { layers, used });
        drop(known);
        if let Err(error) = fs::write(self.directory.join(version.to_string()), text) {
            tracing::warn!("cannot record the layers of package {version}: {error}");
        }
    }

    /// Forgets packages of which nothing is left.
    pub(super) fn forget(&self, taken: &Taken) {
        let there = taken.layers();
        let mut known = lock(&self.known);
        let is_gone =
            |of: &VersionLayers| !of.layers.iter().any(|(layer, _)| there.contains(layer));
        let gone = known.all.iter().filter(|(_, of)| is_gone(of)).map(|(version, _)| *version);
        for version in gone.collect::<Vec<Digest>>() {
            if let Err(error) = fs::remove_file(self.directory.join(version.to_string())) {
                tracing::warn!("cannot forget package {version}: {error}");
            }
            known.all.remove(&version);
        }
    }

    /// What is reported: the packages that were used last, in the order of their digests. A package is being fetched if
    /// a layer of it is, and in use if a task uses all its layers.
    pub(super) fn held(&self, taken: &Taken, used: &BTreeSet<Digest>) -> Vec<HeldPackage> {
        let (there, fetching) = (taken.layers(), taken.fetching());
        let known = lock(&self.known);
        let mut newest: Vec<(u64, HeldPackage)> = Vec::with_capacity(known.all.len());
        for (version, of) in &known.all {
            let sum = |layers: &mut dyn Iterator<Item = &(Digest, Bytes)>| {
                Bytes(layers.map(|(_, bytes)| bytes.0).fold(0, u64::saturating_add))
            };
            let is_there = |(layer, _): &&(Digest, Bytes)| there.contains(layer);
            if !of.layers.iter().any(|layer| is_there(&layer)) {
                continue;
            }
            let held_use = if of.layers.iter().any(|(layer, _)| fetching.contains(layer)) {
                HeldUse::Fetching
            } else if of.layers.iter().all(|(layer, _)| used.contains(layer)) {
                HeldUse::InUse
            } else {
                HeldUse::Unused
            };
            let held = HeldPackage {
                package: version.prefix(),
                bytes: sum(&mut of.layers.iter().filter(is_there)),
                needs: sum(&mut of.layers.iter()),
                held_use,
            };
            newest.push((of.used, held));
        }
        drop(known);
        newest.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        newest.truncate(HELD_PACKAGES_MAX);
        let mut held: Vec<HeldPackage> = newest.into_iter().map(|(_, held)| held).collect();
        held.sort_unstable();
        held
    }
}

fn read(file: &Path) -> Option<Vec<(Digest, Bytes)>> {
    let text = fs::read_to_string(file).ok()?;
    let layer = |line: &str| {
        let (layer, bytes) = line.split_once(' ')?;
        Some((layer.parse().ok()?, Bytes(bytes.parse().ok()?)))
    };
    text.lines().map(layer).collect()
}

#[cfg(test)]
mod tests {
    use model::UserName;
    use package::manifest::Layer;

    use super::super::taken::LayerTaken;
    use super::*;

    fn digest(byte: u8) -> Digest {
        Digest::from_bytes([byte; 32])
    }

    fn layer(byte: u8, unpacked: u64) -> Layer {
        Layer { digest: digest(byte), tree: Vec::new(), entries: 1, unpacked, stored: unpacked }
    }

    fn take(taken: &Taken, byte: u8) {
        let ana = UserName::new("ana").expect("a name");
        taken.adopt(digest(byte), LayerTaken::new(&ana, Bytes(1)));
    }

    #[test]
    fn what_is_there_of_a_package_is_reported_also_after_a_restart() {
        let place = tempfile::tempdir().expect("a directory");
        let (versions, taken) = (Versions::open(place.path()).expect("opens"), Taken::default());
        versions.used(digest(1), &[layer(11, 100), layer(12, 50)]);
        versions.used(digest(2), &[layer(11, 100), layer(13, 20)]);
        versions.used(digest(3), &[layer(14, 7)]);
        let shown = |versions: &Versions, used: &[u8]| {
            let used = used.iter().map(|byte| digest(*byte)).collect();
            let held = versions.held(&taken, &used);
            let show = |held: HeldPackage| {
                (held.package.0 % 256, held.bytes.0, held.needs.0, held.held_use.as_str())
            };
            held.into_iter().map(show).collect::<Vec<_>>()
        };
        assert_eq!(shown(&versions, &[]), [], "no layer is there yet");
        take(&taken, 11);
        take(&taken, 12);
        let expected = [(1, 150, 150, "in use"), (2, 100, 120, "unused")];
        assert_eq!(shown(&versions, &[11, 12]), expected);
        let ana = UserName::new("ana").expect("a name");
        let room = taken.reserve(digest(13), LayerTaken::new(&ana, Bytes(1)), Bytes(1 << 30));
        let expected = [(1, 150, 150, "unused"), (2, 120, 120, "fetching")];
        assert_eq!(shown(&versions, &[11]), expected);
        drop(room.expect("there is room"));
        let again = Versions::open(place.path()).expect("opens");
        let expected = [(1, 150, 150, "unused"), (2, 100, 120, "unused")];
        assert_eq!(shown(&again, &[]), expected);
        again.forget(&taken);
        let left = Versions::open(place.path()).expect("opens");
        assert_eq!(lock(&left.known).all.len(), 2, "of the third there is nothing");
    }
}
