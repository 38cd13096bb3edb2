//! Hosts with a network namespace each, on one bridge, and cuts between them.
//!
//! The thread that creates the network leaves the machine's: it and what it starts from then on are
//! the hub, which reaches every host. A cut is a neighbour entry with an unused address: packets to
//! it are silently lost. No address and no name of the machine's own network is used, and a
//! namespace disappears with its last process.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use nix::mount::MsFlags;
use nix::sched::CloneFlags;

use crate::eventually::until;

/// A host, by the last byte of its address.
pub(crate) type Host = u8;

/// The test itself, with its clients.
pub(crate) const HUB: Host = 254;

/// The hosts, and the cuts between them.
pub(crate) struct Network {
    /// The processes that keep each host's namespace.
    hosts: BTreeMap<Host, Child>,
    cuts: BTreeSet<(Host, Host)>,
}

/// The address of a host.
pub(crate) fn address(host: Host) -> String {
    format!("10.0.0.{host}")
}

fn hardware(host: Host) -> String {
    format!("02:00:00:00:00:{host:02x}")
}

/// An unused hardware address.
const NOBODY: &str = "02:00:00:00:ff:ff";

impl Network {
    /// Makes this thread the hub of a network without hosts, in its own mount namespace.
    pub(crate) fn new() -> Self {
        let own = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
        nix::sched::unshare(own).expect("root can have a network of its own");
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .expect("mounts can be private");
        let network = Self { hosts: BTreeMap::new(), cuts: BTreeSet::new() };
        network.ip(
            HUB,
            &format!(
                "link set lo up\n\
                 link add br0 address {} type bridge\n\
                 addr add {}/24 dev br0\n\
                 link set br0 up\n",
                hardware(HUB),
                address(HUB)
            ),
        );
        network
    }

    /// Adds a host that reaches the hub and all others.
    pub(crate) fn add(&mut self, host: Host) {
        let mut keeper = Command::new("unshare");
        keeper.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let keeper = keeper.spawn().expect("unshare can be started");
        let pid = keeper.id();
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let own = namespace("thread-self");
        until("the host has a network of its own", || {
            namespace(&pid.to_string()).is_some_and(|its| Some(its) != own)
        });
        let before: Vec<Host> = self.hosts.keys().copied().chain([HUB]).collect();
        self.hosts.insert(host, keeper);
        self.ip(
            HUB,
            &format!(
                "link add host{host} type veth peer name eth0 address {} netns {pid}\n\
                 link set host{host} master br0\n\
                 link set host{host} up\n",
                hardware(host)
            ),
        );
        let its_own =
            format!("link set lo up\naddr add {}/24 dev eth0\nlink set eth0 up\n", address(host));
        self.ip(host, &its_own);
        for other in before {
            self.reaches(host, other, true);
            self.reaches(other, host, true);
        }
    }

    /// The arguments of `nsenter` to run something on a host.
    pub(crate) fn on(&self, host: Host) -> String {
        let keeper = self.hosts.get(&host).expect("there is such a host");
        format!("--net=/proc/{}/ns/net", keeper.id())
    }

    /// Drops everything from one host to another from now on.
    pub(crate) fn cut(&mut self, from: Host, to: Host) {
        if from != to && self.cuts.insert((from, to)) {
            self.reaches(from, to, false);
        }
    }

    /// Removes all cuts.
    pub(crate) fn heal(&mut self) {
        for (from, to) in std::mem::take(&mut self.cuts) {
            self.reaches(from, to, true);
        }
    }

    fn reaches(&self, from: Host, to: Host, reaches: bool) {
        let device = if from == HUB { "br0" } else { "eth0" };
        let hardware = if reaches { hardware(to) } else { NOBODY.to_owned() };
        let to = address(to);
        let line = format!("neigh replace {to} lladdr {hardware} dev {device} nud permanent\n");
        self.ip(from, &line);
    }

    /// Runs `ip` on a host.
    fn ip(&self, host: Host, lines: &str) {
        let mut command = match host {
            HUB => Command::new("ip"),
            host => {
                let mut there = Command::new("nsenter");
                there.arg(self.on(host)).arg("ip");
                there
            }
        };
        command.args(["-batch", "-"]).stdin(Stdio::piped());
        let mut ip = command.spawn().expect("ip can be started");
        let mut input = ip.stdin.take().expect("it reads");
        input.write_all(lines.as_bytes()).expect("it reads");
        drop(input);
        assert!(ip.wait().expect("it ends").success(), "on {host}:\n{lines}");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for keeper in self.hosts.values_mut() {
            let _gone = keeper.kill();
            let _status = keeper.wait();
        }
    }
}
