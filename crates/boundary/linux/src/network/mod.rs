//! A network of a task's own: a network namespace with one address, which the host routes to over a
//! veth pair.
//!
//! ```text
//! namespace: lo, eth0 ADDRESS/32 ─ veth ─ bourg-XXXXXXXX GATEWAY/32 :host
//!            default via GATEWAY                         ADDRESS/32 is routed to it
//! ```
//!
//! Nothing has to be cleaned up: when the last process of a namespace has ended and nothing else
//! refers to it, the kernel removes it with both ends of its pair. The gateway's address is on the
//! host's end of every pair. A task's namespace is held by its processes alone; that of an alloc,
//! which has no process, by a mount in the alloc's directory.
//!
//! Not here: which task has which address.

mod rtnetlink;

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, fstatfs};
use serde::{Deserialize, Serialize};

use rtnetlink::{Netlink, is};

/// The name of the pair's end in the namespace.
const INSIDE: &str = "eth0";
/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;
/// The network namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
/// The kernel's switch for routing between interfaces.
const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// The type of the file system of namespaces.
const NSFS: FsType = FsType(0x6e73_6673);
/// How often a pair is tried whose name still belongs to an earlier namespace.
const ATTEMPTS_MAX: u32 = 8;

/// The network of a task, or of the tasks in an alloc.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its address.
    pub address: Ipv4Addr,
    /// The address of the host there.
    pub gateway: Ipv4Addr,
    /// The file that holds the namespace of the task's alloc; `None`: the task has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_alloc: Option<PathBuf>,
}

/// A network could not be made or entered.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} for the address {address}: {why}")]
pub struct NetworkError {
    step: &'static str,
    address: Ipv4Addr,
    why: io::Error,
}

/// Lets the kernel route between the tasks' networks and the rest.
///
/// # Errors
/// When that is not allowed, as in some containers.
pub fn enable_forwarding() -> io::Result<()> {
    if fs::read_to_string(IP_FORWARD)?.trim() == "1" {
        return Ok(());
    }
    fs::write(IP_FORWARD, "1")
}

/// Makes a network as it would be for a task, and removes it again: whether this machine can have
/// task networks. Needs a thread of its own.
///
/// # Errors
/// What the kernel rejects.
pub fn try_out(network: &Network) -> Result<(), NetworkError> {
    network.make()?;
    network.remove();
    Ok(())
}

impl Network {
    /// The name of the pair's end on the host: `bourg-` and the address in hexadecimal digits.
    #[must_use]
    pub fn interface(&self) -> String {
        format!("bourg-{:08x}", self.address.to_bits())
    }

    /// The namespace for a task that is about to start: a new one, or that of its alloc.
    pub(crate) fn open(&self) -> Result<OwnedFd, NetworkError> {
        match &self.of_alloc {
            None => self.make(),
            Some(path) => namespace_at(path).map_err(self.step("open the network of its alloc")),
        }
    }

    /// Makes a namespace that lives as long as something refers to it.
    ///
    /// The calling thread is in the new namespace for a moment. If it cannot return, which only a
    /// lack of memory could cause, the error says so, and the thread must not be used any further.
    fn make(&self) -> Result<OwnedFd, NetworkError> {
        let say = |step| self.step(step);
        let host = File::open(OWN_NAMESPACE).map_err(say("open the host's network"))?;
        let mut of_host = Netlink::open().map_err(say("ask for network interfaces"))?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(self.step("make a network namespace"))?;
        let inside = || -> Result<_, NetworkError> {
            let own = File::open(OWN_NAMESPACE).map_err(say("open the new network"))?;
            let own_link = Netlink::open().map_err(say("ask for interfaces of the new network"))?;
            // Its ports are its own, the low ones too.
            let low = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
            fs::write(low, "0").map_err(say("open the low ports"))?;
            // Of the interfaces that are added, not of loopback.
            without_ipv6("default").map_err(say("switch off IPv6"))?;
            Ok((own, own_link))
        };
        let made = inside();
        setns(&host, CloneFlags::CLONE_NEWNET)
            .map_err(self.step("return to the host's network"))?;
        let (own, mut of_task) = made?;
        self.connect(&mut of_host, &mut of_task, &own)?;
        Ok(own.into())
    }

