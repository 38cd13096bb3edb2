//! Calls of services in the same process, with the identity of somebody who was authenticated before.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tonic::codegen::http;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server};

use super::admission::Admission;
use super::peer::{FarEnd, Peer};
use super::refusals::Refusals;
use super::server::HttpService;

/// The bytes that may be in the pipe of a connection, in each direction.
const PIPE_BYTES: usize = 256 << 10;

/// A channel to `services` of this process, whose calls are those of `peer`: what it may call, and the
/// expiry of its certificate, are checked as if it had connected. It connects at the first call.
///
/// The caller vouches for the peer. Give it one that [`super::peer`] or [`super::web_peer`] returned,
/// never one of its own making.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn in_process(
    services: impl HttpService,
    peer: Peer,
    cell: &str,
    refusals: &Refusals,
) -> Channel {
    let services = Admission::new(services, cell);
    let far_end = Arc::new(FarEnd::known(peer, cell, refusals.clone()));
    let connector = tower::service_fn(move |_: http::Uri| {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let pipe = Pipe { stream: far, far_end: Arc::clone(&far_end) };
        let incoming = tokio_stream::once(Ok::<_, io::Error>(pipe));
        // It ends with its only connection, when the channel is dropped.
        tokio::spawn(Server::builder().serve_with_incoming(services.clone(), incoming));
        std::future::ready(Ok::<_, io::Error>(TokioIo::new(near)))
    });
    Endpoint::from_static("http://in-process").connect_with_connector_lazy(connector)
}

/// The server's end of a connection within the process.
struct Pipe {
    stream: DuplexStream,
    far_end: Arc<FarEnd>,
}

impl Connected for Pipe {
    type ConnectInfo = Arc<FarEnd>;

    fn connect_info(&self) -> Arc<FarEnd> {
        Arc::clone(&self.far_end)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
