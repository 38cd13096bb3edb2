//! Accepts connections and performs their handshakes, with limits on both; closes all of them at
//! shutdown.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::limiter::{Connections, Limiter, OfConnection};
use super::peer::{FarEnd, Peer};
use super::refusals::{Cause, Refusals};
use super::server::Limits;

/// How long to pause when the listener cannot accept, for example without free file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a rejected connection lingers, and how many bytes it may still send.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 << 10;
/// The interval of expiry checks: the wall clock may be set.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// One address may have this part of the handshakes of a server for anonymous clients.
pub(super) const HANDSHAKES_SHARE: usize = 8;

/// The acceptor of a server.
pub(super) struct Accept {
    pub(super) tls: Arc<ServerConfig>,
    /// Whether clients without a certificate are served.
    pub(super) anonymous: bool,
    pub(super) cell: Arc<str>,
    pub(super) limits: Limits,
    pub(super) refusals: Refusals,
    pub(super) limiter: Connections,
    /// Handshakes by address; everybody may begin one.
    pub(super) handshakes: Limiter<IpAddr>,
    /// Receives the connections that are ready.
    pub(super) connections: mpsc::Sender<io::Result<Connection>>,
    pub(super) closing: watch::Receiver<bool>,
}

impl Accept {
    /// Accepts until the receiver of connections is gone, then drops the listener and pending
    /// handshakes. Connections and handshakes above the limits wait in the kernel's queue.
    pub(super) async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        let most = this.limits.connections.saturating_add(this.limits.for_masters);
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(most));
        let mut handshakes = JoinSet::new();
        loop {
            let has_room = handshakes.len() < this.limits.handshakes.max(1);
            tokio::select! {
                Some((stream, address, permit)) = next(&listener, &permits), if has_room => {
                    handshakes.spawn(Arc::clone(&this).shake_hands(stream, address, permit));
                }
                Some(_) = handshakes.join_next() => {}
                () = this.connections.closed() => break,
            }
        }
    }

    /// Performs the handshake of a connection and passes it on, or counts the failure.
    async fn shake_hands(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let turn = self.anonymous.then(|| self.handshakes.acquire(address.ip()));
        let Ok(turn) = turn.transpose() else {
            let why = "it has too many handshakes at once";
            return self.refusals.count(Cause::TooMany, || format!("from {address}: {why}"));
        };
        let accept = TlsAcceptor::from(Arc::clone(&self.tls)).accept(stream).into_fallible();
        let stream = match tokio::time::timeout(self.limits.handshake, accept).await {
            Ok(Ok(stream)) => stream,
            Ok(Err((error, stream))) => {
                let cause = Cause::of_handshake(&error);
                self.refusals.count(cause, || format!("from {address}: {error}"));
                let _closed = tokio::time::timeout(LINGER, linger(stream)).await;
                return;
            }
            Err(_elapsed) => return self.refusals.count(Cause::Slow, || format!("from {address}")),
        };
        drop(turn);
        let certificates = stream.get_ref().1.peer_certificates();
        // The peer's own certificate comes first, followed by the chain to the authority.
        let own = certificates.and_then(|chain| chain.first()).map(AsRef::as_ref);
        let far_end = match own {
            None if self.anonymous => FarEnd::anonymous(address, self.refusals.clone()),
            own => FarEnd::new(address, own, &self.cell, self.refusals.clone()),
        };
        let far_end = Arc::new(far_end);
        let peer = far_end.of_cell(&self.cell).ok();
        let ends = peer.as_ref().and_then(Peer::ends);
        let place = match self.limiter.acquire(peer.map(|peer| peer.identity), address.ip()) {
            Ok(place) => place,
            Err(why) => {
                // While it lingers, accept others.
                drop(permit);
                far_end.count(Cause::TooMany, &why);
                let _closed = tokio::time::timeout(LINGER, linger(stream)).await;
                return;
            }
        };
        let held = Permits { _permit: permit, _place: place };
        let idle = self.anonymous.then_some(self.limits.idle);
        let connection = Connection::new(stream, far_end, held, idle, self.over(ends));
        let _gone = self.connections.send(Ok(connection)).await;
    }

    /// Resolves when a connection must close: at shutdown, or after its certificate has expired.
    fn over(&self, ends: Option<SystemTime>) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.closing.clone();
        async move {
            tokio::select! {
                // An error means that the server is gone, which closes the connection as well.
                _ = closing.wait_for(|closing| *closing) => {}
                () = expired(ends) => {}
            }
        }
    }
}

/// The next connection, once a permit is available.
async fn next(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Never closed, so acquiring cannot fail.
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => match stream.set_nodelay(true) {
                Ok(()) => return Some((stream, address, permit)),
                Err(error) => {
                    tracing::debug!(%error, "a connection was closed before it was served");
                }
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections temporarily");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits until a moment has visibly passed; forever for `None`. By then, requests have already been
/// rejected with a reason, which a closed connection cannot give.
async fn expired(ends: Option<SystemTime>) {
    let Some(ends) = ends else { return std::future::pending().await };
    while SystemTime::now() < ends {
        tokio::time::sleep(EXPIRY_CHECK_INTERVAL).await;
    }
}

/// Reads what a rejected client still sends. If the connection were closed with unread bytes, the
/// kernel would send a reset, and the client would not see the alert with the reason.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<u64> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
}

/// An accepted connection after its handshake. It counts against the limits until dropped.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    far_end: Arc<FarEnd>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// When it has been without a byte for too long, if that ends it.
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
    _held: Permits,
}

/// The permits of a connection.
struct Permits {
    _permit: OwnedSemaphorePermit,
    _place: OfConnection,
}

impl Connection {
    fn new(
        stream: TlsStream<TcpStream>,
        far_end: Arc<FarEnd>,
        held: Permits,
        idle: Option<Duration>,
        over: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let idle = idle.map(|idle| (idle, Box::pin(tokio::time::sleep(idle))));
        Self { stream, far_end, closed: Box::pin(over), idle, _held: held }
    }

    /// If the stream has nothing to do, also polls for the end of the connection.
    fn or_closed<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if let Some((idle, sleep)) = &mut self.idle {
                sleep.as_mut().reset(Instant::now() + *idle);
            }
            return polled;
        }
        if self.closed.as_mut().poll(context).is_ready() {
            // Never polled again: a finished future must not be polled.
            self.closed = Box::pin(std::future::ready(()));
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        match &mut self.idle {
            Some((_, sleep)) => {
                sleep.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            None => Poll::Pending,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Arc<FarEnd>;

    fn connect_info(&self) -> Arc<FarEnd> {
        Arc::clone(&self.far_end)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.or_closed(polled, context)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.or_closed(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.or_closed(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_within_a_minute_after_its_certificate_has_expired() {
        let within = |ends| tokio::time::timeout(EXPIRY_CHECK_INTERVAL * 2, expired(ends));
        let now = SystemTime::now();
        assert!(within(Some(now)).await.is_ok());
        assert!(within(Some(now + EXPIRY_CHECK_INTERVAL * 60)).await.is_err());
        assert!(within(None).await.is_err());
    }
}
