//! The service `PackageStore`: who may call what.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use api::v1;
use model::Digest;
use package_store::PackageStore;
use rpc::service::package_store_server::{PackageStore as Served, PackageStoreServer};
use rpc::transport::{Cause, Refusals};
use rpc::{Identity, Rotating};
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::driven::Driven;
use crate::parts::{Parts, slot};
use crate::rights::account;
use crate::{collecting, fetching, pages, uploading};

/// A store of packages as a service. Clones share its slots.
#[derive(Clone, Debug)]
pub struct Service(Arc<Parts>);

impl Service {
    /// Serves a store with the credentials of a process of the role `packages`, which sign receipts.
    ///
    /// # Errors
    /// If the authority in the credentials is unusable.
    pub fn new(store: PackageStore, credentials: &Rotating) -> rpc::Result<Self> {
        Parts::new(store, credentials).map(|parts| Self(Arc::new(parts)))
    }

    /// Removes what is not reachable from these manifests, unless it is young or an upload needs it.
    ///
    /// # Errors
    /// `ABORTED` if a collection is under way, `FAILED_PRECONDITION` if one of the packages cannot be read: what
    /// it needs is not known then. Those of the store.
    pub async fn collect_all_but(
        &self,
        manifests: &HashSet<Digest>,
        plan_only: bool,
    ) -> Result<v1::CollectResponse, Status> {
        collecting::collect_all_but(&self.0, manifests, plan_only).await
    }

    /// The service with its health pages and metrics.
    pub fn routes(self, refusals: &Refusals) -> Routes {
        let pages = pages::pages(&self.0, refusals);
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
        let wanted = fetching::WantedChunks::new(&self.0, &caller, request.get_ref()).await?;
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
        collecting::collect(&self.0, request.into_inner()).await.map(Response::new)
    }
}
