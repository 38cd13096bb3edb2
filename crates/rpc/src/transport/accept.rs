//! Accepting connections: a bounded number, and all of them closed when the server is to end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long to leave a listener alone that cannot accept, as without a free file descriptor.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts until nobody wants connections any more, then drops the listener. At most `limit`
/// connections are open; further ones wait in the system's queue.
pub(super) async fn accept(
    listener: TcpListener,
    limit: usize,
    connections: mpsc::Sender<io::Result<Connection>>,
    closing: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)));
    let accept = async {
        // Never closed, so that acquiring never fails.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let stream = loop {
                match listener.accept().await {
                    Ok((stream, _)) => break stream,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections for a moment");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            };
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection was gone before it was served");
                continue;
            }
            let connection = Connection::new(stream, permit, closing.clone());
            if connections.send(Ok(connection)).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = connections.closed() => {}
    }
}

/// An accepted connection. It counts against the limit until it is dropped.
pub(super) struct Connection {
    stream: TcpStream,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn new(
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        mut closing: watch::Receiver<bool>,
    ) -> Self {
        let closed = Box::pin(async move {
            // An error says that the server is gone, which closes as well.
            let _ = closing.wait_for(|closing| *closing).await;
        });
        Self { stream, closed, _permit: permit }
    }

    /// Where the stream has nothing to do, waits for the end of the server too.
    fn or_closed<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_pending() && self.closed.as_mut().poll(context).is_ready() {
            // Polled no more after this: what has ended must not be asked again.
            self.closed = Box::pin(std::future::ready(()));
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        polled
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
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
