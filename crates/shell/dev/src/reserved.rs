//! The addresses at which a dev cell serves DNS and Sigma: the usual port of each, or the next one that no
//! other dev cell has.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;

/// The ports for DNS of the dev cells on a host.
pub(super) const DNS: Range<u16> = 7_853..8_109;
/// The ports for Sigma.
pub(super) const SIGMA: Range<u16> = 7_800..7_853;

/// An address that is free, and that no other dev cell of this host takes while this exists.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) address: SocketAddr,
    /// A name that only one process can have.
    _held: net::UnixListener,
}

/// Reserves one of these ports; `None` if none is free.
pub(super) fn reserve(mut ports: Range<u16>) -> Option<Reserved> {
    ports.find_map(|port| {
        let name = net::SocketAddr::from_abstract_name(format!("bourg-port-{port}")).ok()?;
        let held = net::UnixListener::bind_addr(&name).ok()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let is_free = TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok();
        is_free.then_some(Reserved { address, _held: held })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_an_address_of_its_own() {
        let (one, other) = (reserve(DNS).expect("a port"), reserve(DNS).expect("another port"));
        assert_ne!(one.address, other.address);
        // What another program has is left alone.
        let taken = one.address;
        drop(one);
        let Ok(socket) = UdpSocket::bind(taken) else { return };
        let next = reserve(DNS).expect("a port");
        assert_ne!(next.address, taken);
        drop(socket);
    }
}
