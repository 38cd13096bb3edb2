//! The few requests to the kernel about interfaces, addresses and routes (`rtnetlink(7)`).
//!
//! A socket stays in the namespace in which it was opened.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::sys::socket::{MsgFlags, SockProtocol, recv, send};

use crate::netlink::{self, HEADER};

/// Kinds of messages.
mod kind {
    pub(super) const ERROR: u16 = 2;
    pub(super) const NEW_LINK: u16 = 16;
    pub(super) const DELETE_LINK: u16 = 17;
    pub(super) const GET_LINK: u16 = 18;
    pub(super) const NEW_ADDRESS: u16 = 20;
    pub(super) const NEW_ROUTE: u16 = 24;
}

/// Flags of requests.
mod flag {
    const REQUEST: u16 = 1;
    const ACKNOWLEDGE: u16 = 4;
    pub(super) const CHANGE: u16 = REQUEST | ACKNOWLEDGE;
    pub(super) const CREATE: u16 = CHANGE | 0x400 | 0x200;
    pub(super) const ASK: u16 = REQUEST;
}

/// Kinds of attributes, by the message that they belong to.
mod attribute {
    pub(super) const LINK_NAME: u16 = 3;
    pub(super) const LINK_INFO: u16 = 18;
    pub(super) const LINK_INFO_KIND: u16 = 1;
    pub(super) const LINK_INFO_DATA: u16 = 2;
    pub(super) const LINK_NAMESPACE: u16 = 28;
    pub(super) const VETH_PEER: u16 = 1;
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const ADDRESS_LOCAL: u16 = 2;
    pub(super) const ROUTE_DESTINATION: u16 = 1;
    pub(super) const ROUTE_INTERFACE: u16 = 4;
    pub(super) const ROUTE_GATEWAY: u16 = 5;
}

/// A socket to the kernel.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
}

/// Whether the kernel returned an error.
pub(super) fn is(error: &io::Error, code: i32) -> bool {
    error.raw_os_error() == Some(code)
}

impl Netlink {
    /// Opens a socket in the thread's namespace.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { socket: netlink::open(SockProtocol::NetlinkRoute)? })
    }

    /// Adds a pair of interfaces: one here, one in another namespace.
    pub(super) fn add_veth(&mut self, here: &str, there: &str, namespace: RawFd) -> io::Result<()> {
        let mut peer = link(0, 0);
        put(&mut peer, attribute::LINK_NAME, &name(there));
        put(&mut peer, attribute::LINK_NAMESPACE, &namespace.to_ne_bytes());
        let mut data = Vec::new();
        put(&mut data, attribute::VETH_PEER, &peer);
        let mut info = Vec::new();
        put(&mut info, attribute::LINK_INFO_KIND, b"veth");
        put(&mut info, attribute::LINK_INFO_DATA, &data);
        let mut body = link(0, 0);
        put(&mut body, attribute::LINK_NAME, &name(here));
        put(&mut body, attribute::LINK_INFO, &info);
        self.change(kind::NEW_LINK, flag::CREATE, &body)
    }

    /// Removes an interface, and its other end with it. Succeeds if it does not exist.
    pub(super) fn remove(&mut self, interface: &str) -> io::Result<()> {
        let mut body = link(0, 0);
        put(&mut body, attribute::LINK_NAME, &name(interface));
        match self.change(kind::DELETE_LINK, flag::CHANGE, &body) {
            Err(error) if is(&error, libc::ENODEV) => Ok(()),
            removed => removed,
        }
    }

    /// The index of an interface.
    pub(super) fn index(&mut self, interface: &str) -> io::Result<u32> {
        let mut body = link(0, 0);
        put(&mut body, attribute::LINK_NAME, &name(interface));
        let answer = self.ask(kind::GET_LINK, flag::ASK, &body)?;
        // In `struct ifinfomsg`, after the family and the type.
        let index = answer.get(HEADER + 4..).and_then(|rest| rest.first_chunk());
        index.map(|index| u32::from_ne_bytes(*index)).ok_or_else(too_short)
    }

    /// Switches an interface on.
    pub(super) fn set_up(&mut self, interface: u32) -> io::Result<()> {
        self.change(kind::NEW_LINK, flag::CHANGE, &link(interface, libc::IFF_UP.cast_unsigned()))
    }

    /// Gives an interface an address, without a route to any other.
    pub(super) fn add_address(&mut self, interface: u32, address: Ipv4Addr) -> io::Result<()> {
        // `struct ifaddrmsg`: family, prefix, flags, scope, interface.
        let mut body = vec![family(), 32, 0, libc::RT_SCOPE_UNIVERSE];
        body.extend(interface.to_ne_bytes());
        put(&mut body, attribute::ADDRESS, &address.octets());
        put(&mut body, attribute::ADDRESS_LOCAL, &address.octets());
        self.change(kind::NEW_ADDRESS, flag::CREATE, &body)
    }

    /// Routes to one address over an interface.
    pub(super) fn add_route(&mut self, interface: u32, to: Ipv4Addr) -> io::Result<()> {
        let mut body = route(32, libc::RT_SCOPE_LINK, 0);
        put(&mut body, attribute::ROUTE_DESTINATION, &to.octets());
        put(&mut body, attribute::ROUTE_INTERFACE, &interface.to_ne_bytes());
        self.change(kind::NEW_ROUTE, flag::CREATE, &body)
    }

    /// Routes to every other address over a gateway, which is directly behind an interface.
    pub(super) fn add_default_route(&mut self, interface: u32, via: Ipv4Addr) -> io::Result<()> {
        /// The gateway is there although no address says so.
        const ON_LINK: u32 = 4;
        let mut body = route(0, libc::RT_SCOPE_UNIVERSE, ON_LINK);
        put(&mut body, attribute::ROUTE_GATEWAY, &via.octets());
        put(&mut body, attribute::ROUTE_INTERFACE, &interface.to_ne_bytes());
        self.change(kind::NEW_ROUTE, flag::CREATE, &body)
    }

    /// Sends a request that the kernel acknowledges.
    fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.ask(kind, flags, body).map(drop)
    }

    /// Sends a request and returns the answer, or the error that it is.
    fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        // There is one request at a time, so it needs no number.
        let message = netlink::request(kind, flags, 0, body);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answer = vec![0; 32 << 10];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        answer.truncate(length);
        match answered(&answer)? {
            0 => Ok(answer),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// The error code in an answer; 0 if it is no error.
fn answered(answer: &[u8]) -> io::Result<i32> {
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk()).ok_or_else(too_short)?;
    if u16::from_ne_bytes(*kind) != kind::ERROR {
        return Ok(0);
    }
    let code = answer.get(HEADER..).and_then(|rest| rest.first_chunk()).ok_or_else(too_short)?;
    Ok(i32::from_ne_bytes(*code).saturating_neg())
}

