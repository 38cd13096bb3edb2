//! What the plan holds for a placed task until its outcome is known.

use std::collections::BTreeMap;
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
    /// Its static ports on the machine's address.
    pub(crate) static_ports: Vec<u16>,
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

/// What the plan takes of allocs, in addition to what the cell records.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedInAllocs(BTreeMap<InstanceId, PlannedInAlloc>);

/// What the plan takes of one alloc.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedInAlloc {
    tasks: u32,
    pub(crate) limits: Resources,
    /// Ports of the alloc's own network.
    pub(crate) ports: Vec<u16>,
}

impl PlannedInAllocs {
    /// What is planned in an alloc, if anything is.
    pub(crate) fn of(&self, alloc: InstanceId) -> Option<&PlannedInAlloc> {
        self.0.get(&alloc)
    }

    /// Reserves resources of an alloc for the plan.
    pub(crate) fn plan(&mut self, alloc: InstanceId, limit: Resources, ports: &[u16]) {
        let planned = self.0.entry(alloc).or_default();
        (planned.tasks, planned.limits) = (planned.tasks + 1, planned.limits.plus(limit));
        planned.ports.extend_from_slice(ports);
    }

    /// Releases them.
    pub(crate) fn unplan(&mut self, alloc: InstanceId, limit: Resources, ports: &[u16]) {
        if let Some(planned) = self.0.get_mut(&alloc) {
            let tasks = planned.tasks.saturating_sub(1);
            (planned.tasks, planned.limits) = (tasks, planned.limits.minus(limit));
            planned.ports.retain(|port| !ports.contains(port));
            if tasks == 0 {
                self.0.remove(&alloc);
            }
        }
    }
}
