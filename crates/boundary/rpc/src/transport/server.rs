//! Serves clients with a certificate of the cell, and browsers.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Server;

use super::accept::{Accept, HANDSHAKES_SHARE};
use super::admission::Admission;
use super::limiter::{Connections, Limiter};
use super::refusals::Refusals;
use super::{KEEP_ALIVE_TIMEOUT, SERVER_KEEP_ALIVE_INTERVAL};
use crate::{Error, Result, Rotating, WebCredentials};

/// The maximum size of a request's headers, in bytes. The protocol's default is 16 MiB.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// What a server serves, such as tonic's routes.
pub trait HttpService:
    Service<
        http::Request<Body>,
        Response = http::Response<Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> HttpService for S where
    S: Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections, not counting those of masters. Further ones are rejected after the
    /// handshake.
    pub connections: usize,
    /// Open connections of one identity, except masters. Further ones are rejected after the
    /// handshake. The tasks of one user may have a quarter of [`Self::connections`] together.
    pub connections_of_one: usize,
    /// Additional connections reserved for masters. If as many as both limits together are open,
    /// including pending handshakes, further connections wait unaccepted.
    pub for_masters: usize,
    /// Concurrent handshakes. Further connections wait unaccepted.
    pub handshakes: usize,
    /// Concurrent calls on one connection. Clients queue further ones.
    pub calls_per_connection: u32,
    /// The timeout of a TLS handshake.
    pub handshake: Duration,
    /// How long a connection of [`serve_web`] may be without a byte in either direction. One that is in use
    /// has keep-alives more often.
    pub idle: Duration,
    /// How long calls in flight may continue after the shutdown begins. Then all connections are
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
            idle: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves `services`, such as tonic's routes, on a listening socket until `shutdown` resolves, with
/// the identity of `credentials`, for every identity of its cell. Services do their own
/// authorization (see [`super::peer_identity`]). Rejections are counted in `refusals`. Returns when
/// the last connection is closed.
///
/// # Errors
/// [`Error::Listener`] before anything is served, [`Error::Serve`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn serve(
    listener: std::net::TcpListener,
    credentials: &Rotating,
    services: impl HttpService,
    limits: Limits,
    refusals: &Refusals,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let cell = credentials.credentials().cell().to_owned();
    let tls = Arc::clone(&credentials.tls().server);
    let services = Admission::new(services, &cell);
    let listen = Listen { listener, tls, anonymous: false, cell: &cell, limits };
    listen.serve(services, refusals, shutdown).await
}

/// How pages are served to browsers.
#[derive(Debug)]
pub struct WebOptions<'a> {
    /// The certificate of the server.
    pub credentials: &'a WebCredentials,
    /// The cell whose identities are recognized.
    pub cell: &'a str,
    /// The bounds of connections.
    pub limits: Limits,
    /// Where what is refused is counted.
    pub refusals: &'a Refusals,
}

/// Serves `pages` to browsers on a listening socket until `shutdown` resolves, over HTTP/1.1 and
/// HTTP/2. Clients need no certificate; [`super::web_peer`] gives the identity of those that have one
/// of `cell`. Clients without one share the maximum of one client, and have a quarter of it from one
/// address, of handshakes an eighth. Returns when the last connection is
/// closed.
///
/// # Errors
/// [`Error::Listener`] and [`Error::Tls`] before anything is served, [`Error::Serve`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn serve_web(
    listener: std::net::TcpListener,
    options: WebOptions<'_>,
    pages: impl HttpService,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let WebOptions { credentials, cell, limits, refusals } = options;
    let tls = credentials.tls()?;
    let listen = Listen { listener, tls, anonymous: true, cell, limits };
    listen.serve(pages, refusals, shutdown).await
}

/// A listening socket, and which clients it accepts.
struct Listen<'a> {
    listener: std::net::TcpListener,
    tls: Arc<ServerConfig>,
    /// For browsers: without certificates, and over HTTP/1.1 too.
    anonymous: bool,
    cell: &'a str,
    limits: Limits,
}

impl Listen<'_> {
    async fn serve(
        self,
        services: impl HttpService,
        refusals: &Refusals,
        shutdown: impl Future<Output = ()>,
    ) -> Result<()> {
        let Self { listener, tls, anonymous, cell, limits } = self;
        listener.set_nonblocking(true).map_err(Error::Listener)?;
        let listener = TcpListener::from_std(listener).map_err(Error::Listener)?;
        let (connections, incoming) = mpsc::channel(1);
        let (closing, watch_closing) = watch::channel(false);
        let accept = Accept {
            tls,
            anonymous,
            cell: cell.into(),
            limits,
            refusals: refusals.clone(),
            limiter: Connections::new(limits.connections, limits.connections_of_one),
            handshakes: Limiter::new(
                limits.handshakes,
                limits.handshakes.div_ceil(HANDSHAKES_SHARE),
            ),
            connections,
            closing: watch_closing,
        };
        let serving = Server::builder()
            .accept_http1(anonymous)
            .http2_keepalive_interval(Some(SERVER_KEEP_ALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_streams(limits.calls_per_connection)
            .serve_with_incoming_shutdown(services, ReceiverStream::new(incoming), shutdown);
        let accepting = async {
            accept.run(listener).await;
            // The shutdown has begun. A followed stream would never end on its own.
            tokio::time::sleep(limits.drain).await;
            closing.send_replace(true);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = serving => served.map_err(Error::Serve),
            () = accepting => Ok(()),
        }
    }
}
