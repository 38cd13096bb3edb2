//! The entry point of requests: users' requests go straight to their service, all others through
//! the router. A route of the router is a chain of boxes, which took as long as a small request
//! itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, Request, Response};
use process::renewal;
use rpc::metadata::MASTERS;
use rpc::service::borgmaster_server::{BorgmasterServer, SERVICE_NAME};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as Serves};
use tonic::service::Routes;

use crate::handle::Core;
use crate::metrics::Requests;
use crate::service::{Service, gate};

/// All services of a master.
#[derive(Clone)]
pub(crate) struct Front {
    users: BorgmasterServer<Service>,
    passed: Arc<(Core, Arc<Requests>)>,
    others: Routes,
}

impl Front {
    pub(crate) fn new(users: BorgmasterServer<Service>, service: &Service, others: Routes) -> Self {
        let passed = Arc::new((service.core.clone(), Arc::clone(&service.requests)));
        Self { users, passed, others: others.prepare() }
    }
}

/// Whether it is a path of the service for users.
fn is_users(path: &str) -> bool {
    let method = path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME));
    method.is_some_and(|method| method.starts_with('/'))
}

/// Adds the addresses of all masters to an answer.
fn tell_masters(core: &Core, headers: &mut HeaderMap) {
    let addresses = renewal::addresses(&core.view().cell).join(",");
    if let Ok(addresses) = HeaderValue::from_str(&addresses) {
        headers.insert(MASTERS, addresses);
    }
}

impl Serves<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Serves::<Request<Body>>::poll_ready(&mut self.others, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asks_for_masters = request.headers().contains_key(MASTERS);
        let passed = Arc::clone(&self.passed);
        if !is_users(request.uri().path()) {
            let answered = self.others.call(request);
            return Box::pin(async move {
                let mut response = answered.await?;
                if asks_for_masters {
                    tell_masters(&passed.0, response.headers_mut());
                }
                Ok(response)
            });
        }
        let mut users = self.users.clone();
        Box::pin(async move {
            let (core, requests) = &*passed;
            let (begun, times) = (Instant::now(), requests.of(request.uri().path()));
            let mut response = match gate::wait(core, request.headers()).await {
                Ok(()) => users.call(request).await?,
                Err(status) => status.into_http(),
            };
            if asks_for_masters {
                tell_masters(core, response.headers_mut());
            }
            times.add(&response, begun.elapsed());
            Ok(response)
        })
    }
}
