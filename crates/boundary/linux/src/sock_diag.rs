//! Messages of netlink's `sock_diag(7)`, by which the kernel tells about sockets.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket};
use nix::sys::time::TimeVal;

/// The timeout of each part of the kernel's answer.
const PATIENCE: TimeVal = TimeVal::new(5, 0);

/// The size of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Flags of a request: for one socket, and for all that match.
pub(crate) const REQUEST: u16 = 1;
pub(crate) const REQUEST_AND_DUMP: u16 = 0x301;

/// A connection to the kernel.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let protocol = SockProtocol::NetlinkSockDiag;
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    setsockopt(&kernel, ReceiveTimeout, &PATIENCE)?;
    Ok(kernel)
}

/// A request: `struct nlmsghdr` and its body. Its number comes back with the answer.
pub(crate) fn request(flags: u16, number: u32, body: &[u8]) -> Vec<u8> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let mut message = u32::try_from(body.len() + HEADER).unwrap_or(u32::MAX).to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    // The sender, which the kernel does not need.
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// What a message is.
pub(crate) enum Kind {
    Socket,
    Done,
    Error(i32),
    Other,
}

/// One message of several.
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
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
        2 => Kind::Error(-i32::from_ne_bytes(*body.first_chunk()?)),
        3 => Kind::Done,
        20 => Kind::Socket,
        _ => Kind::Other,
    };
    let more = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(Message { kind, number, body, more })
}
