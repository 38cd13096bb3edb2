//! The entry point of requests: users' requests go straight to their service, all others through
//! the router. A route of the router is a chain of boxes, which took as long as a small request
//! itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::{Request, Response};
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

impl Serves<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Serves::<Request<Body>>::poll_ready(&mut self.others, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !is_users(request.uri().path()) {
            return Box::pin(self.others.call(request));
        }
        let (mut users, passed) = (self.users.clone(), Arc::clone(&self.passed));
        Box::pin(async move {
            let (core, requests) = &*passed;
            let (begun, times) = (Instant::now(), requests.of(request.uri().path()));
            let response = match gate::wait(core, request.headers()).await {
                Ok(()) => users.call(request).await?,
                Err(status) => status.into_http(),
            };
            times.add(&response, begun.elapsed());
            Ok(response)
        })
    }
}
