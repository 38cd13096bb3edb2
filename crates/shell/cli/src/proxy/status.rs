//! The health and the metrics of a proxy.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::backends::Backends;
use super::forward::{Proxy, Totals};

/// The maximum number of connections to these pages, and how long one may last.
const CONNECTIONS_MAX: usize = 64;
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Serves the pages, forever.
pub(super) async fn serve(listener: TcpListener, proxy: Proxy) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let page = hyper::service::service_fn(move |request| {
                let answer = answer(&proxy, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            let serving =
                http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), page);
            // A client may disconnect at any time.
            let _gone = tokio::time::timeout(CONNECTION_TIME, serving).await;
            drop(permit);
        });
    }
}

fn answer(proxy: &Proxy, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/healthz" => match proxy.read(|backends, _| backends.serving()) {
            0 => (StatusCode::SERVICE_UNAVAILABLE, "no task serves\n".to_owned()),
            serving => (StatusCode::OK, format!("ok: {serving} serving\n")),
        },
        "/metrics" => (StatusCode::OK, proxy.read(metrics)),
        _ => (StatusCode::NOT_FOUND, "not found: try /healthz or /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    response
}

/// The metrics in Prometheus' text format.
fn metrics(backends: &Backends, totals: Totals) -> String {
    let mut text = String::new();
    let head = |text: &mut String, name: &str, kind: &str, help: &str| {
        // Writing to a text cannot fail.
        let _written = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    };
    let serving = backends.serving() as u64;
    for (name, kind, help, value) in [
        ("bourg_proxy_open_connections", "gauge", "Open connections of clients.", totals.open),
        ("bourg_proxy_serving_tasks", "gauge", "Tasks that get new connections.", serving),
        (
            "bourg_proxy_refused_connections_total",
            "counter",
            "Connections closed because there were too many.",
            totals.refused,
        ),
        (
            "bourg_proxy_unserved_connections_total",
            "counter",
            "Connections closed because no task accepted them.",
            totals.unserved,
        ),
    ] {
        head(&mut text, name, kind, help);
        let _written = writeln!(text, "{name} {value}");
    }
    let counts: Vec<_> = backends.counts().collect();
    type Value = fn(super::backends::Counts) -> u64;
    let by_task: [(&str, &str, &str, Value); 3] = [
        ("bourg_proxy_task_open_connections", "gauge", "Open connections by task.", |it| it.open),
        ("bourg_proxy_task_connections_total", "counter", "Connections by task.", |it| it.total),
        (
            "bourg_proxy_task_failed_connects_total",
            "counter",
            "Connections that a task did not accept.",
            |it| it.failed,
        ),
    ];
    for (name, kind, help, value) in by_task {
        head(&mut text, name, kind, help);
        for (task, counts) in &counts {
            let _written = writeln!(text, "{name}{{task=\"{task}\"}} {}", value(*counts));
        }
    }
    text
}
