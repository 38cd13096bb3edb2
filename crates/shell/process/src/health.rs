//! Health endpoints: `/livez`, `/readyz` and `/readyz?verbose`, and `/metrics`, on the same port
//! and with the same certificates as the API. Each process defines its own checks.

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tonic::metadata::MetadataMap;

/// The paths that every process serves.
pub const PAGES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of the check, in a word or two.
    pub name: &'static str,
    /// The error, if the check failed.
    pub found: Result<(), String>,
}

impl Check {
    /// Returns the result of a check.
    pub fn new(name: &'static str, found: Result<(), String>) -> Self {
        Self { name, found }
    }

    fn line(&self) -> String {
        match &self.found {
            Ok(()) => format!("[+] {} ok\n", self.name),
            Err(why) => format!("[-] {} failed: {why}\n", self.name),
        }
    }
}

/// Whether all checks pass.
pub fn all_ok(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.found.is_ok())
}

/// The response of a health endpoint: 200 and `ok`, or 503 and a line for each failed check. With
/// `?verbose`, a line for every check.
pub fn answer(uri: &Uri, checks: &[Check]) -> Response {
    let parameters = uri.query().unwrap_or_default();
    let verbose = parameters.split('&').any(|word| word == "verbose" || word == "verbose=true");
    let ok = all_ok(checks);
    let shown = checks.iter().filter(|check| verbose || check.found.is_err());
    let mut text: String = shown.map(Check::line).collect();
    if ok {
        text += "ok\n";
    }
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    plain(status, text)
}

/// A plain-text response that must not be cached.
pub fn plain(status: StatusCode, text: String) -> Response {
    let kind =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    (status, kind, text).into_response()
}

/// The request as the transport authenticated it, for authorization.
pub fn asked(parts: &Parts) -> tonic::Request<()> {
    tonic::Request::from_parts(MetadataMap::new(), parts.extensions.clone(), ())
}

/// Whether the request is a gRPC call, which needs gRPC errors.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The response for an unknown path: probes of a nonexistent endpoint must fail.
pub async fn not_found(request: Request) -> Response {
    if is_grpc(request.headers()) {
        let nothing = tonic::Status::unimplemented("no such service");
        return nothing.into_http::<axum::body::Body>();
    }
    let pages = PAGES.join(", ");
    plain(StatusCode::NOT_FOUND, format!("no such page; the pages are {pages}\n"))
}

/// The response for a request without permission.
pub fn refused(status: &tonic::Status) -> Response {
    plain(StatusCode::FORBIDDEN, format!("{}\n", status.message()))
}

/// The response with the metrics of a registry.
pub fn metrics(registry: &prometheus_client::registry::Registry) -> Response {
    let kind = [(header::CONTENT_TYPE, crate::metrics::CONTENT_TYPE)];
    (kind, crate::metrics::text(registry)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn failed_checks_are_shown_and_all_checks_on_request() {
        let good = || vec![Check::new("disk", Ok(())), Check::new("leader", Ok(()))];
        let bad = || vec![Check::new("disk", Err("it is full".to_owned())), good().remove(1)];
        for (address, checks, status, text) in [
            ("/readyz", good(), 200, "ok\n"),
            ("/readyz?verbose", good(), 200, "[+] disk ok\n[+] leader ok\nok\n"),
            ("/readyz", bad(), 503, "[-] disk failed: it is full\n"),
            ("/readyz?verbose", bad(), 503, "[-] disk failed: it is full\n[+] leader ok\n"),
            ("/readyz?verbosely", bad(), 503, "[-] disk failed: it is full\n"),
        ] {
            let answer = answer(&address.parse().expect("an address"), &checks);
            assert_eq!(answer.status().as_u16(), status, "{address}");
            let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
            assert_eq!(body, text.as_bytes(), "{address}");
        }
    }
}
