//! Foreign names: asked at the host's resolvers.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dns::Via;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::frame;

/// The most resolvers that are used, as in glibc.
const RESOLVERS_MAX: usize = 3;

/// The port of resolvers.
const PORT: u16 = 53;

/// The largest reply over UDP that is read, in bytes.
const REPLY_BYTES_MAX: usize = 4_096;

/// The resolvers in the text of a `resolv.conf`: the first three addresses of `nameserver` lines.
#[must_use]
pub fn resolvers(resolv_conf: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let named = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| named)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    resolv_conf.lines().filter_map(address).take(RESOLVERS_MAX).collect()
}

/// The resolvers of the host.
pub(crate) struct Upstream {
    resolvers: Vec<SocketAddr>,
    timeout: Duration,
    /// Its keys are random, so ids cannot be guessed from others.
    ids: RandomState,
    next: AtomicU64,
}

impl Upstream {
    pub(crate) fn new(resolvers: Vec<SocketAddr>, timeout: Duration) -> Self {
        Self { resolvers, timeout, ids: RandomState::new(), next: AtomicU64::new(0) }
    }

    /// The reply of the first resolver that answers, with the id of the request. One that fails or
    /// refuses is used only if the others do not answer.
    pub(crate) async fn ask(&self, request: &[u8], via: Via) -> Option<Vec<u8>> {
        let own = request.get(..2)?;
        let mut asked = request.to_vec();
        let mut failed = None;
        for resolver in &self.resolvers {
            let id = self.id();
            asked.get_mut(..2)?.copy_from_slice(&id);
            let reply = async {
                match via {
                    Via::Udp => over_udp(&asked, *resolver).await,
                    Via::Tcp => over_tcp(&asked, *resolver).await,
                }
            };
            if let Ok(Ok(mut reply)) = timeout(self.timeout, reply).await {
                reply.get_mut(..2)?.copy_from_slice(own);
                if !is_failure(&reply) {
                    return Some(reply);
                }
                failed.get_or_insert(reply);
            }
        }
        failed
    }

    /// A random id.
    fn id(&self) -> [u8; 2] {
        let [first, second, ..] =
            self.ids.hash_one(self.next.fetch_add(1, Ordering::Relaxed)).to_be_bytes();
        [first, second]
    }
}

/// Whether a reply is SERVFAIL or REFUSED.
fn is_failure(reply: &[u8]) -> bool {
    reply.get(3).is_some_and(|flags| matches!(flags & 0x0f, 2 | 5))
}

/// Asks with a socket of its own, whose port the kernel chooses at random, and which receives from the
/// resolver alone. Whatever is not the response is ignored.
async fn over_udp(request: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(request).await?;
    let mut reply = vec![0; REPLY_BYTES_MAX];
    loop {
        let length = socket.recv(&mut reply).await?;
        if dns::answers(request, &reply[..length]) {
            reply.truncate(length);
            return Ok(reply);
        }
    }
}

/// Asks over a connection of its own.
async fn over_tcp(request: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    frame::send(&mut stream, request).await?;
    let reply = frame::receive(&mut stream, usize::from(u16::MAX)).await?;
    if dns::answers(request, &reply) { Ok(reply) } else { Err(io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_from_resolv_conf() {
        let text = "# nameserver 9.9.9.9\nsearch ana.cc.borg\nnameserver 10.0.0.1 # the first\n\
                    nameserver\t2001:db8::1\nnameserver x\nnameserver fe80::1%eth0\n\
                    nameservers 1.1.1.1\n nameserver 10.0.0.2\nnameserver 10.0.0.3\n";
        let read: Vec<String> = resolvers(text).iter().map(ToString::to_string).collect();
        assert_eq!(read, ["10.0.0.1:53", "[2001:db8::1]:53", "10.0.0.2:53"]);
        assert!(resolvers("").is_empty());
    }

    #[test]
    fn ids_do_not_follow_each_other() {
        let upstream = Upstream::new(Vec::new(), Duration::ZERO);
        let ids: Vec<[u8; 2]> = (0..100).map(|_| upstream.id()).collect();
        let mut different = ids.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 90, "{ids:?}");
    }
}
