//! Liveness and readiness of a master: for HTTP, for gRPC's own health service, and for the process
//! that started it.
//!
//! It is live while its core takes steps. It is ready while requests can be answered: its log can
//! be written, the cell has caught up with it, a leader is known, its threads are alive, and there
//! is room in the core's queue.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response as HttpResponse};
use process::health::{self, Check};
use prometheus_client::registry::Registry;
use rpc::Identity;
use rpc::transport::Limiter;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::service::door::Door;
use crate::service::holding::holding;
use crate::service::routes::services;
use crate::service::{Answer, STREAM_QUEUE, Streamed};

/// The time without a step of the core after which it is not ready, and after which it counts as
/// dead. The core takes a step for every tick of consensus.
const STEPLESS_MAX: Duration = Duration::from_secs(10);
const DEAD_AFTER: Duration = Duration::from_secs(60);
/// The maximum number of streams of its health, in all and per client.
const WATCHERS_MAX: usize = 256;
const WATCHERS_OF_ONE: usize = 16;
/// How often the health is checked for watchers.
const LOOK: Duration = Duration::from_secs(1);

/// The health and the metrics of a replica.
#[derive(Clone)]
pub(super) struct Monitoring {
    pub(super) door: Door,
    registry: Arc<Registry>,
    watchers: Limiter<Identity>,
}

impl Monitoring {
    pub(super) fn new(door: Door, registry: Arc<Registry>) -> Self {
        Self { door, registry, watchers: Limiter::new(WATCHERS_MAX, WATCHERS_OF_ONE) }
    }

    /// The checks of liveness.
    fn liveness(&self) -> Vec<Check> {
        vec![Check::new("core", self.steps(DEAD_AFTER))]
    }

    /// The checks of readiness.
    pub(crate) fn readiness(&self) -> Vec<Check> {
        let view = self.door.core.view();
        vec![
            Check::new("disk", self.door.core.trouble().map_or(Ok(()), Err)),
            Check::new("caught-up", so(view.caught_up, "the log is still being applied")),
            Check::new("leader", so(view.leader.is_some(), "no leader is known")),
            Check::new("threads", self.threads()),
            Check::new("queue", self.door.core.has_room()),
        ]
    }

    fn steps(&self, patience: Duration) -> Result<(), String> {
        let threads = &self.door.metrics.threads;
        let since = threads.since_step();
        if threads.ended().contains(&"core") {
            return Err("the core has ended".to_owned());
        }
        so(since <= patience, &format!("the core has taken no step for {} s", since.as_secs()))
    }

    fn threads(&self) -> Result<(), String> {
        match self.door.metrics.threads.ended().as_slice() {
            [] => self.steps(STEPLESS_MAX),
            ended => Err(format!("ended: {}", ended.join(", "))),
        }
    }

    /// Allows every certificate of the cell that is not revoked.
    fn may_look<T>(&self, request: &Request<T>) -> Result<(), Status> {
        match rpc::transport::peer_identity(request, &self.door.cell)? {
            Identity::Master | Identity::Scheduler(_) | Identity::Packages(_) => Ok(()),
            Identity::Borglet(_) => self.door.machine(request).map(drop),
            Identity::User(_) | Identity::Task { .. } => self.door.user_or_task(request).map(drop),
            Identity::Joining(_) => {
                Err(Status::permission_denied("a token only allows joining the cell"))
            }
        }
    }

    fn serving(&self, service: &str) -> Option<ServingStatus> {
        let known = service.is_empty() || services().any(|known| known == service);
        known.then(|| match health::all_ok(&self.readiness()) {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        })
    }
}

fn so(is_so: bool, else_why: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(else_why.to_owned()) }
}

/// `/livez`
pub(crate) async fn livez(State(monitoring): State<Monitoring>, uri: Uri) -> HttpResponse {
    health::answer(&uri, &monitoring.liveness())
}

/// `/readyz`
pub(crate) async fn readyz(State(monitoring): State<Monitoring>, uri: Uri) -> HttpResponse {
    health::answer(&uri, &monitoring.readiness())
}

