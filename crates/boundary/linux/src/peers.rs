//! Whose socket is at the other end, for two sockets of this machine.
//!
//! The kernel looks up one socket by its addresses (`sock_diag(7)`); no list of sockets is read. A
//! question takes microseconds, two system calls, and never waits.
//!
//! Not here: processes. A socket keeps the user that created it, also after another process has got it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::sock_diag::{self, MessageKind, REQUEST, message};

/// The protocol of two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Asks the kernel for the users of sockets.
#[derive(Debug)]
pub struct Peers {
    kernel: OwnedFd,
    number: u32,
}

impl Peers {
    /// A connection to the kernel.
    ///
    /// # Errors
    /// When the kernel has no netlink.
    pub fn open() -> io::Result<Self> {
        Ok(Self { kernel: sock_diag::open()?, number: 0 })
    }

    /// The user id of the socket at `theirs` that talks to the one at `ours`; `None` if it is closed
    /// by now, or is not one of this machine.
    ///
    /// A kernel without its module `udp_diag` or `tcp_diag` knows no such sockets.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn uid(
        &mut self,
        protocol: Protocol,
        theirs: SocketAddr,
        ours: SocketAddr,
    ) -> io::Result<Option<u32>> {
        self.number = self.number.wrapping_add(1);
        let question = sock_diag::request(REQUEST, self.number, &body(protocol, theirs, ours));
        send(self.kernel.as_raw_fd(), &question, MsgFlags::empty())?;
        let mut buffer = [0; 1_024];
        // The answer is there when the question has been sent.
        loop {
            let length = recv(self.kernel.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT)?;
            let Some(message) = message(buffer.get(..length).unwrap_or_default()) else {
                return Err(io::Error::other("the kernel's answer is not a message"));
            };
            match message.kind {
                _ if message.number != self.number => {}
                MessageKind::Socket => return Ok(uid(message.body)),
                MessageKind::Error(libc::ENOENT) => return Ok(None),
                MessageKind::Error(code) => return Err(io::Error::from_raw_os_error(code)),
                MessageKind::Done | MessageKind::Other => return Ok(None),
            }
        }
    }
}

/// The bytes of `struct inet_diag_req_v2`.
fn body(protocol: Protocol, theirs: SocketAddr, ours: SocketAddr) -> Vec<u8> {
    let family = if theirs.is_ipv4() { AF_INET } else { AF_INET6 };
    let (number, local, remote) = match protocol {
        Protocol::Tcp => (IPPROTO_TCP, theirs, ours),
        // The kernel looks for the receiver of a datagram with these addresses.
        Protocol::Udp => (IPPROTO_UDP, ours, theirs),
    };
    let mut body = vec![family.to_le_bytes()[0], number.to_le_bytes()[0], 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    for address in [local, remote] {
        body.extend(address.port().to_be_bytes());
    }
    for address in [local, remote] {
        let mut bytes = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes = ip.octets(),
        }
        body.extend(bytes);
    }
    // Any interface, and whatever socket it is.
    body.extend([0; 4]);
    body.extend([0xff; 8]);
    body
}

/// The user in a `struct inet_diag_msg`.
fn uid(body: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(64..)?.first_chunk()?))
}
