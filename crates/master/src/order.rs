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
    if placement.killed_by.is_some() {
        return None;
    }
    let names = job.ports(instance.index);
    Some(Desired {
        instance,
        cell: cell.name()?.clone(),
        user: job.owner.clone(),
        job: job.spec.name.clone(),
        priority: job.spec.priority,
        appclass: job.spec.appclass,
        spec: Arc::new(job.spec.task(instance.index).into_owned()),
        ports: names.iter().cloned().zip(placement.ports.iter().copied()).collect(),
    })
}
