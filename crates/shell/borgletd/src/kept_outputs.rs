//! What this process knows of the outputs of ended tasks, besides their files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Bytes, InstanceId};
use nix::sys::statvfs::statvfs;
use prometheus_client::metrics::gauge::Gauge;
use spec::OutputPolicy;
use tokio::sync::Notify;

use crate::deleted_logs::DeletedLogs;

/// The maximum of all kept outputs if no flag says otherwise, and its maximum fraction of a small disk.
const BYTES_MAX: u64 = 10 << 30;
const BYTES_PART: u64 = 10;

/// What a Borglet knows of kept outputs besides its files. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputsHere {
    /// The maximum of all kept outputs, from the flags.
    at_most: Option<Bytes>,
    /// Why outputs were removed, as far as this process did it.
    pub(crate) deleted: DeletedLogs,
    /// Something was kept.
    pub(crate) news: Arc<Notify>,
    /// Something was kept that becomes a version of a package.
    pub(crate) to_upload: Arc<Notify>,
    /// Why outputs are not in their package yet.
    pub(crate) waiting: WaitingUploads,
    /// How much is kept.
    pub(crate) bytes: Gauge,
}

impl OutputsHere {
    /// With this maximum.
    pub(crate) fn at_most(at_most: Option<Bytes>) -> Self {
        Self { at_most, ..Self::default() }
    }

    /// The maximum on the disk of a directory.
    pub(crate) fn room(&self, directory: &Path) -> Bytes {
        self.at_most.unwrap_or_else(|| {
            let disk = statvfs(directory).ok();
            let part =
                disk.map(|disk| disk.blocks().saturating_mul(disk.fragment_size()) / BYTES_PART);
            Bytes(part.map_or(BYTES_MAX, |part| part.min(BYTES_MAX)))
        })
    }

    /// Why outputs that are here are not in a package; empty if they become none.
    pub(crate) fn why_not_in_package(&self, instance: InstanceId, policy: &OutputPolicy) -> String {
        let Some(package) = &policy.package else { return String::new() };
        match self.waiting.lock().get(&instance) {
            Some(why) => format!("not in package {package} yet: {why}"),
            None => format!("not in package {package} yet: they are being uploaded"),
        }
    }
}

/// Why outputs are not in their package yet, by their instance; only of those that are here. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingUploads(Arc<Mutex<BTreeMap<InstanceId, String>>>);

impl WaitingUploads {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<InstanceId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
