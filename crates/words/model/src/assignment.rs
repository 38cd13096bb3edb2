//! What a scheduler decides.

use std::net::Ipv4Addr;

use crate::{InstanceId, MachineId};

/// A proposal: this incarnation of a task, on this machine, with these ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The instance to place.
    pub instance: InstanceId,
    /// The machine.
    pub machine: MachineId,
    /// The alloc on that machine, for a task of a job that runs in an alloc set.
    pub alloc: Option<InstanceId>,
    /// Its address, for a task with a network of its own that runs in no alloc.
    pub address: Option<Ipv4Addr>,
    /// Its ports, in the order of the port names in its description; none with a network of its
    /// own.
    pub ports: Vec<u16>,
    /// The instances to evict from the machine for it. It starts when they have ended.
    pub victims: Vec<InstanceId>,
}