    /// Connects the host and a namespace.
    fn connect(
        &self,
        of_host: &mut Netlink,
        of_task: &mut Netlink,
        own: &File,
    ) -> Result<(), NetworkError> {
        let say = |step| self.step(step);
        let name = self.interface();
        let mut attempt = 0;
        loop {
            attempt += 1;
            match of_host.add_veth(&name, INSIDE, own.as_raw_fd()) {
                // An earlier network with this address whose namespace is about to go.
                Err(error) if is(&error, libc::EEXIST) && attempt < ATTEMPTS_MAX => {
                    of_host.remove(&name).map_err(say("remove an old pair of interfaces"))?;
                }
                made => break made.map_err(say("make a pair of interfaces"))?,
            }
        }
        let inside = of_task.index(INSIDE).map_err(say("find the task's interface"))?;
        // Before they are on, so that no packet passes.
        without_ipv6(&name).map_err(say("switch off IPv6 at the host's interface"))?;
        check_sources(&name).map_err(say("have the task's address checked"))?;
        of_task.set_up(LOOPBACK).map_err(say("switch on the loopback interface"))?;
        of_task.add_address(inside, self.address).map_err(say("set the task's address"))?;
        of_task.set_up(inside).map_err(say("switch on the task's interface"))?;
        let outside = of_host.index(&name).map_err(say("find the host's interface"))?;
        of_host.add_address(outside, self.gateway).map_err(say("set the gateway's address"))?;
        of_host.set_up(outside).map_err(say("switch on the host's interface"))?;
        of_host.add_route(outside, self.address).map_err(say("route to the task"))?;
        of_task.add_default_route(inside, self.gateway).map_err(say("route from the task"))
    }

    /// Removes the interfaces of a namespace whose tasks have ended, and which connections that are
    /// not quite closed may keep for a while.
    pub(crate) fn remove(&self) {
        let removed = Netlink::open().and_then(|mut of_host| of_host.remove(&self.interface()));
        // The kernel does it, too, only later.
        drop(removed);
    }

    /// Makes a namespace that lives until [`unmount`], if there is none at `path` yet. Needs a thread
    /// of its own.
    pub(crate) fn mount(&self, path: &Path) -> Result<(), NetworkError> {
        if is_mounted(path) {
            return Ok(());
        }
        let own = self.make()?;
        File::create(path).map_err(self.step("make a file for the network"))?;
        let source = format!("/proc/self/fd/{}", own.as_raw_fd());
        let none: Option<&str> = None;
        mount(Some(source.as_str()), path, none, MsFlags::MS_BIND, none)
            .map_err(self.step("hold the network"))
    }

    fn step<E: Into<io::Error>>(&self, step: &'static str) -> impl Fn(E) -> NetworkError + use<E> {
        let address = self.address;
        move |error| NetworkError { step, address, why: error.into() }
    }
}

/// Lets an interface of the thread's namespace have no IPv6 address. Tasks have IPv4 addresses only: with one
/// of IPv6 for the link a task would reach what the host serves at every address, past its firewall.
fn without_ipv6(interface: &str) -> io::Result<()> {
    set(&format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"))
}

/// Has the kernel drop packets from an interface whose source is not routed to it: those of a task with
/// `net-raw` that claim to be another's.
fn check_sources(interface: &str) -> io::Result<()> {
    set(&format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter"))
}

/// Switches something on that a kernel may lack.
fn set(path: &str) -> io::Result<()> {
    match fs::write(path, "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// Whether a file holds a namespace. After a reboot it exists and holds none.
pub(crate) fn is_mounted(path: &Path) -> bool {
    namespace_at(path).is_ok()
}

fn namespace_at(path: &Path) -> io::Result<OwnedFd> {
    let file = File::open(path)?;
    match fstatfs(&file)?.filesystem_type() {
        NSFS => Ok(file.into()),
        _ => Err(io::Error::other(format!("{} holds none", path.display()))),
    }
}

/// Lets go of the namespace at `path`, if there is one.
///
/// # Errors
/// When the kernel returns an error.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // Nothing is mounted there, or there is nothing.
        Ok(()) | Err(nix::Error::EINVAL | nix::Error::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves this process into a namespace.
pub(crate) fn enter(namespace: &OwnedFd) -> io::Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}
