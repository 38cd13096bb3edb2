//! What the calls of a store share: the store, slots for users, and counts.

use std::sync::atomic::{AtomicU64, Ordering};

use package_store::PackageStore;
use rpc::Rotating;
use rpc::statement::Verifier;
use rpc::transport::{Full, Limiter, Permit, Turns};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::closures::Closures;
use crate::spent::Spent;

/// Uploads at once; users share them. Each has up to a pack and a chunk in memory: 48 MiB.
const UPLOADS_MAX: usize = 32;

/// Reads at once; callers share them. Each has up to 16 MiB in memory, and usually 1.
const FETCHES_MAX: usize = 256;

/// Pieces of at most 1 MiB that are hashed, written or read at once; users share them.
const PIECES_AT_ONCE: usize = 16;

/// A store of packages that is served.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) cell: String,
    pub(crate) store: PackageStore,
    pub(crate) credentials: Rotating,
    pub(crate) verifier: Verifier,
    pub(crate) closures: Closures,
    pub(crate) spent: Spent,
    pub(crate) uploads: Limiter<String>,
    pub(crate) fetches: Limiter<String>,
    pub(crate) turns: Turns<String>,
    /// One collection at a time.
    pub(crate) collecting: Semaphore,
    pub(crate) counts: ServiceCounts,
}

/// What has happened since the start.
#[derive(Debug, Default)]
pub(crate) struct ServiceCounts {
    pub(crate) uploads: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) fetches: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_collected: AtomicU64,
}

impl ServiceCounts {
    pub(crate) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

impl Parts {
    pub(crate) fn new(store: PackageStore, credentials: &Rotating) -> rpc::Result<Self> {
        let own = credentials.credentials();
        Ok(Self {
            cell: own.cell().to_owned(),
            store,
            credentials: credentials.clone(),
            verifier: Verifier::new(own.ca_pem())?,
            closures: Closures::new(),
            spent: Spent::default(),
            uploads: Limiter::shared(UPLOADS_MAX),
            fetches: Limiter::shared(FETCHES_MAX),
            turns: Turns::new(PIECES_AT_ONCE),
            collecting: Semaphore::new(1),
            counts: ServiceCounts::default(),
        })
    }
}

/// A slot for an account.
pub(crate) fn slot(
    limiter: &Limiter<String>,
    what: &str,
    account: String,
) -> Result<Permit<String>, Status> {
    limiter.acquire(account).map_err(|full| {
        Status::resource_exhausted(match full {
            Full::One(who, held) => format!(
                "{who} has {held} {what} at this store, its share at the moment: try again when one has ended"
            ),
            Full::All(held) => {
                format!("this store has {held} {what}, the maximum: try again, or use another store")
            }
        })
    })
}
