//! Requests in datagrams: many are received and sent with one system call.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use dns::Via;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::Source;
use crate::answering::{Next, ServerState};
use crate::batch::{self, Buffers};

/// Answers datagrams for ever.
pub(crate) async fn serve<S: Source>(
    socket: UdpSocket,
    shared: Arc<ServerState<S>>,
) -> io::Result<()> {
    let socket = Arc::new(socket);
    let mut random = ServerState::<S>::random();
    let mut buffers = Buffers::new();
    // Requests that wait; the shared semaphore bounds their number.
    let mut waiting = JoinSet::new();
    loop {
        let receive = || batch::receive(&*socket, &mut buffers);
        let peers = match socket.async_io(Interest::READABLE, receive).await {
            Ok(peers) => peers,
            // A signal, or a datagram that was sent before and could not be delivered.
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused => continue,
                _ => return Err(error),
            },
        };
        let mut replies = Vec::with_capacity(peers.len());
        for (request, peer) in buffers.received(&peers) {
            match shared.answer(request, Via::Udp, peer, &mut random) {
                Next::Reply(reply) => replies.push((reply, peer)),
                Next::Nothing => {}
                Next::Wait(pending) => {
                    let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
                    let mut random = random.fork();
                    waiting.spawn(async move {
                        if let Some(reply) = shared.wait(pending, &mut random).await {
                            // The client asks again if it is lost.
                            let _ = socket.send_to(&reply, peer).await;
                        }
                    });
                }
            }
        }
        send(&socket, &replies).await;
        while waiting.try_join_next().is_some() {}
    }
}

/// Sends all replies. One that cannot be sent is left out: its client asks again.
async fn send(socket: &UdpSocket, mut replies: &[(Vec<u8>, SocketAddr)]) {
    while !replies.is_empty() {
        let send = || batch::send(socket, replies);
        let sent = socket.async_io(Interest::WRITABLE, send).await.unwrap_or(1);
        replies = replies.get(sent.max(1)..).unwrap_or_default();
    }
}
