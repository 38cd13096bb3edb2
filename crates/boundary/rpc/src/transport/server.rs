//! Serving to those who have a certificate of the cell.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Server;

use super::accept::Accept;
use super::admission::Admission;
use super::limiter::Connections;
use super::refusals::Refusals;
use super::{KEEP_ALIVE_TIMEOUT, SERVER_KEEP_ALIVE_INTERVAL};
use crate::{Error, Result, Rotating};

/// Headers of one request, in bytes. The protocol's own default is 16 MiB.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// What a server bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of all but masters. Whoever comes further is refused after the handshake.
    pub connections: usize,
    /// Those of one identity, other than masters. Further ones are refused after the handshake. The tasks of
    /// one user may have a quarter of [`Self::connections`] together.
    pub connections_of_one: usize,
    /// Open connections beyond [`Self::connections`], to which masters alone come. Where as many are
    /// open as both together, those in their handshake included, further ones wait unaccepted.
    pub for_masters: usize,
    /// Handshakes at once. Further connections wait unaccepted.
    pub handshakes: usize,
    /// Calls in flight on one connection. A client waits for a place before it sends one more.
    pub calls_per_connection: u32,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long calls in flight get to end after the shutdown begins. Then every connection is
    /// closed.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_of_one: 256,
            for_masters: 64,
            handshakes: 1024,
            calls_per_connection: 1024,
            handshake: Duration::from_secs(5),
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves `services`, such as tonic's routes, on a bound, listening socket until `shutdown` ends, as the identity of
/// `credentials`, to every identity of its cell; what each may do is for the services to decide
/// (see [`super::peer_identity`]). Who is not let in is counted in `refusals`. Returns when the last
/// connection is closed.
///
/// # Errors
/// [`Error::Listener`] before anything is served, [`Error::Serve`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn serve<S>(
    listener: std::net::TcpListener,
    credentials: &Rotating,
    services: S,
    limits: Limits,
    refusals: &Refusals,
    shutdown: impl Future<Output = ()>,
) -> Result<()>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let cell = credentials.credentials().cell().to_owned();
    listener.set_nonblocking(true).map_err(Error::Listener)?;
    let listener = TcpListener::from_std(listener).map_err(Error::Listener)?;
    let (connections, incoming) = mpsc::channel(1);
    let (closing, watch_closing) = watch::channel(false);
    let accept = Accept {
        tls: Arc::clone(&credentials.tls().server),
        cell: cell.as_str().into(),
        limits,
        refusals: refusals.clone(),
        limiter: Connections::new(limits.connections, limits.connections_of_one),
        connections,
        closing: watch_closing,
    };
    let services = Admission::new(services, &cell);
    let serving = Server::builder()
        .http2_keepalive_interval(Some(SERVER_KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .max_concurrent_streams(limits.calls_per_connection)
        .serve_with_incoming_shutdown(services, ReceiverStream::new(incoming), shutdown);
    let accepting = async {
        accept.run(listener).await;
        // The shutdown has begun. A stream that is followed would never end by itself.
        tokio::time::sleep(limits.drain).await;
        closing.send_replace(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = serving => served.map_err(Error::Serve),
        () = accepting => Ok(()),
    }
}
