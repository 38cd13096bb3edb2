//! Requests over connections (RFC 7766): each with its length in front.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dns::Via;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Source;
use crate::answering::{Next, ServerState};
use crate::frame::{receive, send};
use crate::metrics::Metrics;
use crate::places::Places;

/// The longest request, in bytes. A longer one ends its connection.
const REQUEST_BYTES_MAX: usize = 4_096;

/// The pause after a failed accept, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers connections for ever.
pub(crate) async fn serve<S: Source>(
    listener: TcpListener,
    shared: Arc<ServerState<S>>,
) -> io::Result<()> {
    let places = Places::new(shared.settings.connections_max);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let owner = shared.source.owner(shared.source.client(peer, Via::Tcp));
        let Some(place) = places.take(owner) else {
            Metrics::count(&shared.metrics.connections_rejected);
            continue;
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A connection that fails concerns nobody but its client.
            let _ = answer(stream, peer, &shared).await;
            drop(place);
        });
    }
}

/// Answers the requests of a connection, one after the other.
async fn answer<S: Source>(
    mut stream: TcpStream,
    peer: SocketAddr,
    shared: &ServerState<S>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut random = ServerState::<S>::random();
    let idle = shared.settings.idle_timeout;
    for _ in 0..shared.settings.requests_per_connection {
        let request = timeout(idle, receive(&mut stream, REQUEST_BYTES_MAX)).await??;
        let reply = match shared.answer(&request, Via::Tcp, peer, &mut random) {
            Next::Reply(reply) => Some(reply),
            Next::Wait(pending) => shared.wait(pending, &mut random).await,
            Next::Nothing => None,
        };
        let Some(reply) = reply else { return Ok(()) };
        timeout(idle, send(&mut stream, &reply)).await??;
    }
    Ok(())
}
