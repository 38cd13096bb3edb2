//! Which volumes tasks on this machine have had.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use borglet::Desired;
use model::{VolumeName, VolumePath};

/// How many volumes are measured.
const MEASURED_MAX: usize = 256;

/// The volumes that tasks have had since this process started, with their directories. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownVolumes(Arc<Mutex<BTreeMap<VolumeName, VolumePath>>>);

impl KnownVolumes {
    /// A task has volumes.
    pub(crate) fn note(&self, desired: &Desired) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for volume in &desired.volumes {
            if known.len() < MEASURED_MAX || known.contains_key(&volume.name) {
                known.insert(volume.name.clone(), volume.source.clone());
            }
        }
    }

    pub(crate) fn all(&self) -> BTreeMap<VolumeName, VolumePath> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
