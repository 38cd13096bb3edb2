//! Which task a DNS request comes from: all tasks of a machine have the same address, and each has a
//! user of its own, who has created the socket at the other end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dns::Via;
use linux::peers::{Peers, Protocol};
use nameserver::Client;

/// How long the user of a port is believed. Short, because the next socket there may be another task's;
/// long enough that a client which asks all the time costs nothing.
const BELIEVED_FOR: Duration = Duration::from_millis(10);
/// How many ports are remembered.
const KNOWN_MAX: usize = 16_384;

/// The clients of the name server of this machine.
pub(crate) struct TaskClients(Option<Mutex<ClientTable>>);

struct ClientTable {
    /// The address of the name server.
    server: SocketAddr,
    peers: Peers,
    users: HashMap<(Protocol, SocketAddr), (u32, Instant)>,
}

impl TaskClients {
    /// The clients of a server at an address; without one there are none.
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        let peers = server.map(|server| (server, Peers::open()));
        Self(peers.and_then(|(server, peers)| match peers {
            Ok(peers) => Some(Mutex::new(ClientTable { server, peers, users: HashMap::new() })),
            Err(error) => {
                tracing::warn!("for DNS all tasks of this machine are one client: {error}");
                None
            }
        }))
    }

    /// Whose request one from `peer` is: a user's, or of all whose socket is closed by now.
    /// A task with a network of its own has an address of its own.
    pub(crate) fn client(&self, peer: SocketAddr, via: Via) -> Client {
        if !peer.ip().is_loopback() {
            return Client::Address(peer.ip());
        }
        let protocol = match via {
            Via::Udp => Protocol::Udp,
            Via::Tcp => Protocol::Tcp,
        };
        let user = self.0.as_ref().and_then(|known| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.user(protocol, peer, Instant::now())
        });
        user.map_or(Client::Address(peer.ip()), |user| Client::Number(user.into()))
    }
}

impl ClientTable {
    fn user(&mut self, protocol: Protocol, peer: SocketAddr, now: Instant) -> Option<u32> {
        let is_new = |since: Instant| now.saturating_duration_since(since) < BELIEVED_FOR;
        match self.users.get(&(protocol, peer)) {
            Some((user, since)) if is_new(*since) => return Some(*user),
            _ => {}
        }
        let user = self.peers.uid(protocol, peer, self.server).unwrap_or_else(|error| {
            tracing::debug!("the kernel does not say who asks from {peer}: {error}");
            None
        });
        let Some(user) = user else {
            self.users.remove(&(protocol, peer));
            return None;
        };
        if self.users.len() >= KNOWN_MAX {
            self.users.retain(|_, (_, since)| is_new(*since));
        }
        if self.users.len() < KNOWN_MAX {
            self.users.insert((protocol, peer), (user, now));
        }
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_user_is_cached_briefly_and_the_ports_are_bounded() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let server = server.local_addr().expect("an address");
        let clients = TaskClients::new(Some(server));
        let mut known = clients.0.as_ref().expect("the kernel answers").lock().expect("no panic");
        let own = nix::unistd::geteuid().as_raw();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let peer = socket.local_addr().expect("an address");
        let begun = Instant::now();
        assert_eq!(known.user(Protocol::Udp, peer, begun), Some(own));
        drop(socket);
        let late = begun + BELIEVED_FOR;
        assert_eq!(known.user(Protocol::Udp, peer, late - Duration::from_millis(1)), Some(own));
        assert_eq!(known.user(Protocol::Udp, peer, late), None, "it is closed");
        assert!(known.users.is_empty());

        let of =
            |port: usize| SocketAddr::from(([127, 0, 0, 2], u16::try_from(port).expect("small")));
        known.users.extend((0..KNOWN_MAX).map(|port| ((Protocol::Udp, of(port)), (7, begun))));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let peer = socket.local_addr().expect("an address");
        assert_eq!(known.user(Protocol::Udp, peer, begun), Some(own));
        assert_eq!(known.users.len(), KNOWN_MAX, "no room: it is asked again each time");
        assert_eq!(known.user(Protocol::Udp, peer, late), Some(own));
        assert_eq!(known.users.len(), 1);
    }
}
