//! The files that pages need, all in this program.

use std::io::Write as _;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// By name: their type and content.
const FILES: [(&str, &str, &str); 7] = [
    ("sigma.css", "text/css; charset=utf-8", include_str!("assets/sigma.css")),
    ("charts.css", "text/css; charset=utf-8", chart::STYLE),
    ("terminal.css", "text/css; charset=utf-8", include_str!("assets/terminal.css")),
    ("sigma.js", "text/javascript; charset=utf-8", include_str!("assets/sigma.js")),
    ("map.js", "text/javascript; charset=utf-8", include_str!("assets/map.js")),
    ("terminal.js", "text/javascript; charset=utf-8", include_str!("assets/terminal.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];
/// Smaller responses are not compressed.
const SMALL_BYTES: u64 = 1_024;
/// Larger ones are not, either: no page is as large.
const BYTES_MAX: usize = 16 << 20;

/// The address of a file, which changes with its content, so that browsers may keep it.
pub(crate) fn address(name: &str) -> String {
    let found = FILES.into_iter().find(|(known, _, _)| *known == name);
    let content = found.map_or("", |(_, _, content)| content);
    let hash = blake3::hash(content.as_bytes()).to_hex();
    format!("/assets/{name}?{}", &hash[..12])
}

/// A file.
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let Some((_, kind, content)) = FILES.into_iter().find(|(known, _, _)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kept = "public, max-age=31536000, immutable";
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, kept)], content).into_response()
}

/// The same response, compressed if that is worth it. A stream is not.
pub(crate) async fn compressed(response: Response) -> Response {
    use axum::body::HttpBody as _;

    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = ["text/html", "text/css", "text/javascript", "image/svg+xml", "application/json"];
    let is_text = is_text.iter().any(|known| kind.starts_with(known));
    let size = response.body().size_hint().exact();
    if !is_text || size.is_none_or(|size| size < SMALL_BYTES) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, BYTES_MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let Ok(small) = gzip.write_all(&bytes).and_then(|()| gzip.finish()) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(small))
}
