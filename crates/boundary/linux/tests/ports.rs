//! Holders of ports, as reported by the real kernel. A kernel without `tcp_diag`, as in the
//! emulated machine, cannot report them, so this is separate from the tests with tasks.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use linux::ports::{Socket, at, holders, holding};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, bind, getsockname, socket};

/// Which of some sockets a descriptor of this process refers to.
fn find(sockets: &[Socket], descriptor: &impl AsRawFd) -> Option<Socket> {
    let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let link = std::fs::read_link(link).expect("it is open").to_string_lossy().into_owned();
    let mut sockets = sockets.iter().copied();
    sockets.find(|socket| link == format!("socket:[{}]", socket.inode))
}

/// The socket that a descriptor refers to, which holds a port. Another process may hold the port at
/// another address.
#[track_caller]
fn is_held_by(port: u16, descriptor: &impl AsRawFd) -> Socket {
    let held = holding(port..=port).expect("the kernel answers");
    find(&held, descriptor).unwrap_or_else(|| panic!("port {port} is held by {held:?} alone"))
}

/// A socket that is bound to a port and does not listen.
fn bound() -> (u16, impl AsRawFd) {
    let socket = socket(AddressFamily::Inet6, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .expect("a socket");
    bind(socket.as_raw_fd(), &"[::1]:0".parse::<SockaddrIn6>().expect("an address"))
        .expect("some port is free");
    let address: SockaddrIn6 = getsockname(socket.as_raw_fd()).expect("it is bound");
    (address.port(), socket)
}

#[test]
fn a_listening_socket_is_found_with_its_process() {
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        let listener = TcpListener::bind(address).expect("some port is free");
        let port = listener.local_addr().expect("an address").port();
        let socket = is_held_by(port, &listener);
        let found = holders([socket.inode]);
        let process = found.get(&socket.inode).expect("it is this one");
        assert_eq!(process.pid, i32::try_from(std::process::id()).expect("a pid"), "{address}");
        let comm = std::fs::read_to_string("/proc/self/comm").expect("/proc is mounted");
        assert_eq!(process.name, comm.trim_end());
        let cgroups = std::fs::read_to_string("/proc/self/cgroup").expect("/proc is mounted");
        assert!(cgroups.lines().any(|line| line.ends_with(process.cgroup())), "{process:?}");
        assert_eq!(process.cgroups.len(), cgroups.lines().count());
        let parent = i32::try_from(std::os::unix::process::parent_id()).expect("a pid");
        assert_eq!(process.ancestors().next(), Some(parent));
        drop(listener);
        assert!(!holding(port..=port).expect("the kernel answers").contains(&socket));
    }
}

/// Whether this kernel reports ports that are bound by a socket which neither listens nor is
/// connected.
fn tells_of_bound() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(8))
}

#[test]
fn a_bound_socket_is_found_where_the_kernel_reports_it() {
    let (port, socket) = bound();
    match tells_of_bound() {
        true => assert_eq!(is_held_by(port, &socket).port, port),
        false => assert_eq!(find(&holding(port..=port).expect("it answers"), &socket), None),
    }
}

#[test]
fn ports_bound_by_a_process_are_found_on_every_kernel() {
    let own = linux::ports::Process::read(i32::try_from(std::process::id()).expect("a pid"));
    let (port, _socket) = bound();
    let listener = TcpListener::bind("0.0.0.0:0").expect("some port is free");
    let listening = listener.local_addr().expect("an address").port();
    let datagrams = std::net::UdpSocket::bind("0.0.0.0:0").expect("some port is free");
    let other = datagrams.local_addr().expect("an address").port();
    assert!(own.has_port(port) && own.has_port(listening));
    assert!([port, listening].contains(&other) || !own.has_port(other));
    drop(listener);
    assert!(!own.has_port(listening));
    assert!(linux::ports::processes().contains(&own.pid));
}

#[test]
fn a_connection_holds_no_port_unless_all_of_it_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let there = listener.local_addr().expect("an address");
    let client = TcpStream::connect(there).expect("it listens");
    let here = client.local_addr().expect("an address").port();
    assert_eq!(find(&holding(here..=here).expect("the kernel answers"), &client), None);
    let socket = find(&at(here).expect("the kernel answers"), &client).expect("it is connected");
    assert!(holders([socket.inode]).contains_key(&socket.inode));
    is_held_by(there.port(), &listener);
}

#[test]
fn an_unopened_socket_has_no_holder() {
    assert!(holders([u32::MAX]).is_empty() && holders([]).is_empty());
}
