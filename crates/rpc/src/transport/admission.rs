//! What every request passes before its service: it is somebody's of this cell, and whoever only joins
//! asks to be taken in.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};

use super::peer::FarEnd;
use super::refusals::Cause;
use crate::Identity;
use crate::service::enrolment_server::SERVICE_NAME;

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

    /// Refuses a request that does not come from an identity of the cell, or comes with a certificate
    /// that has expired since its connection was made, whatever it is for, and one of a joining identity
    /// that is not for the service that takes it in.
    fn admit(&self, request: &http::Request<Body>, now: SystemTime) -> Result<(), Status> {
        let far_end = request.extensions().get::<Arc<FarEnd>>();
        let far_end = far_end.ok_or_else(|| Status::unauthenticated("no certificate"))?;
        let peer = far_end.of_cell(&self.cell);
        let peer = peer.map_err(|(_, why)| Status::unauthenticated(why))?;
        if peer.ends().is_some_and(|ends| ends <= now) {
            let why = format!(
                "the certificate of {} has expired since it connected: connect again with a renewed \
                 certificate",
                peer.identity
            );
            far_end.count(Cause::Expired, &why);
            return Err(Status::unauthenticated(why));
        }
        if matches!(peer.identity, Identity::Joining(_)) && !is_enrolment(request.uri().path()) {
            let joining = peer.identity;
            let why = format!("{joining} may join and nothing else: use what it got by that");
            far_end.count(Cause::WrongRole, &why);
            return Err(Status::permission_denied(why));
        }
        Ok(())
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
        match self.admit(&request, SystemTime::now()) {
            Ok(()) => Box::pin(self.services.call(request)),
            Err(status) => Box::pin(std::future::ready(Ok(refusal(&request, status)))),
        }
    }
}

/// Whether a path is one of the service that takes machines and replicas in.
fn is_enrolment(path: &str) -> bool {
    let path = path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME));
    path.is_some_and(|method| method.starts_with('/'))
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
