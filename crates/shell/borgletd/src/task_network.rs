//! Networks of tasks' own on this machine: what the host needs for them, and which network a task
//! has.

use std::net::Ipv4Addr;
use std::thread;

use anyhow::{Context, ensure};
use borglet::Desired;
use linux::Isolation;
use linux::network::{self, Network};
use model::Subnet;

use super::tasks::Files;

/// Prepares this machine for tasks with addresses of a range, or says why it cannot have them.
pub(crate) fn prepare(range: Subnet, isolation: Isolation) -> anyhow::Result<()> {
    ensure!(
        isolation == Isolation::Jail,
        "--task-network {range} needs a Borglet that runs as root: start it with sudo, or without \
         this flag"
    );
    let forwarding = network::enable_forwarding();
    forwarding.context(
        "--task-network needs the kernel to route between networks: sudo sysctl net.ipv4.ip_forward=1",
    )?;
    // The first address of the range, which no task has.
    let (address, gateway) = (range.network(), range.gateway());
    let tried = Network { address, gateway, of_alloc: None };
    // A thread of its own, because it changes its network for a moment.
    let tried = thread::spawn(move || network::try_out(&tried)).join();
    let tried = tried.map_err(|_| anyhow::anyhow!("the thread that tries it panicked"))?;
    tried.context("this machine cannot have --task-network: its kernel lacks veth, or forbids it")
}

/// Whether this host can run tasks with networks of their own, with addresses of a range.
#[must_use]
pub fn is_possible(range: Subnet) -> bool {
    let isolation = linux::machine::preflight();
    isolation.is_ok_and(|isolation| prepare(range, isolation).is_ok())
}

impl Files {
    /// The network with an address of this machine's range.
    pub(crate) fn network(&self, address: Ipv4Addr) -> anyhow::Result<Network> {
        let range = self.task_network.with_context(|| {
            format!("its address is {address}, but this Borglet runs without --task-network now")
        })?;
        ensure!(
            range.is_of_task(address),
            "its address is {address}, but this Borglet runs with --task-network {range} now"
        );
        Ok(Network { address, gateway: range.gateway(), of_alloc: None })
    }

    /// The network of a task, if it is not the host's.
    pub(crate) fn network_of(&self, desired: &Desired) -> anyhow::Result<Option<Network>> {
        let Some(address) = desired.address else { return Ok(None) };
        let of_alloc = desired.alloc.map(|alloc| self.alloc_network(alloc)).transpose()?;
        Ok(Some(Network { of_alloc, ..self.network(address)? }))
    }
}
