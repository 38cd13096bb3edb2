//! The status pages of a long-running client: its health and its metrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// What the pages show. Clones share their state.
pub trait Status: Clone + Send + Sync + 'static {
    /// Whether it does its work, with a line that says so or why not.
    ///
    /// # Errors
    /// The line, if it does not.
    fn health(&self) -> Result<String, String>;

    /// Its metrics in Prometheus' text format.
    fn metrics(&self) -> String;
}

/// The maximum number of connections to these pages, and how long one may last.
const CONNECTIONS_MAX: usize = 64;
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Serves `/healthz` and `/metrics`, forever.
pub async fn serve_status(listener: TcpListener, status: impl Status) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let status = status.clone();
        tokio::spawn(async move {
            let page = hyper::service::service_fn(move |request| {
                let answer = answer(&status, &request);
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

fn answer(status: &impl Status, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (code, text) = match request.uri().path() {
        "/healthz" => match status.health() {
            Ok(line) => (StatusCode::OK, line + "\n"),
            Err(line) => (StatusCode::SERVICE_UNAVAILABLE, line + "\n"),
        },
        "/metrics" => (StatusCode::OK, status.metrics()),
        _ => (StatusCode::NOT_FOUND, "not found: try /healthz or /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    response
}
