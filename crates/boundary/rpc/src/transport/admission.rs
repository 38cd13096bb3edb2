//! What every request passes before its service: it is somebody's of this cell, whoever only joins asks to
//! be taken in, and services between processes are asked by the right ones. Nothing of a message is read
//! before that: theirs may be large.

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
use crate::service::{REPLICATION, borglet_server, enrolment_server, scheduling_server};

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
    /// that has expired since its connection was made, whatever it is for, and one to a service that is
    /// not there for that identity.
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

/// Why an identity may not ask the service of a path at all, if it may not. What it may ask of one that
/// several may ask, the service judges.
fn may_ask(who: &Identity, path: &str) -> Result<(), String> {
    let method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let service = method.map(|(service, _)| service).unwrap_or_default();
    match (service, who) {
        (enrolment_server::SERVICE_NAME, _) => Ok(()),
        (_, Identity::Joining(_)) => {
            Err(format!("{who} may join and nothing else: use what it got by that"))
        }
        // Replicas pass on what schedulers propose.
        (_, Identity::Master) => Ok(()),
        (scheduling_server::SERVICE_NAME, Identity::Scheduler(_)) => Ok(()),
        (borglet_server::SERVICE_NAME, _) => {
            Err(format!("a Borglet obeys the cell's master only, and {who} is not it"))
        }
        (REPLICATION, _) => {
            Err(format!("only replicas of the master may ask that, and {who} is none"))
        }
        (scheduling_server::SERVICE_NAME, _) => Err(format!("{who} is not a scheduler")),
        _ => Ok(()),
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
            ("/bourg.v1.Replication/Forward", &["master"]),
            ("/bourg.v1.Scheduling/Propose", &["master", "scheduler/main"]),
            ("/bourg.v1.Enrolment/Enrol", &whom),
            // These judge themselves what is asked of them.
            ("/bourg.v1.Borgmaster/Status", &whom[..5]),
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
