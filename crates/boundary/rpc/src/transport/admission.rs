//! Checks every request before its service and before decoding its message, which may be large: the
//! peer must belong to this cell, join tokens may only join, and internal services accept only the
//! right roles.

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
use crate::service::{
    REPLICATION, borglet_server, enrolment_server, package_peers_server, scheduling_server,
};

/// Services behind the admission check.
#[derive(Clone)]
pub(super) struct Admission<S> {
    services: S,
    cell: Arc<str>,
}

impl<S> Admission<S> {
    pub(super) fn new(services: S, cell: &str) -> Self {
        Self { services, cell: cell.into() }
    }

    /// Rejects a request whose peer has no identity of the cell, whose certificate has expired
    /// since the connection was made, or whose identity may not call the service.
    fn admit(&self, request: &http::Request<Body>, now: SystemTime) -> Result<(), Status> {
        let far_end = request.extensions().get::<Arc<FarEnd>>();
        let far_end = far_end.ok_or_else(|| Status::unauthenticated("no certificate"))?;
        let peer = far_end.of_cell(&self.cell);
        let peer = peer.map_err(|(_, why)| Status::unauthenticated(why))?;
        if peer.ends().is_some_and(|ends| ends <= now) {
            let why = format!(
                "the certificate of {} has expired since it connected: reconnect with a renewed \
                 certificate",
                peer.identity
            );
            far_end.count(Cause::Expired, &why);
            return Err(Status::unauthenticated(why));
        }
        may_ask(&peer.identity, request.uri().path()).map_err(|why| {
            far_end.count(Cause::WrongRole, &why);
            Status::permission_denied(why)
        })
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

/// Why an identity may not call the service of a path at all, if so. Finer checks are up to the
/// service.
fn may_ask(who: &Identity, path: &str) -> Result<(), String> {
    let method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let service = method.map(|(service, _)| service).unwrap_or_default();
    match (service, who) {
        (enrolment_server::SERVICE_NAME, _) => Ok(()),
        (_, Identity::Joining(_)) => {
            Err(format!("{who} may only join: use the credentials received by joining"))
        }
        // Replicas forward proposals of schedulers.
        (_, Identity::Master) => Ok(()),
        (scheduling_server::SERVICE_NAME, Identity::Scheduler(_)) => Ok(()),
        (borglet_server::SERVICE_NAME, _) => {
            Err(format!("a Borglet only accepts calls of the cell's master, not of {who}"))
        }
        (package_peers_server::SERVICE_NAME, Identity::Borglet(_)) => Ok(()),
        (package_peers_server::SERVICE_NAME, _) => {
            Err(format!("only machines of the cell read packages from each other, not {who}"))
        }
        (REPLICATION, _) => {
            Err(format!("only replicas of the master may call this service, not {who}"))
        }
        (scheduling_server::SERVICE_NAME, _) => Err(format!("{who} is not a scheduler")),
        _ => Ok(()),
    }
}

/// A rejection in the protocol of the request: gRPC or plain HTTP.
fn refusal(request: &http::Request<Body>, status: Status) -> http::Response<Body> {
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return status.into_http();
    }
    let mut response = http::Response::new(Body::new(format!("{}\n", status.message())));
    *response.status_mut() = http::StatusCode::FORBIDDEN;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_between_processes_are_asked_by_the_right_ones_alone() {
        let whom = [
            "master",
            "borglet/m1",
            "scheduler/main",
            "user/ana",
            "task/ana/j/0",
            "join/borglet/m2",
        ];
        for (path, allowed) in [
            ("/bourg.v1.Borglet/Poll", &["master"][..]),
            ("/bourg.v1.Borglet/", &["master"]),
            ("/bourg.v1.PackagePeers/ReadChunks", &["master", "borglet/m1"]),
            ("/bourg.v1.Replication/Forward", &["master"]),
            ("/bourg.v1.Scheduling/Propose", &["master", "scheduler/main"]),
            ("/bourg.v1.Enrolment/Enrol", &whom),
            // These services do their own checks.
            ("/bourg.v1.Jobs/Status", &whom[..5]),
            ("/grpc.health.v1.Health/Check", &whom[..5]),
            ("/metrics", &whom[..5]),
            ("/bourg.v1.Borglet", &whom[..5]),
        ] {
            let may = |who: &&&str| may_ask(&who.parse().unwrap(), path).is_ok();
            let may: Vec<&str> = whom.iter().filter(may).copied().collect();
            assert_eq!(may, allowed, "{path}");
        }
    }
}
