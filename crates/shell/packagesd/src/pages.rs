//! The health and metrics endpoints of a store of packages: `/livez`, `/readyz` and `/metrics`, for every peer
//! with a certificate of the cell. They name no users and no packages.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use process::health::{self, Check};
use process::metrics::{Process, counters, gauge, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use rpc::Identity;
use rpc::transport::{Cause, Limiter, Refusals};

use crate::parts::Parts;

#[derive(Clone)]
struct Watched {
    parts: Arc<Parts>,
    registry: Arc<Registry>,
}

/// The endpoints, for peers of the cell.
pub(crate) fn pages(parts: &Arc<Parts>, refusals: &Refusals) -> Router {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process::with(parts.credentials.clone())));
    registry.register_collector(Box::new(Store(Arc::clone(parts), refusals.clone())));
    let watched = Watched { parts: Arc::clone(parts), registry: Arc::new(registry) };
    let cell = Arc::<str>::from(parts.cell.as_str());
    Router::new()
        .route("/livez", get(async |uri: Uri| health::answer(&uri, &[])))
        .route("/readyz", get(is_ready))
        .route(
            "/metrics",
            get(async |State(watched): State<Watched>| health::metrics(&watched.registry)),
        )
        .with_state(watched)
        .layer(from_fn_with_state(cell, lookers))
}

/// Rejects peers without permission.
async fn lookers(State(cell): State<Arc<str>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match rpc::transport::peer_identity(&health::asked(&parts), &cell) {
        Ok(Identity::Joining(_)) => health::refused(&tonic::Status::permission_denied(
            "a join token can only be used to join the cell",
        )),
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(status) => health::refused(&status),
    }
}

async fn is_ready(State(watched): State<Watched>, uri: Uri) -> Response {
    let store = watched.parts.store.check().await;
    health::answer(&uri, &[Check::new("store", store.map_err(|error| error.to_string()))])
}

/// What the store contains and does.
#[derive(Debug)]
struct Store(Arc<Parts>, Refusals);

impl Collector for Store {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let parts = &self.0;
        let totals = parts.store.totals();
        gauge(encoder, "bourg_packages_bytes", "The size of all packs.", totals.bytes)?;
        gauge(encoder, "bourg_packages_packs", "Packs in the store.", totals.packs as u64)?;
        let help = "Chunks in all packs; one in two packs counts twice.";
        gauge(encoder, "bourg_packages_chunks", help, totals.chunks as u64)?;
        let help = "Objects among the packs that are not packs.";
        gauge(encoder, "bourg_packages_set_aside", help, totals.aside.len() as u64)?;
        let held = |limiter: &Limiter<String>| {
            limiter.holders().iter().map(|(_, number)| *number as u64).sum::<u64>()
        };
        let slots = [("upload", held(&parts.uploads)), ("read", held(&parts.fetches))];
        let slots = slots.map(|(kind, number)| ([("kind", kind)], number));
        gauges(encoder, "bourg_packages_in_progress", "Uploads and reads in progress.", slots)?;
        let rejected = [("upload", parts.uploads.rejected()), ("read", parts.fetches.rejected())];
        let rejected = rejected.map(|(kind, number)| ([("kind", kind)], number));
        let help =
            "Uploads and reads that were rejected since all slots or those of a user were taken.";
        counters(encoder, "bourg_packages_rejected", help, rejected)?;
        let counts = &parts.counts;
        for (name, help, counter) in [
            ("bourg_packages_uploads", "Uploads that were completed.", &counts.uploads),
            ("bourg_packages_received_bytes", "Bytes of chunks received.", &counts.bytes_received),
            ("bourg_packages_reads", "Reads that were allowed.", &counts.fetches),
            ("bourg_packages_sent_bytes", "Bytes of chunks sent.", &counts.bytes_sent),
            (
                "bourg_packages_collected_bytes",
                "Bytes freed by collections.",
                &counts.bytes_collected,
            ),
        ] {
            let counter = ConstCounter::new(counter.load(Ordering::Relaxed));
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        let causes = Cause::ALL.map(|cause| ([("cause", cause.as_str())], self.1.total(cause)));
        let help = "Rejected connections and requests, by cause.";
        counters(encoder, "bourg_packages_requests_refused", help, causes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use package_store::{PackageStore, Settings, StoreLocation};
    use rpc::{Authority, Rotating, Validity};

    use super::*;

    #[tokio::test]
    async fn metrics_count_what_the_store_has_and_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::create(dir.path(), "cc").expect("an authority");
        let valid = Validity::lasting(Duration::from_secs(3_600));
        let credentials = authority.issue(&Identity::Packages("p1".to_owned()), valid);
        let credentials = Rotating::new(credentials.expect("credentials")).expect("TLS");
        let location = StoreLocation::Directory(dir.path().join("store"));
        let store = PackageStore::open(&location, Settings::default()).await.expect("a store");
        let parts = Arc::new(Parts::new(store, &credentials).expect("a service"));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Store(Arc::clone(&parts), Refusals::default())));
        let _slot = crate::parts::slot(&parts.uploads, "uploads", "user/ana".to_owned());
        let text = process::metrics::text(&registry);
        for line in [
            "bourg_packages_bytes 0",
            "bourg_packages_in_progress{kind=\"upload\"} 1",
            "bourg_packages_rejected_total{kind=\"read\"} 0",
            "bourg_packages_uploads_total 0",
            "bourg_packages_received_bytes_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
