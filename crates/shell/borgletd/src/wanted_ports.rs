//! Ports with static numbers that starts have found in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of static ports that are watched.
const WANTED_PORTS_MAX: usize = 256;

/// Ports beyond the machine's range that starts have found in use: they are watched until they are free,
/// so that the cell places nobody there meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedPorts(Arc<Mutex<BTreeSet<u16>>>);

impl WantedPorts {
    /// A start has found a port in use.
    pub(crate) fn add(&self, port: u16) {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ports.len() < WANTED_PORTS_MAX {
            ports.insert(port);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is free.
    pub(crate) fn remove(&self, port: u16) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&port);
    }
}
