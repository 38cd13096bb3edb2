//! A store asks a master which packages there are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::TcpListener;
use std::pin::Pin;

use api::v1;
use packagesd::manifests::manifests;
use rpc::service::packages_server::{Packages, PackagesServer};
use rpc::transport::{Limits, Refusals};
use rpc::{Expect, Role, Rotating};
use support::{Cell, code, package::package};
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

/// The part of a master that stores call.
#[derive(Clone)]
struct Master {
    manifests: Vec<v1::ManifestsResponse>,
}

type Answer<T> = Result<Response<T>, Status>;

fn not_here<T>() -> Answer<T> {
    Err(Status::unimplemented("stores do not call it"))
}

#[tonic::async_trait]
impl Packages for Master {
    async fn list(&self, _: Request<v1::PackagesRequest>) -> Answer<v1::PackagesResponse> {
        not_here()
    }

    async fn upload(
        &self,
        _: Request<v1::UploadPackageRequest>,
    ) -> Answer<v1::UploadPackageResponse> {
        not_here()
    }

    async fn set(&self, _: Request<v1::SetPackageRequest>) -> Answer<v1::SetPackageResponse> {
        not_here()
    }

    async fn delete(
        &self,
        _: Request<v1::DeletePackageRequest>,
    ) -> Answer<v1::DeletePackageResponse> {
        not_here()
    }

    async fn read(&self, _: Request<v1::ReadPackageRequest>) -> Answer<v1::ReadPackageResponse> {
        not_here()
    }

    async fn upload_outputs(
        &self,
        _: Request<v1::UploadOutputsRequest>,
    ) -> Answer<v1::UploadPackageResponse> {
        not_here()
    }

    async fn add_outputs(
        &self,
        _: Request<v1::AddOutputsRequest>,
    ) -> Answer<v1::SetPackageResponse> {
        not_here()
    }

    async fn announce(
        &self,
        _: Request<v1::AnnounceStoreRequest>,
    ) -> Answer<v1::AnnounceStoreResponse> {
        not_here()
    }

    type ManifestsStream =
        Pin<Box<dyn Stream<Item = Result<v1::ManifestsResponse, Status>> + Send>>;

    async fn manifests(&self, _: Request<v1::ManifestsRequest>) -> Answer<Self::ManifestsStream> {
        let all = self.manifests.clone().into_iter().map(Ok);
        Ok(Response::new(Box::pin(tokio_stream::iter(all))))
    }
}

/// A channel of a store to a master.
fn channel(cell: &Cell, master: Master) -> tonic::transport::Channel {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let credentials = Rotating::new(cell.credentials("master")).unwrap();
    tokio::spawn(async move {
        let routes = Routes::new(PackagesServer::new(master)).prepare();
        let (limits, refusals) = (Limits::default(), Refusals::default());
        let never = std::future::pending();
        rpc::transport::serve(listener, &credentials, routes, limits, &refusals, never).await
    });
    let credentials = Rotating::new(cell.credentials("packages/p1")).unwrap();
    rpc::transport::connect(&endpoint, &credentials, &Expect::Role(Role::Master)).unwrap()
}

#[tokio::test]
async fn manifests_count_only_if_they_are_complete() {
    let cell = Cell::new();
    let digests: Vec<_> = (0..3).map(|n| package(n..n + 1, 10).manifest).collect();
    let some = |digests: &[model::Digest], complete| {
        let manifests = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
        v1::ManifestsResponse { manifests, complete }
    };
    let half = v1::ManifestsResponse { manifests: vec![0; 33], complete: true };
    for (sent, expected) in [
        (vec![some(&digests[..2], false), some(&digests[2..], false), some(&[], true)], Ok(3)),
        (vec![some(&[], true)], Ok(0)),
        (vec![some(&digests, false)], Err(Code::FailedPrecondition)),
        (vec![], Err(Code::FailedPrecondition)),
        (vec![half], Err(Code::InvalidArgument)),
    ] {
        let master = Master { manifests: sent };
        let all = manifests(channel(&cell, master)).await;
        match expected {
            Ok(number) => {
                let all = all.unwrap();
                assert_eq!(all.len(), number);
                assert!(digests.iter().take(number).all(|digest| all.contains(digest)));
            }
            Err(expected) => assert_eq!(code(&all), expected, "{all:?}"),
        }
    }
}
