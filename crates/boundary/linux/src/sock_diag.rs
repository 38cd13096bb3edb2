//! Messages of netlink's `sock_diag(7)`, by which the kernel tells about sockets.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::SockProtocol;

use crate::netlink::{self, HEADER};

/// Flags of a request: for one socket, and for all that match.
pub(crate) const REQUEST: u16 = 1;
pub(crate) const REQUEST_AND_DUMP: u16 = 0x301;

/// A connection to the kernel.
pub(crate) fn open() -> io::Result<OwnedFd> {
    netlink::open(SockProtocol::NetlinkSockDiag)
}

/// A request. Its number comes back with the answer.
pub(crate) fn request(flags: u16, number: u32, body: &[u8]) -> Vec<u8> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    netlink::request(SOCK_DIAG_BY_FAMILY, flags, number, body)
}

/// What a message is.
pub(crate) enum MessageKind {
    Socket,
    Done,
    Error(i32),
    Other,
}

/// One message of several.
pub(crate) struct Message<'a> {
    pub(crate) kind: MessageKind,
    pub(crate) number: u32,
    pub(crate) body: &'a [u8],
    /// The messages after it.
    pub(crate) more: &'a [u8],
}

/// Splits the first message from the others.
pub(crate) fn message(bytes: &[u8]) -> Option<Message<'_>> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let number = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    let kind = match kind {
        2 => MessageKind::Error(-i32::from_ne_bytes(*body.first_chunk()?)),
        3 => MessageKind::Done,
        20 => MessageKind::Socket,
        _ => MessageKind::Other,
    };
    let more = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(Message { kind, number, body, more })
}
