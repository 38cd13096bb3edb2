//! HTTP health checks: a GET on a local port. Any status below 400 passes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Performs one check; the error says why it failed.
pub(crate) async fn get(port: u16, path: &str, timeout: Duration) -> Result<(), String> {
    let asked = tokio::time::timeout(timeout, ask(port, path)).await;
    asked.unwrap_or_else(|_| Err(format!("no answer within {} ms", timeout.as_millis())))
}

async fn ask(port: u16, path: &str) -> Result<(), String> {
    let stream = TcpStream::connect(("127.0.0.1", port))
        .await
        .map_err(|error| format!("cannot connect to port {port}: {error}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let request = Request::get(path)
        .header(hyper::header::HOST, format!("127.0.0.1:{port}"))
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        match response.status().as_u16() {
            ..400 => Ok(()),
            code => Err(code.to_string()),
        }
    };
    // A connection error also shows up in the response.
    let (answer, _ended) = tokio::join!(answer, connection);
    answer
}
