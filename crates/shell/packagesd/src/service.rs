//! The service `PackageStore`: who may call what, and how much of it at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::v1;
use package_store::PackageStore;
use rpc::service::package_store_server::{PackageStore as Served, PackageStoreServer};
use rpc::statement::Verifier;
use rpc::transport::{Cause, Full, Limiter, Permit, Refusals, Turns};
use rpc::{Identity, Rotating};
use tokio::sync::Semaphore;
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::closures::Closures;
use crate::driven::Driven;
use crate::rights::account;
use crate::spent::Spent;
use crate::{collecting, fetching, pages, uploading};

/// Uploads at once; users share them. Each has up to a pack and a chunk in memory: 48 MiB.
const UPLOADS: usize = 32;

/// Reads at once; callers share them. Each has up to 16 MiB in memory, and usually 1.
const FETCHES: usize = 256;

/// Pieces of at most 1 MiB that are hashed, written or read at once; users share them.
const TURNS: usize = 16;

/// A store of packages as a service. Clones share its slots.
#[derive(Clone, Debug)]
pub struct Service(pub(crate) Arc<Parts>);

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
    pub(crate) counts: Counts,
}

/// What has happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) uploads: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) fetches: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_collected: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

impl Service {
    /// Serves a store with the credentials of a process of the role `packages`, which sign receipts.
    ///
    /// # Errors
    /// If the authority in the credentials is unusable.
    pub fn new(store: PackageStore, credentials: &Rotating) -> rpc::Result<Self> {
        let own = credentials.credentials();
        Ok(Self(Arc::new(Parts {
            cell: own.cell().to_owned(),
            store,
            credentials: credentials.clone(),
            verifier: Verifier::new(own.ca_pem())?,
            closures: Closures::new(),
            spent: Spent::default(),
            uploads: Limiter::shared(UPLOADS),
            fetches: Limiter::shared(FETCHES),
            turns: Turns::new(TURNS),
            collecting: Semaphore::new(1),
            counts: Counts::default(),
        })))
    }

    /// The service with its health pages and metrics.
    pub fn routes(self, refusals: &Refusals) -> Routes {
        let pages = pages::pages(&self, refusals);
        let server = PackageStoreServer::new(self);
        let server = server.max_decoding_message_size(rpc::transport::MAX_REQUEST_BYTES);
        let calls = Routes::new(server).into_axum_router().fallback(process::health::not_found);
        Routes::from(calls.merge(pages))
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Identity, Status> {
        rpc::transport::peer_identity(request, &self.0.cell)
    }

    /// Rejects everybody but masters.
    fn master<T>(&self, request: &Request<T>) -> Result<(), Status> {
        match self.caller(request)? {
            Identity::Master => Ok(()),
            other => {
                let why = format!("{other} may not do that: only masters may");
                Err(rpc::transport::refuse(request, Cause::WrongRole, why))
            }
        }
    }
}

/// A stream of responses.
type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

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

#[tonic::async_trait]
impl Served for Service {
    type UploadStream = Streamed<v1::UploadResponse>;
    type FetchStream = Streamed<v1::FetchResponse>;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<Self::UploadStream>, Status> {
        let caller = self.caller(&request)?;
        let slot = slot(&self.0.uploads, "uploads", account(&caller))?;
        let (parts, requests) = (Arc::clone(&self.0), request.into_inner());
        Ok(Response::new(Driven::boxed(|responses| async move {
            let _slot = slot;
            uploading::receive(&parts, &caller, requests, responses).await
        })))
    }

    async fn fetch(
        &self,
        request: Request<v1::FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let caller = self.caller(&request)?;
        let slot = slot(&self.0.fetches, "reads", account(&caller))?;
        let wanted = fetching::Wanted::new(&self.0, &caller, request.get_ref()).await?;
        let parts = Arc::clone(&self.0);
        Ok(Response::new(Driven::boxed(|responses| async move {
            let _slot = slot;
            wanted.send(&parts, responses).await
        })))
    }

    async fn store_status(
        &self,
        request: Request<v1::StoreStatusRequest>,
    ) -> Result<Response<v1::StoreStatusResponse>, Status> {
        self.master(&request)?;
        let store = &self.0.store;
        let totals = store.totals();
        Ok(Response::new(v1::StoreStatusResponse {
            location: store.location(),
            packs: totals.packs as u64,
            chunks: totals.chunks as u64,
            bytes: totals.bytes,
            aside: totals.aside.iter().map(|(name, why)| format!("{name}: {why}")).collect(),
        }))
    }

    async fn collect(
        &self,
        request: Request<Streaming<v1::CollectRequest>>,
    ) -> Result<Response<v1::CollectResponse>, Status> {
        self.master(&request)?;
        collecting::collect(self, request.into_inner()).await.map(Response::new)
    }
}
