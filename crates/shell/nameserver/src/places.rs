//! What clients hold of something bounded: requests that wait, and connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Asker, Held, SharedBound};

use crate::Client;

/// A bound that users share, and who holds how much of it. Clones share it.
#[derive(Clone)]
pub(crate) struct Places(Arc<Inner>);

struct Inner {
    bound: SharedBound,
    held: Mutex<BTreeMap<Client, u64>>,
}

/// One of them, held until it is dropped.
pub(crate) struct Place {
    places: Places,
    client: Client,
}

impl Places {
    /// So many for all together.
    pub(crate) fn new(max: usize) -> Self {
        let bound = SharedBound::new(u64::try_from(max).unwrap_or(u64::MAX));
        Self(Arc::new(Inner { bound, held: Mutex::default() }))
    }

    /// Takes one for a client, unless it holds the share of one user.
    pub(crate) fn take(&self, client: Client) -> Option<Place> {
        let mut held = self.held();
        let own = held.get(&client).copied().unwrap_or_default();
        let now = Held { all: held.values().sum(), own };
        self.0.bound.take(now, 1, Asker::User).ok()?;
        held.insert(client, own + 1);
        drop(held);
        Some(Place { places: self.clone(), client })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<Client, u64>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        if let Some(own) = held.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.client);
            }
        }
    }
}
