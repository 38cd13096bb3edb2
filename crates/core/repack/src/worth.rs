//! What a placed task is worth, and what it costs to move one: in thousandths of the largest machine, by priority.

use cell::{Cell, Job};
use model::{Appclass, Dimension, Resources, Span, TaskIndex};

/// What is added to a priority, so that a task of priority 0 is worth something.
const BASE: u64 = 100;
/// The run time after which a batch task is taken to lose everything by a restart.
const WHOLE_RUN: Span = Span::from_secs(4 * 3_600);

/// The largest amount of each resource that a machine of a cell has.
pub(crate) fn largest(cell: &Cell) -> Resources {
    cell.machines().fold(Resources::default(), |most, machine| most.most(machine.capacity()))
}

/// The largest share of an amount in thousandths: at least 1.
pub(crate) fn share(amount: Resources, largest: Resources) -> u64 {
    let of = |dimension: Dimension| match largest.get(dimension) {
        0 => 0,
        most => amount.get(dimension).saturating_mul(1_000) / most,
    };
    Dimension::ALL.into_iter().map(of).max().unwrap_or(0).max(1)
}

/// What a task is worth while it is placed.
pub(crate) fn of_task(job: &Job, index: TaskIndex, largest: Resources) -> u64 {
    let demand = job.demand(index);
    let priority = u64::from(job.described(index).priority.number());
    share(demand.limit.most(demand.reservation), largest) * (BASE + priority)
}

/// What an empty machine is worth: a task of its size, of the lowest priority.
pub(crate) fn of_machine(capacity: Resources, largest: Resources) -> u64 {
    share(capacity, largest) * BASE
}

/// What moving a task costs that has been on its machine for so long: half of what it is worth if it is
/// latency-sensitive. A batch task loses its progress: from a quarter of that to all of it.
pub(crate) fn of_move(job: &Job, index: TaskIndex, ran: Span, largest: Resources) -> u64 {
    let percent = match job.described(index).appclass {
        Appclass::LatencySensitive => 50,
        Appclass::Batch => 25 + 75 * ran.0.min(WHOLE_RUN.0) / WHOLE_RUN.0,
    };
    (of_task(job, index, largest).saturating_mul(percent) / 100).max(1)
}
