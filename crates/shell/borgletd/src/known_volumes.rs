//! Which volumes this machine has, and which tasks on it have had.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use borglet::{Desired, VolumeDirectory};
use model::{VolumeName, VolumePath};

/// How many volumes are measured.
const MEASURED_MAX: usize = 256;

/// The volumes of this machine, as the cell says and as tasks have had them since this process started, with their
/// directories. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownVolumes(Arc<SharedVolumes>);

#[derive(Debug, Default)]
struct SharedVolumes {
    known: Mutex<VolumesByName>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct VolumesByName {
    /// Those that tasks have had: what the cell said may be known only later.
    had: BTreeMap<VolumeName, VolumePath>,
    ordered: BTreeMap<VolumeName, VolumePath>,
    /// Counts the changes of what the cell says.
    orders: u64,
}

impl KnownVolumes {
    /// A task has volumes.
    pub(crate) fn note(&self, desired: &Desired) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        for volume in &desired.volumes {
            if known.had.len() < MEASURED_MAX || known.had.contains_key(&volume.name) {
                known.had.insert(volume.name.clone(), volume.source.clone());
            }
        }
    }

    /// The cell says which volumes this machine has.
    pub(crate) fn set(&self, volumes: Vec<VolumeDirectory>) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let all = volumes.into_iter().take(MEASURED_MAX);
        known.ordered = all.map(|VolumeDirectory { volume, path }| (volume, path)).collect();
        known.orders += 1;
        self.0.changed.notify_all();
    }

    /// Waits until the cell says something else, for at most so long. `orders` is what the last call has returned.
    pub(crate) fn wait(&self, orders: u64, time: Duration) -> u64 {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &mut VolumesByName| known.orders == orders;
        let waited = self.0.changed.wait_timeout_while(known, time, same);
        waited.unwrap_or_else(PoisonError::into_inner).0.orders
    }

    pub(crate) fn all(&self) -> BTreeMap<VolumeName, VolumePath> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = known.had.clone();
        all.extend(known.ordered.clone());
        all
    }
}
