//! The address at which a dev cell serves DNS: port 7853, or the next one that no other dev cell has.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;

/// The port of the first dev cell on a host, and how many follow it.
const PORT: u16 = 7_853;
const PORTS: u16 = 256;

/// An address that is free, and that no other dev cell of this host takes while this exists.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) address: SocketAddr,
    /// A name that only one process can have.
    _held: net::UnixListener,
}

/// Reserves the address of a cell; `None` if none is free.
pub(super) fn reserve() -> Option<Reserved> {
    (PORT..PORT + PORTS).find_map(|port| {
        let name = net::SocketAddr::from_abstract_name(format!("bourg-dns-{port}")).ok()?;
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
        let (one, other) = (reserve().expect("a port"), reserve().expect("another port"));
        assert_ne!(one.address, other.address);
        // What another program has is left alone.
        let taken = one.address;
        drop(one);
        let Ok(socket) = UdpSocket::bind(taken) else { return };
        let next = reserve().expect("a port");
        assert_ne!(next.address, taken);
        drop(socket);
    }
}
