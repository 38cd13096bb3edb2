//! What the plan holds for a placed task until its outcome is known.

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
    pub(crate) ports: Vec<u16>,
    pub(crate) victims: Vec<InstanceId>,
}

impl Planned {
    pub(crate) fn assignment(&self, instance: InstanceId) -> Assignment {
        let (ports, victims) = (self.ports.clone(), self.victims.clone());
        let alloc = self.alloc.map(|(alloc, _)| alloc);
        Assignment { instance, alloc, machine: self.machine, ports, victims }
    }
}
