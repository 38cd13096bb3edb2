//! Orders: what a machine is to run, from the cell's state.

use std::sync::Arc;

use borglet::{Desired, Order};
use cell::Cell;
use model::{InstanceId, MachineId, Stamp};

/// The order for a machine: every instance placed on it that nobody has killed.
pub(crate) fn for_machine(cell: &Cell, machine: MachineId, stamp: Stamp) -> Order {
    let instances = cell.machine(machine).map(|machine| machine.instances()).unwrap_or_default();
    let tasks = instances.iter().filter_map(|instance| desired(cell, *instance)).collect();
    Order { stamp, tasks }
}

fn desired(cell: &Cell, instance: InstanceId) -> Option<Desired> {
    let job = cell.job(instance.collection)?;
    let placement = cell.placement(instance)?;
    if placement.stop.is_some() {
        return None;
    }
    let mut spec = job.spec.task(instance.index).into_owned();
    // The cell counts in normalised cores, the machine in its own.
    if let Some(machine) = cell.machine(placement.machine) {
        spec.limit.cpu = machine.gcu().physical(spec.limit.cpu);
    }
    let names = job.ports(instance.index);
    Some(Desired {
        instance,
        cell: cell.name()?.clone(),
        user: job.owner.clone(),
        job: job.spec.name.clone(),
        priority: job.spec.priority,
        appclass: job.spec.appclass,
        spec: Arc::new(spec),
        ports: names.iter().cloned().zip(placement.ports.iter().copied()).collect(),
    })
}
