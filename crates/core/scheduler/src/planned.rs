//! What the plan holds for a placed task until its outcome is known.

use std::net::Ipv4Addr;

use cell::{Assignment, Demand};
use model::{InstanceId, MachineId, Resources};

use crate::machines::Slot;

/// The planned placement of a task whose outcome is not known yet.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) slot: Slot,
    pub(crate) machine: MachineId,
    /// The alloc, and what the task takes of it.
    pub(crate) alloc: Option<(InstanceId, Resources)>,
    pub(crate) demand: Demand,
    /// The address that it takes of the machine.
    pub(crate) address: Option<Ipv4Addr>,
    /// The ports that it takes of the machine.
    pub(crate) ports: Vec<u16>,
    /// Those that it takes of the alloc's own network.
    pub(crate) alloc_ports: Vec<u16>,
    pub(crate) victims: Vec<InstanceId>,
}

impl Planned {
    pub(crate) fn assignment(&self, instance: InstanceId) -> Assignment {
        let (ports, victims) = (self.ports.clone(), self.victims.clone());
        let alloc = self.alloc.map(|(alloc, _)| alloc);
        let (machine, address) = (self.machine, self.address);
        Assignment { instance, alloc, machine, address, ports, victims }
    }
}
