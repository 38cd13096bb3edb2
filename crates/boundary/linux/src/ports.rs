//! Which processes hold which TCP ports of this machine.
//!
//! The kernel is queried over netlink (`sock_diag(7)`), which lists the sockets of a few ports
//! without reading every connection; then `/proc` shows which process has such a socket open. The
//! first step is cheap. The second visits all processes, newest first, until all holders are found.
//!
//! Not here: which ports a task may hold, and what happens to a task that holds another one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::libc::{AF_INET, AF_INET6, IPPROTO_TCP};
use nix::sys::socket::sockopt::SockType;
use nix::sys::socket::{
    self, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, getsockname, getsockopt, recv, send,
};

use crate::sock_diag::{self, MessageKind, REQUEST_AND_DUMP, message};
use crate::{process, sys};

/// A socket that holds a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// The port.
    pub port: u16,
    /// Its inode number, by which processes that have it open are found.
    pub inode: u32,
}

/// A process that has a socket open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// The name of its program, as the kernel reports it.
    pub name: String,
    /// Its control groups, as paths below the roots of their hierarchies; the unified one first.
    pub cgroups: Vec<String>,
}

/// States of a TCP socket, as bits of the query.
mod state {
    const CLOSE: u32 = 1 << 7;
    const LISTEN: u32 = 1 << 10;
    const TIME_WAIT: u32 = 1 << 6;
    /// A bound socket that neither listens nor is connected; since Linux 6.8, ignored before.
    const BOUND_INACTIVE: u32 = 1 << 13;
    /// States of sockets that hold a port without a connection.
    pub(super) const HOLDING: u32 = LISTEN | BOUND_INACTIVE | CLOSE;
    /// States of sockets that belong to a process.
    pub(super) const ANY: u32 = ((1 << 14) - 1) & !TIME_WAIT;
}

/// The maximum number of sockets read at once: more than one per port.
const SOCKETS_MAX: usize = 1 << 17;

/// The sockets that hold a port of a range without a connection: they listen, or are only bound, if
/// the kernel reports those (since Linux 6.8).
///
/// # Errors
/// When the kernel does not answer, for example without its module `tcp_diag`.
pub fn holding(range: RangeInclusive<u16>) -> io::Result<Vec<Socket>> {
    sockets(&range, state::HOLDING)
}

/// All sockets at a port, including connected ones.
///
/// # Errors
/// As [`holding`].
pub fn at(port: u16) -> io::Result<Vec<Socket>> {
    sockets(&(port..=port), state::ANY)
}

/// For each of these sockets a process that has it open; sockets without a known process are
/// omitted.
#[must_use]
pub fn holders(inodes: impl IntoIterator<Item = u32>) -> BTreeMap<u32, Process> {
    let mut wanted: BTreeSet<u32> = inodes.into_iter().collect();
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return found;
    }
    // Most requested sockets are new, and so are their processes.
    for pid in processes() {
        if wanted.is_empty() {
            break;
        }
        let inodes = open_sockets(pid).map(|(_, inode)| inode);
        let of_it: Vec<u32> = inodes.filter(|inode| wanted.remove(inode)).collect();
        if !of_it.is_empty() {
            let process = Process::read(pid);
            found.extend(of_it.into_iter().map(|inode| (inode, process.clone())));
        }
    }
    found
}

/// All processes, newest first.
#[must_use]
pub fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by_key(|pid| std::cmp::Reverse(*pid));
    pids
}

