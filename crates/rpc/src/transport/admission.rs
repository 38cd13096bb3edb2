//! What every request passes before its service: it is somebody's of this cell.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};

use super::peer::FarEnd;

/// Services behind the check of who asks.
#[derive(Clone)]
pub(super) struct Admission<S> {
    services: S,
    cell: Arc<str>,
}

impl<S> Admission<S> {
    pub(super) fn new(services: S, cell: &str) -> Self {
        Self { services, cell: cell.into() }
    }

    /// Refuses a request that does not come from an identity of the cell, whatever it is for.
    fn admit(&self, request: &http::Request<Body>) -> Result<(), Status> {
        let far_end = request.extensions().get::<Arc<FarEnd>>();
        let far_end = far_end.ok_or_else(|| Status::unauthenticated("no certificate"))?;
        let peer = far_end.of_cell(&self.cell);
        peer.map(drop).map_err(|(_, why)| Status::unauthenticated(why))
    }
}

impl<S> Service<http::Request<Body>> for Admission<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.admit(&request) {
            Ok(()) => Box::pin(self.services.call(request)),
            Err(status) => Box::pin(std::future::ready(Ok(refusal(&request, status)))),
        }
    }
}

/// A refusal that whoever asked understands: gRPC's, or else HTTP's.
fn refusal(request: &http::Request<Body>, status: Status) -> http::Response<Body> {
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return status.into_http();
    }
    let mut response = http::Response::new(Body::new(format!("{}\n", status.message())));
    *response.status_mut() = http::StatusCode::FORBIDDEN;
    response
}
