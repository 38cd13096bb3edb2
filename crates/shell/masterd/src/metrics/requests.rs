//! Request durations, by method and result. The methods come from the services' descriptors, and
//! the table is made at the start: clients cannot create new entries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use process::health::PAGES;
use process::metrics::Durations;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prost::Message as _;
use tonic::Code;

/// The label for methods that no service has.
const OTHER: &str = "other";

/// The class of a request's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Ok,
    /// The request is invalid or not allowed.
    Client,
    /// The master is overloaded, or its disk is full.
    Overload,
    /// The master failed.
    Server,
}

impl Class {
    const ALL: [Self; 4] = [Self::Ok, Self::Client, Self::Overload, Self::Server];

    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Client => "client",
            Self::Overload => "overload",
            Self::Server => "server",
        }
    }

    fn of<B>(response: &axum::http::Response<B>) -> Self {
        // A successful call sends its status only after its response.
        match response.headers().get("grpc-status") {
            Some(code) => Self::of_code(Code::from_bytes(code.as_bytes())),
            None => match response.status().as_u16() {
                400..500 => Self::Client,
                500.. => Self::Server,
                _ => Self::Ok,
            },
        }
    }

    fn of_code(code: Code) -> Self {
        match code {
            Code::Ok => Self::Ok,
            Code::Cancelled
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated => Self::Client,
            Code::ResourceExhausted => Self::Overload,
            Code::Unknown
            | Code::DeadlineExceeded
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Self::Server,
        }
    }
}

/// The durations of a method, by class.
#[derive(Debug, Default)]
pub(crate) struct Times([Durations; Class::ALL.len()]);

impl Times {
    /// Records a request with this response and duration.
    pub(crate) fn add<B>(&self, response: &axum::http::Response<B>, took: Duration) {
        let class = Class::of(response);
        if let Some((_, times)) = Class::ALL.iter().zip(&self.0).find(|(of, _)| **of == class) {
            times.add(took);
        }
    }
}

/// Request durations.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By path, with the leading `/`.
    methods: BTreeMap<String, Times>,
    other: Times,
}

impl Requests {
    /// A table for the methods of these services, from encoded descriptors.
    pub(crate) fn new(descriptors: &[&[u8]], services: &[&str]) -> Self {
        let mut methods: BTreeMap<String, Times> =
            PAGES.iter().map(|page| ((*page).to_owned(), Times::default())).collect();
        let sets = descriptors.iter().flat_map(|set| prost_types::FileDescriptorSet::decode(*set));
        for file in sets.flat_map(|set| set.file) {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                for method in service.method.iter().filter(|_| services.contains(&name.as_str())) {
                    methods.insert(format!("/{name}/{}", method.name()), Times::default());
                }
            }
        }
        Self { methods, other: Times::default() }
    }

    /// The durations of a path's method.
    pub(crate) fn of(&self, path: &str) -> &Times {
        self.methods.get(path).unwrap_or(&self.other)
    }
}

/// Measures the time until a response begins.
pub(crate) async fn measure(
    State(requests): State<Arc<Requests>>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let times = requests.of(request.uri().path());
    let response = next.run(request).await;
    times.add(&response, begun.elapsed());
    response
}

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) =
            ("bourg_request_duration_seconds", "Time until the response to a request began.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let paths = self.methods.iter().map(|(path, times)| (path.as_str(), times));
        for (path, times) in paths.chain([(OTHER, &self.other)]) {
            let method = path.trim_start_matches('/');
            for (class, times) in Class::ALL.into_iter().zip(&times.0) {
                // A combination that never occurred would be a dozen lines of zeros.
                if times.count() > 0 {
                    let labels = [("method", method), ("class", class.name())];
                    times.encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use rpc::service::jobs_server::SERVICE_NAME;

    use super::*;

    #[test]
    fn every_method_of_a_service_has_its_place_and_others_share_one() {
        let requests = Requests::new(&[api::DESCRIPTORS], &[SERVICE_NAME]);
        let submit = format!("/{SERVICE_NAME}/Submit");
        for path in [submit.as_str(), "/metrics", "/bourg.v1.Borglet/Poll", "/", "/no/such"] {
            requests.of(path).0[0].add(Duration::ZERO);
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(requests));
        let text = process::metrics::text(&registry);
        let counts: Vec<&str> = text.lines().filter(|line| line.contains("_count")).collect();
        let name = "bourg_request_duration_seconds_count";
        assert_eq!(
            counts,
            [
                format!("{name}{{method=\"bourg.v1.Jobs/Submit\",class=\"ok\"}} 1"),
                format!("{name}{{method=\"metrics\",class=\"ok\"}} 1"),
                format!("{name}{{method=\"other\",class=\"ok\"}} 3"),
            ]
        );
    }

    #[test]
    fn a_class_says_whose_fault_it_is() {
        let by_header = |code: &str| {
            let response = Response::builder().header("grpc-status", code);
            Class::of(&response.body(axum::body::Body::empty()).expect("a response"))
        };
        for (code, class) in [
            ("0", Class::Ok),
            ("5", Class::Client),
            ("8", Class::Overload),
            ("14", Class::Server),
            ("nonsense", Class::Server),
        ] {
            assert_eq!(by_header(code), class, "{code}");
        }
        for (status, class) in [(200, Class::Ok), (404, Class::Client), (503, Class::Server)] {
            let response = Response::builder().status(status).body(axum::body::Body::empty());
            assert_eq!(Class::of(&response.expect("a response")), class, "{status}");
        }
    }
}
