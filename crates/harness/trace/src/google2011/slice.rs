//! One twenty-fifth of the real cell, embedded in this crate: for tests, and for users without the
//! full trace.
//!
//! It contains every twenty-fifth machine, selected by a hash of its id, with all tasks that run
//! there at time 0; every twenty-fifth of all other tasks (pending at time 0, or submitted later);
//! all rows of these tasks in the trace's first 83 minutes, and all removals of these machines,
//! unchanged. `data/google2011/README.md` describes its licence and how it is made.

use model::{CollectionId, MachineId, Random, TaskIndex};

use super::{Scale, Trace};
use crate::packed::unpacked;

/// The slice contains one in this many machines and tasks.
const OF: u64 = 25;

const MACHINES: &[u8] = include_bytes!("../../data/google2011/machines-merged.csv.gz");
const REMOVALS: &[u8] = include_bytes!("../../data/google2011/machine_remove_events.csv.gz");
const TASK_EVENTS: &[u8] = include_bytes!("../../data/google2011/task_events.csv.gz");

/// Whether a machine is in the slice.
#[must_use]
pub fn has_machine(id: MachineId) -> bool {
    Random::mixed(id.0).is_multiple_of(OF)
}

/// Whether a task without a machine at time 0 is in the slice.
#[must_use]
pub fn has_task(job: CollectionId, index: TaskIndex) -> bool {
    Random::mixed(Random::mixed(job.0) ^ u64::from(index.0)).is_multiple_of(OF)
}

/// Reads the slice.
///
/// # Panics
/// When the embedded files are invalid; the tests of this crate read them.
#[must_use]
pub fn read(scale: Scale) -> Trace {
    let [machines, removals, task_events] = [MACHINES, REMOVALS, TASK_EVENTS].map(unpacked);
    Trace::read(scale, &machines[..], &removals[..], &task_events[..])
        .unwrap_or_else(|error| unreachable!("the slice is part of the program: {error}"))
}
