//! Orders: which instances a machine should run, from the cell's state.

use std::sync::Arc;

use borglet::{Desired, DesiredAlloc, Order};
use cell::{Cell, Job, Placement};
use model::{InstanceId, MachineId, Stamp};
use spec::TaskSpec;

/// The order for a machine: every instance placed on it that is not to be killed, allocs and tasks
/// separately.
pub(crate) fn for_machine(cell: &Cell, machine: MachineId, stamp: Stamp) -> Order {
    let mut order = Order { stamp, ..Order::default() };
    let instances = cell.machine(machine).map(|machine| machine.instances()).unwrap_or_default();
    for instance in instances {
        let Some((job, placement)) = placed(cell, *instance) else { continue };
        if job.spec.kind.is_alloc_set() {
            order.allocs.extend(alloc(cell, *instance, job, placement));
        } else {
            order.tasks.extend(task(cell, *instance, job, placement));
        }
    }
    order
}

/// An instance that should be on its machine.
fn placed(cell: &Cell, instance: InstanceId) -> Option<(&Job, &Placement)> {
    let placement = cell.placement(instance)?;
    placement.stop.is_none().then_some((cell.job(instance.collection)?, placement))
}

fn alloc(
    cell: &Cell,
    instance: InstanceId,
    job: &Job,
    placement: &Placement,
) -> Option<DesiredAlloc> {
    Some(DesiredAlloc {
        instance,
        cell: cell.name()?.clone(),
        user: job.owner.clone(),
        name: job.spec.name.clone(),
        priority: job.spec.priority,
        limit: described(cell, instance, job, placement).limit,
    })
}

fn task(cell: &Cell, instance: InstanceId, job: &Job, placement: &Placement) -> Option<Desired> {
    let names = job.ports(instance.index);
    Some(Desired {
        instance,
        alloc: placement.alloc(),
        cell: cell.name()?.clone(),
        user: job.owner.clone(),
        job: job.spec.name.clone(),
        priority: job.spec.priority,
        appclass: job.spec.appclass,
        spec: Arc::new(described(cell, instance, job, placement)),
        ports: names.iter().cloned().zip(placement.ports.iter().copied()).collect(),
    })
}

/// The specification with the limit in the machine's own cores; the cell counts in normalized
/// cores.
fn described(cell: &Cell, instance: InstanceId, job: &Job, placement: &Placement) -> TaskSpec {
    let mut spec = job.spec.task(instance.index).into_owned();
    if let Some(machine) = cell.machine(placement.machine) {
        spec.limit.cpu = machine.gcu().physical(spec.limit.cpu);
    }
    spec
}
