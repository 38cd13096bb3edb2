//! The entry point of requests: those to the API go straight to the service that they name, all others
//! through the router. A route of the router is a chain of boxes, which took as long as a small request
//! itself.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, Request, Response};
use process::renewal;
use rpc::metadata::MASTERS;
use rpc::service::{
    access_server, cell_server, history_server, jobs_server, locks_server, machines_server,
    names_server, packages_server, quota_server, replicas_server, secrets_server, services_server,
    tasks_server, updates_server, usage_server,
};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as Serves};
use tonic::service::Routes;

use crate::handle::Core;
use crate::metrics::Requests;
use crate::service::access::Access;
use crate::service::history::History;
use crate::service::jobs::Jobs;
use crate::service::locks::Locks;
use crate::service::machines::Machines;
use crate::service::names::NameService;
use crate::service::packages::Packages;
use crate::service::quota::Quota;
use crate::service::replicas::Replicas;
use crate::service::secrets::Secrets;
use crate::service::services::Services;
use crate::service::tasks::Tasks;
use crate::service::updates::Updates;
use crate::service::usage::Usage;
use crate::service::whole_cell::WholeCell;
use crate::service::{Api, gate};

/// A server for each service of the API.
macro_rules! servers {
    ($($field:ident: $module:ident::$server:ident<$service:ty>,)*) => {
        /// The names of the services of the API.
        pub(super) const API: &[&str] = &[$($module::SERVICE_NAME,)*];

        struct Servers {
            $($field: $module::$server<$service>,)*
        }

        impl Servers {
            fn of(api: &Api) -> Self {
                let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
                Self {
                    $($field: $module::$server::new(api.$field.clone())
                        .max_encoding_message_size(most),)*
                }
            }

            /// Calls the service of a request; another service is not implemented.
            fn call(&self, request: Request<Body>) -> BoxFuture<Response<Body>, Infallible> {
                match service(request.uri().path()) {
                    $($module::SERVICE_NAME => self.$field.clone().call(request),)*
                    _ => Box::pin(ready(Ok(Status::unimplemented("").into_http()))),
                }
            }
        }
    };
}

servers! {
    jobs: jobs_server::JobsServer<Jobs>,
    updates: updates_server::UpdatesServer<Updates>,
    tasks: tasks_server::TasksServer<Tasks>,
    machines: machines_server::MachinesServer<Machines>,
    cell: cell_server::CellServer<WholeCell>,
    access: access_server::AccessServer<Access>,
    quota: quota_server::QuotaServer<Quota>,
    usage: usage_server::UsageServer<Usage>,
    history: history_server::HistoryServer<History>,
    names: names_server::NamesServer<NameService>,
    services: services_server::ServicesServer<Services>,
    packages: packages_server::PackagesServer<Packages>,
    secrets: secrets_server::SecretsServer<Secrets>,
    locks: locks_server::LocksServer<Locks>,
    replicas: replicas_server::ReplicasServer<Replicas>,
}

/// The name of the service of a path, which has the form `/SERVICE/METHOD`.
fn service(path: &str) -> &str {
    let called = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    called.map(|(service, _)| service).unwrap_or_default()
}

/// Everything that a master serves.
#[derive(Clone)]
pub(crate) struct MasterServices {
    api: Arc<Servers>,
    passed: Arc<(Core, Arc<Requests>)>,
    others: Routes,
}

impl MasterServices {
    pub(super) fn new(api: &Api, others: Routes) -> Self {
        let passed = Arc::new((api.door.core.clone(), Arc::clone(&api.requests)));
        Self { api: Arc::new(Servers::of(api)), passed, others: others.prepare() }
    }
}

/// Adds the addresses of all masters to an answer.
fn tell_masters(core: &Core, headers: &mut HeaderMap) {
    let addresses = renewal::addresses(core.view().cell.member_addresses()).join(",");
    if let Ok(addresses) = HeaderValue::from_str(&addresses) {
        headers.insert(MASTERS, addresses);
    }
}

impl Serves<Request<Body>> for MasterServices {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Serves::<Request<Body>>::poll_ready(&mut self.others, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asks_for_masters = request.headers().contains_key(MASTERS);
        let passed = Arc::clone(&self.passed);
        if !API.contains(&service(request.uri().path())) {
            let answered = self.others.call(request);
            return Box::pin(async move {
                let mut response = answered.await?;
                if asks_for_masters {
                    tell_masters(&passed.0, response.headers_mut());
                }
                Ok(response)
            });
        }
        let api = Arc::clone(&self.api);
        Box::pin(async move {
            let (core, requests) = &*passed;
            let (begun, times) = (Instant::now(), requests.of(request.uri().path()));
            let mut response = match gate::wait(core, request.headers()).await {
                Ok(()) => api.call(request).await?,
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
