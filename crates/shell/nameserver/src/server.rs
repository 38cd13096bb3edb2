//! The server and its sockets.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nix::sys::socket::sockopt::IpFreebind;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, socket};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};

use crate::answering::ServerState;
use crate::metrics::Metrics;
use crate::{Settings, Source, tcp, udp};

/// How often a free port is looked for that is free over UDP and TCP.
const PORT_ATTEMPTS: usize = 16;

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    address: SocketAddr,
    udp: UdpSocket,
    tcp: TcpListener,
    metrics: Arc<Metrics>,
}

impl Server {
    /// Listens at the address of the settings, over UDP and TCP.
    ///
    /// # Errors
    /// When the address is not this host's, in use, or reserved for root.
    pub async fn bind(settings: Settings) -> io::Result<Self> {
        let (udp, tcp) = match settings.address {
            SocketAddr::V4(address) if settings.address_may_be_absent => bind_freely(address)?,
            address => bind(address).await?,
        };
        let address = udp.local_addr()?;
        Ok(Self { settings, address, udp, tcp, metrics: Arc::new(Metrics::default()) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts its requests together with those of another server.
    #[must_use]
    pub fn counted_with(self, other: &Self) -> Self {
        Self { metrics: Arc::clone(&other.metrics), ..self }
    }

    /// Its counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Answers requests until the future is dropped, which ends its tasks and connections, too.
    ///
    /// # Errors
    /// When a socket fails for another reason than one request or connection.
    pub async fn serve<S: Source>(self, source: Arc<S>) -> io::Result<()> {
        let Self { mut settings, address, udp, tcp, metrics } = self;
        settings.resolvers.retain(|resolver| *resolver != address);
        let shared = Arc::new(ServerState::new(settings, source, metrics));
        tokio::try_join!(udp::serve(udp, Arc::clone(&shared)), tcp::serve(tcp, shared))?;
        Ok(())
    }
}

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// The sockets at an address that this host may not have yet.
fn bind_freely(address: SocketAddrV4) -> io::Result<(UdpSocket, TcpListener)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let udp = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
    setsockopt(&udp, IpFreebind, &true)?;
    nix::sys::socket::bind(udp.as_raw_fd(), &SockaddrIn::from(address))?;
    let tcp = TcpSocket::new_v4()?;
    setsockopt(&tcp, IpFreebind, &true)?;
    tcp.set_reuseaddr(true)?;
    tcp.bind(address.into())?;
    Ok((UdpSocket::from_std(udp.into())?, tcp.listen(BACKLOG)?))
}

/// The sockets at one address and port.
async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let udp = UdpSocket::bind(address).await?;
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(_) if address.port() == 0 && attempt < PORT_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}
