//! What the plan holds for a task that is placed, until it is heard about.

use cell::{Assignment, Demand};
use model::{InstanceId, MachineId, Resources};

use crate::machines::Slot;

/// What is planned for a task, and not yet heard about.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) slot: Slot,
    pub(crate) machine: MachineId,
    /// In which alloc, and what it takes of that.
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