impl Process {
    /// Reads what `/proc` reports about a process; empty if it no longer exists.
    #[must_use]
    pub fn read(pid: i32) -> Self {
        let text = |file: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim_end().to_owned()
        };
        // `hierarchy:controllers:path`, where the unified one is 0 and has no controllers.
        let groups = text("cgroup");
        let mut groups: Vec<_> =
            groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
        groups.sort_by_key(|(controllers, _)| !controllers.is_empty());
        let cgroups = groups.into_iter().map(|(_, path)| path.to_owned()).collect();
        Self { pid, name: text("comm"), cgroups }
    }

    /// The most specific cgroup: the unified one, unless that is the root.
    #[must_use]
    pub fn cgroup(&self) -> &str {
        let mut below = self.cgroups.iter().filter(|path| *path != "/");
        below.next().map_or("/", String::as_str)
    }

    /// Whether any of its sockets has a port, connected or not: also detects what the kernel does
    /// not report, such as a bound port before Linux 6.8. It inspects each socket, which requires
    /// the right to trace the process.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        let Ok(process) = sys::pidfd_open(self.pid) else { return false };
        let has_port = |fd: RawFd| {
            let socket = sys::pidfd_getfd(process.as_fd(), fd).ok()?;
            let address = getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok()?;
            let own = address.as_sockaddr_in().map(SockaddrIn::port);
            let own = own.or_else(|| address.as_sockaddr_in6().map(SockaddrIn6::port));
            // Datagram ports are separate.
            let is_stream = getsockopt(&socket, SockType).ok()? == socket::SockType::Stream;
            Some(is_stream && own == Some(port))
        };
        open_sockets(self.pid).any(|(fd, _)| has_port(fd) == Some(true))
    }

    /// Its ancestors, nearest first; they may have changed by now.
    pub fn ancestors(&self) -> impl Iterator<Item = i32> + use<> {
        /// More than any meaningful chain.
        const MOST: usize = 1_024;
        let parent = |pid: &i32| process::parent(*pid).ok().filter(|parent| *parent > 0);
        std::iter::successors(parent(&self.pid), parent).take(MOST)
    }
}

/// The sockets that a process has open, with their descriptors; empty without permission.
fn open_sockets(pid: i32) -> impl Iterator<Item = (RawFd, u32)> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    })
}

fn sockets(range: &RangeInclusive<u16>, states: u32) -> io::Result<Vec<Socket>> {
    let kernel = sock_diag::open()?;
    let mut found = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let question = sock_diag::request(REQUEST_AND_DUMP, 0, &body(family, range, states));
        send(kernel.as_raw_fd(), &question, MsgFlags::empty())?;
        answers(&kernel, &mut found)?;
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The bytes of `struct inet_diag_req_v2`, and a filter by port.
fn body(family: i32, range: &RangeInclusive<u16>, states: u32) -> Vec<u8> {
    const INET_DIAG_REQ_BYTECODE: u16 = 1;
    /// The filter's operations "at least" and "at most"; each has one jump for true and one for
    /// false, and a jump past the end rejects the socket.
    const S_GE: u8 = 2;
    const S_LE: u8 = 3;
    let mut filter = Vec::new();
    for (operation, port, beyond) in [(S_GE, *range.start(), 20_u16), (S_LE, *range.end(), 12)] {
        filter.extend([operation, 8]);
        filter.extend(beyond.to_ne_bytes());
        filter.extend([0, 0]);
        filter.extend(port.to_ne_bytes());
    }
    let mut body = vec![family.to_le_bytes()[0], IPPROTO_TCP.to_le_bytes()[0], 0, 0];
    body.extend(states.to_ne_bytes());
    // The address of a single socket, which is not used.
    body.extend([0; 48]);
    let length = |of: usize| u16::try_from(of).unwrap_or(u16::MAX).to_ne_bytes();
    body.extend(length(filter.len() + 4));
    body.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
    body.extend(filter);
    body
}

/// Reads messages until the last.
fn answers(kernel: &OwnedFd, found: &mut Vec<Socket>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = recv(kernel.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some(message) = message(rest) {
            match message.kind {
                MessageKind::Done => return Ok(()),
                MessageKind::Error(code) => return Err(io::Error::from_raw_os_error(code)),
                MessageKind::Socket if found.len() < SOCKETS_MAX => {
                    found.extend(read(message.body));
                }
                MessageKind::Socket | MessageKind::Other => {}
            }
            rest = message.more;
        }
    }
}

/// Reads `struct inet_diag_msg`. Sockets without an inode have no process.
fn read(body: &[u8]) -> Option<Socket> {
    let port = u16::from_be_bytes(*body.get(4..)?.first_chunk()?);
    let inode = u32::from_ne_bytes(*body.get(68..)?.first_chunk()?);
    (inode > 0).then_some(Socket { port, inode })
}
