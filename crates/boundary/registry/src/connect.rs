//! Connections to registries: TCP, through a proxy if there is one, and TLS.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::error::RegistryError;
use crate::settings::{ProxyChoice, RegistrySettings};
use crate::trust;
use crate::words::chain;

/// Makes connections.
#[derive(Clone)]
pub(crate) struct RegistryConnector {
    tcp: HttpConnector,
    tls: TlsConnector,
    proxies: Arc<Matcher>,
    wait: Duration,
}

impl RegistryConnector {
    pub(crate) fn new(settings: &RegistrySettings) -> Result<Self, RegistryError> {
        let tls = trust::client_config(settings.ca_file.as_deref(), settings.insecure)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let proxies = match &settings.proxy {
            ProxyChoice::Direct => Matcher::builder().build(),
            ProxyChoice::Environment => Matcher::from_env(),
            ProxyChoice::Url(url) => given_proxy(url)?,
        };
        let (tls, proxies) = (TlsConnector::from(tls), Arc::new(proxies));
        Ok(Self { tcp, tls, proxies, wait: settings.patience.connect })
    }

    /// The header for the proxy of a request that is sent to it, and not through a tunnel.
    pub(crate) fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let plain = uri.scheme() == Some(&Scheme::HTTP);
        let proxy = plain.then(|| self.proxies.intercept(uri)).flatten()?;
        proxy.basic_auth().cloned()
    }

    /// A connection to the server of a URL.
    pub(crate) async fn connect(self, uri: Uri) -> Result<RegistryConnection, ConnectFailure> {
        let wait = self.wait;
        let slow = |_| {
            let why = format!("no connection within {} s", wait.as_secs_f32());
            ConnectFailure::Unreachable(why)
        };
        timeout(wait, self.connect_at_all(uri)).await.map_err(slow)?
    }

    async fn connect_at_all(self, uri: Uri) -> Result<RegistryConnection, ConnectFailure> {
        let proxy = self.proxies.intercept(&uri);
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let tcp = match proxy {
                None => reach(self.tcp, uri.clone()).await?,
                Some(proxy) => tunnel(self.tcp, &proxy, uri.clone()).await?,
            };
            let stream = handshake(&self.tls, &uri, tcp).await?;
            return Ok(RegistryConnection { io: TokioIo::new(Box::pin(stream)), to_proxy: false });
        }
        let to_proxy = proxy.is_some();
        let to = match proxy {
            None => uri,
            Some(proxy) => plain_proxy(&proxy)?,
        };
        let stream = reach(self.tcp, to).await?;
        Ok(RegistryConnection { io: TokioIo::new(Box::pin(stream)), to_proxy })
    }
}

impl fmt::Debug for RegistryConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryConnector").finish_non_exhaustive()
    }
}

impl Service<Uri> for RegistryConnector {
    type Response = RegistryConnection;
    type Error = ConnectFailure;
    type Future = Pin<Box<dyn Future<Output = Result<RegistryConnection, ConnectFailure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectFailure {
    /// The server, or the proxy before it, cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The server speaks no TLS, or its certificate is not trusted.
    #[error("{0}")]
    Tls(String),
}

impl ConnectFailure {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Unreachable(chain(error))
    }
}

/// The proxy that was given.
fn given_proxy(url: &str) -> Result<Matcher, RegistryError> {
    let bad = || RegistryError::Settings {
        what: "the proxy".to_owned(),
        why: "it is no http://[USER:PASSWORD@]HOST:PORT".to_owned(),
    };
    let uri: Uri = url.parse().map_err(|_| bad())?;
    let usable =
        uri.scheme() == Some(&Scheme::HTTP) && uri.host().is_some_and(|host| !host.is_empty());
    if usable { Ok(Matcher::builder().all(url).build()) } else { Err(bad()) }
}

/// The address of a proxy that is spoken to without TLS.
fn plain_proxy(proxy: &Intercept) -> Result<Uri, ConnectFailure> {
    match proxy.uri().scheme() == Some(&Scheme::HTTP) {
        true => Ok(proxy.uri().clone()),
        false => {
            let why =
                "the proxy of the environment is no http:// proxy, and others are not supported";
            Err(ConnectFailure::Unreachable(why.to_owned()))
        }
    }
}

async fn reach(mut tcp: HttpConnector, uri: Uri) -> Result<TcpStream, ConnectFailure> {
    let stream = tcp.call(uri).await.map_err(|error| ConnectFailure::of(&error))?;
    Ok(stream.into_inner())
}

async fn tunnel(
    tcp: HttpConnector,
    proxy: &Intercept,
    uri: Uri,
) -> Result<TcpStream, ConnectFailure> {
    let mut tunnel = Tunnel::new(plain_proxy(proxy)?, tcp);
    if let Some(authorization) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    let stream = tunnel.call(uri).await;
    let failed = |error| {
        let ConnectFailure::Unreachable(why) = ConnectFailure::of(&error) else { unreachable!() };
        ConnectFailure::Unreachable(format!(
            "the proxy {} does not let through: {why}",
            proxy.uri()
        ))
    };
    Ok(stream.map_err(failed)?.into_inner())
}

async fn handshake(
    tls: &TlsConnector,
    uri: &Uri,
    tcp: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, ConnectFailure> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| ConnectFailure::Tls(error.to_string()))?;
    tls.connect(name, tcp).await.map_err(|error| ConnectFailure::Tls(chain(&error)))
}

/// The bytes of a connection.
trait ByteStream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> ByteStream for T {}

/// A connection to a registry or to a proxy.
pub(crate) struct RegistryConnection {
    io: TokioIo<Pin<Box<dyn ByteStream>>>,
    /// Whether requests on it have to name the whole URL.
    to_proxy: bool,
}

impl Connection for RegistryConnection {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.to_proxy)
    }
}

impl Read for RegistryConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for RegistryConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