fn too_short() -> io::Error {
    io::Error::other("the kernel's answer is too short")
}

/// `struct ifinfomsg`: family, type, index, flags, and which of them to change.
fn link(index: u32, up: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    body
}

/// `struct rtmsg`: family, lengths of the destination and the source, service, table, origin,
/// scope, type, flags.
fn route(prefix: u8, scope: u8, flags: u32) -> Vec<u8> {
    let table = libc::RT_TABLE_MAIN;
    let mut body = vec![family(), prefix, 0, 0, table, libc::RTPROT_STATIC, scope];
    body.push(libc::RTN_UNICAST);
    body.extend(flags.to_ne_bytes());
    body
}

fn family() -> u8 {
    libc::AF_INET.to_le_bytes()[0]
}

/// A text with the zero byte at its end.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Appends an attribute: its length, its kind, its value, and zeros up to a multiple of 4 bytes.
fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nest() {
        let mut inner = Vec::new();
        put(&mut inner, 1, b"veth");
        put(&mut inner, 3, &name("eth0"));
        assert_eq!(inner.len(), 8 + 12);
        assert_eq!(inner[8..12], [9_u16.to_ne_bytes(), 3_u16.to_ne_bytes()].concat()[..]);
        let mut outer = vec![0; 16];
        put(&mut outer, 18, &inner);
        assert_eq!(outer.len(), 16 + 4 + inner.len());
        assert_eq!(outer[20..], inner[..]);
    }

    #[test]
    fn answers_are_errors_or_not_and_short_ones_are_rejected() {
        let mut answer = 36_u32.to_ne_bytes().to_vec();
        answer.extend(kind::ERROR.to_ne_bytes());
        answer.extend([0; 10]);
        answer.extend((-libc::EEXIST).to_ne_bytes());
        assert_eq!(answered(&answer).ok(), Some(libc::EEXIST));
        assert!(answered(&answer[..18]).is_err());
        answer[4..6].copy_from_slice(&kind::NEW_LINK.to_ne_bytes());
        assert_eq!(answered(&answer).ok(), Some(0));
        assert!(answered(&[]).is_err());
    }
}
