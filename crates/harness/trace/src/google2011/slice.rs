//! A twenty-fifth of the real cell, which is part of this crate: for tests, and for whoever has not
//! got the whole.
//!
//! It has every twenty-fifth machine, chosen by a hash of its id, with all tasks that run on them at
//! time 0; of all other tasks (pending at time 0, or submitted later) every twenty-fifth; of these
//! tasks all rows of the trace's first 83 minutes, and of these machines all removals, as they are.
//! `data/google2011/README.md` says whose it is, and how it is made.

use model::{CollectionId, MachineId, Random, TaskIndex};

use super::{Scale, Whole};
use crate::packed::unpacked;

/// One of how many machines and tasks is in it.
const OF: u64 = 25;

const MACHINES: &[u8] = include_bytes!("../../data/google2011/machines-merged.csv.gz");
const REMOVALS: &[u8] = include_bytes!("../../data/google2011/machine_remove_events.csv.gz");
const TASK_EVENTS: &[u8] = include_bytes!("../../data/google2011/task_events.csv.gz");

/// Whether a machine is in the slice.
#[must_use]
pub fn has_machine(id: MachineId) -> bool {
    Random::mixed(id.0).is_multiple_of(OF)
}

/// Whether a task is in the slice that is on no machine at time 0.
#[must_use]
pub fn has_task(job: CollectionId, index: TaskIndex) -> bool {
    Random::mixed(Random::mixed(job.0) ^ u64::from(index.0)).is_multiple_of(OF)
}

/// The slice.
///
/// # Panics
/// Where the files of this crate are not what they were: its tests read them.
#[must_use]
pub fn read(scale: Scale) -> Whole {
    let [machines, removals, task_events] = [MACHINES, REMOVALS, TASK_EVENTS].map(unpacked);
    Whole::read(scale, &machines[..], &removals[..], &task_events[..])
        .unwrap_or_else(|error| unreachable!("the slice is part of the program: {error}"))
}
