//! Several datagrams with one system call: `recvmmsg` and `sendmmsg`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

/// The most datagrams of one call.
const DATAGRAMS: usize = 64;

/// The bytes of a datagram that are read: one more than a request may have, so that a longer one is
/// seen to be too long.
const BYTES: usize = 4_097;

/// Room for the datagrams of one call.
pub(crate) struct Buffers(Vec<[u8; BYTES]>);

impl Buffers {
    pub(crate) fn new() -> Self {
        Self(vec![[0; BYTES]; DATAGRAMS])
    }

    /// The datagrams that [`receive`] filled in, with their senders.
    pub(crate) fn received<'a>(
        &'a self,
        peers: &'a [(usize, Option<SocketAddr>)],
    ) -> impl Iterator<Item = (&'a [u8], SocketAddr)> {
        let all = self.0.iter().zip(peers);
        all.filter_map(|(buffer, (length, peer))| Some((buffer.get(..*length)?, (*peer)?)))
    }
}

/// Receives what is there, at least one datagram. Returns the length and the sender of each.
pub(crate) fn receive(
    socket: &impl AsRawFd,
    buffers: &mut Buffers,
) -> io::Result<Vec<(usize, Option<SocketAddr>)>> {
    // Made anew for each call: the kernel writes to the lengths in it.
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(DATAGRAMS, None);
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        buffers.0.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    let received = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)?;
    Ok(received.map(|message| (message.bytes, message.address.as_ref().and_then(peer))).collect())
}

/// Sends datagrams, at least one. Returns how many were sent.
pub(crate) fn send(
    socket: &impl AsRawFd,
    datagrams: &[(Vec<u8>, SocketAddr)],
) -> io::Result<usize> {
    let datagrams = datagrams.get(..DATAGRAMS).unwrap_or(datagrams);
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(datagrams.len(), None);
    let slices: Vec<[IoSlice<'_>; 1]> =
        datagrams.iter().map(|(bytes, _)| [IoSlice::new(bytes)]).collect();
    let peers: Vec<Option<SockaddrStorage>> =
        datagrams.iter().map(|(_, peer)| Some(SockaddrStorage::from(*peer))).collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &peers, [], flags)?;
    Ok(sent.count())
}

/// A socket address of the system's.
fn peer(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(address) = address.as_sockaddr_in() {
        return Some(SocketAddr::from((address.ip(), address.port())));
    }
    let address = address.as_sockaddr_in6()?;
    Some(SocketAddr::V6(std::net::SocketAddrV6::new(
        address.ip(),
        address.port(),
        address.flowinfo(),
        address.scope_id(),
    )))
}
