//! Sockets and requests of netlink (`netlink(7)`), whatever they are about.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket};
use nix::sys::time::TimeVal;

/// The timeout of each part of the kernel's answer.
const PATIENCE: TimeVal = TimeVal::new(5, 0);

/// The size of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;

/// A connection to the kernel.
pub(crate) fn open(protocol: SockProtocol) -> io::Result<OwnedFd> {
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&kernel, ReceiveTimeout, &PATIENCE)?;
    Ok(kernel)
}

/// A request: `struct nlmsghdr` and its body. Its number comes back with the answer.
pub(crate) fn request(kind: u16, flags: u16, number: u32, body: &[u8]) -> Vec<u8> {
    let mut message = u32::try_from(body.len() + HEADER).unwrap_or(u32::MAX).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    // The sender, which the kernel does not need.
    message.extend([0; 4]);
    message.extend(body);
    message
}
