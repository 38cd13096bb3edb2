//! Everything that a master serves on its one port: the services, gRPC's own for health and
//! reflection, and the pages for monitoring. The transport requires a certificate of the cell for
//! all of them alike.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use replication::v1::replication_server;
use rpc::service::enrolment_server::{self, EnrolmentServer};
use rpc::service::scheduling_server::{self, SchedulingServer};
use tonic::service::Routes;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_reflection::server::Builder;

use crate::metrics::{Requests, measure};
use crate::service::dispatch::{API, MasterServices};
use crate::service::replication::BetweenReplicas;
use crate::service::{Api, gate, health, process_discovery, service_discovery, service_endpoints};

/// The services of gRPC's reflection: the current one, and the previous one, which is the only one
/// that common clients for Python and other languages support.
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
const REFLECTION_BEFORE: &str = "grpc.reflection.v1alpha.ServerReflection";
/// The largest message of a joining or renewing process: a signing request and an address, each of
/// which has a smaller limit.
const ENROLMENT_BYTES_MAX: usize = 16 << 10;
/// The services of a master beside those of the API.
const OTHERS: [&str; 6] = [
    enrolment_server::SERVICE_NAME,
    scheduling_server::SERVICE_NAME,
    replication_server::SERVICE_NAME,
    health_server::SERVICE_NAME,
    REFLECTION,
    REFLECTION_BEFORE,
];
/// The descriptors of these services.
const DESCRIPTORS: [&[u8]; 5] = [
    api::DESCRIPTORS,
    replication::DESCRIPTORS,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// The services of a master.
pub(super) fn services() -> impl Iterator<Item = &'static str> {
    API.iter().chain(&OTHERS).copied()
}

/// The table of request durations of a master.
pub(super) fn requests() -> Arc<Requests> {
    let services: Vec<&str> = services().collect();
    Arc::new(Requests::new(&DESCRIPTORS, &services))
}

impl Api {
    /// Everything that a replica serves that keeps its checkpoints in a directory.
    pub(crate) fn routes(self, checkpoints: PathBuf) -> anyhow::Result<MasterServices> {
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let scheduling = SchedulingServer::new(self.schedulers.clone());
        let scheduling = scheduling.max_decoding_message_size(most).max_encoding_message_size(most);
        let joining = EnrolmentServer::new(self.enroller.clone());
        let joining = joining.max_decoding_message_size(ENROLMENT_BYTES_MAX);
        let held = Routes::new(scheduling).add_service(joining);
        let held = held.into_axum_router().fallback(process::health::not_found);
        let held = held.layer(from_fn_with_state(self.door.core.clone(), gate::pass));
        let measured = from_fn_with_state(Arc::clone(&self.requests), measure);
        let replication = BetweenReplicas::server(&self, checkpoints);
        let always = Routes::new(replication).into_axum_router().reset_fallback();
        let all = held.merge(always).merge(self.for_lookers()?);
        Ok(MasterServices::new(&self, Routes::from(all.layer(measured))))
    }

    /// Routes for everybody with a certificate of the cell, at any time.
    fn for_lookers(&self) -> anyhow::Result<Router> {
        let reflection = || {
            let builder = Builder::configure();
            let builder = builder.include_reflection_service(false);
            let builder = DESCRIPTORS.into_iter().fold(builder, |builder, descriptors| {
                builder.register_encoded_file_descriptor_set(descriptors)
            });
            services().fold(builder, Builder::with_service_name)
        };
        let wrong = "the descriptors of the services";
        let monitoring = self.monitoring.clone();
        let mut always = Routes::builder();
        always
            .add_service(HealthServer::new(monitoring.clone()))
            .add_service(reflection().build_v1().context(wrong)?)
            .add_service(reflection().build_v1alpha().context(wrong)?);
        let pages = Router::new()
            .route("/livez", get(health::livez))
            .route("/readyz", get(health::readyz))
            .route("/metrics", get(health::metrics))
            .route(service_discovery::PATH, get(service_discovery::tasks))
            .route(process_discovery::MASTERS, get(process_discovery::masters))
            .route(process_discovery::MACHINES, get(process_discovery::machines))
            .route(service_endpoints::TARGETS, get(service_endpoints::targets))
            .route(service_endpoints::ENDPOINTS, post(service_endpoints::endpoints))
            .with_state(monitoring.clone());
        // Unknown paths are answered by the router with the pages.
        let always = always.routes().into_axum_router().reset_fallback();
        Ok(always.merge(pages).layer(from_fn_with_state(monitoring, health::lookers)))
    }
}