/// `/metrics`
pub(crate) async fn metrics(State(monitoring): State<Monitoring>) -> HttpResponse {
    // Counting the machines of a large cell takes a few milliseconds.
    let text = tokio::task::spawn_blocking(move || health::metrics(&monitoring.registry));
    text.await.unwrap_or_else(|error| {
        health::plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
    })
}

/// Rejects callers that may not see the health, in the form of the protocol that they use.
pub(crate) async fn lookers(
    State(monitoring): State<Monitoring>,
    request: HttpRequest,
    next: Next,
) -> HttpResponse {
    let (parts, body) = request.into_parts();
    let is_grpc = health::is_grpc(&parts.headers);
    match monitoring.may_look(&health::asked(&parts)) {
        Ok(()) => next.run(HttpRequest::from_parts(parts, body)).await,
        Err(status) if is_grpc => status.into_http::<axum::body::Body>().into_response(),
        Err(status) => health::refused(&status),
    }
}

/// gRPC's health service, version 1.
#[tonic::async_trait]
impl Health for Monitoring {
    type WatchStream = Streamed<HealthCheckResponse>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Answer<HealthCheckResponse> {
        let service = &request.get_ref().service;
        let status = self.serving(service).ok_or_else(|| {
            Status::not_found(format!("there is no service '{}'", service.escape_debug()))
        })?;
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Answer<Self::WatchStream> {
        let who = rpc::transport::peer_identity(&request, &self.door.cell)?;
        let place = self.watchers.acquire(who).map_err(|_| {
            Status::resource_exhausted(
                "too many clients watch the health of this master: end one, or try again later",
            )
        })?;
        let asked = request.get_ref().service.clone();
        let (to_client, stream) = mpsc::channel(STREAM_QUEUE);
        let monitoring = self.clone();
        tokio::spawn(async move {
            let mut last = None;
            loop {
                if let Err(status) = monitoring.may_look(&request) {
                    let _gone = to_client.send(Err(status)).await;
                    break;
                }
                let status = monitoring.serving(&asked).unwrap_or(ServingStatus::ServiceUnknown);
                if last.replace(status) != Some(status) {
                    let message = HealthCheckResponse { status: status.into() };
                    if to_client.send(Ok(message)).await.is_err() {
                        break;
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = to_client.closed() => break,
                }
            }
        });
        Ok(Response::new(holding(place, ReceiverStream::new(stream))))
    }
}

#[cfg(test)]
mod tests {
    use cell::Cell;
    use model::ReplicaId;

    use super::*;
    use crate::message::Message;
    use crate::service::test_services::TestServices;
    use crate::threads::Component;
    use crate::view::View;

    /// The failed checks.
    fn failed(held: &TestServices) -> Vec<String> {
        let failed = held.monitoring.readiness().into_iter().filter_map(|check| {
            let why = check.found.err()?;
            Some(format!("{}: {why}", check.name))
        });
        failed.collect()
    }

    #[test]
    fn a_replica_is_ready_when_it_answers_and_otherwise_says_why() {
        let held = TestServices::new(2);
        let shows = |caught_up, leader: Option<u64>| {
            let leader = leader.map(ReplicaId);
            let view = View { caught_up, leader, ..View::of(Cell::empty()) };
            held.views.send_replace(view.into());
            failed(&held)
        };
        assert!(shows(true, Some(2)).is_empty());
        assert_eq!(shows(true, None), ["leader: no leader is known"]);
        assert_eq!(shows(false, Some(2)), ["caught-up: the log is still being applied"]);
        assert!(shows(true, Some(2)).is_empty());
        for _ in 0..2 {
            let full = held.door.core.to_core().try_send(Message::Stop);
            assert!(full.is_ok(), "there is room");
        }
        let queue = "queue: 2 of 2 places are taken, and 0 requests wait";
        assert_eq!(failed(&held), [queue]);
        drop(held.door.metrics.threads.alive(Component::Events));
        assert_eq!(failed(&held), ["threads: ended: events", queue]);
        assert!(health::all_ok(&held.monitoring.liveness()), "it lives");
        drop(held.door.metrics.threads.alive(Component::Core));
        assert!(!health::all_ok(&held.monitoring.liveness()));
    }
}
