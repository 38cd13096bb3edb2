//! The leader's periodic work is a list of controllers: each compares the cell with what it should be
//! and proposes what is missing. They run one after the other in the order of the list, and none waits
//! for another: what one proposes in a turn is bounded by itself.
//!
//! To add one: a file here with its state and its [`Controller`], a field of [`Controllers`], and an
//! entry in [`Controllers::all`]; the test of the list wants to see it propose something.

mod dead_jobs;
mod drains;
mod inputs;
mod lock_sessions;
mod lost_machines;
mod short_machines;
mod surge;
mod updates;
mod volumes;

use std::fmt;

use cell::{Cell, Op};
use model::{MachineId, Time};

pub(crate) use dead_jobs::DeadJobs;
pub(crate) use drains::Drains;
pub(crate) use inputs::ChangedInputs;
pub(crate) use lock_sessions::LockSessions;
pub(crate) use lost_machines::LostMachines;
pub(crate) use short_machines::ShortMachines;
pub(crate) use updates::Updates;
pub(crate) use volumes::Volumes;

use crate::{Action, Settings};

/// What a controller has to go by in a turn, and where it puts what it wants.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    pub(crate) cell: &'a Cell,
    pub(crate) settings: &'a Settings,
    pub(crate) actions: &'a mut Vec<Action>,
}

/// One kind of periodic work. What it remembers is not part of the cell's state: a new leader begins
/// with nothing but the cell.
pub(crate) trait Controller: fmt::Debug {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// When it has something to do next, if nothing is heard or applied before.
    fn due(&self) -> Option<Time>;

    /// Does what is due. Called whenever something was heard or applied, and at the latest when it is
    /// due: often there is nothing to do.
    fn run(&mut self, turn: &mut Turn<'_>);

    /// An operation is applied; the sets of instances of `reordered` machines have changed.
    fn applied(&mut self, _now: Time, _cell: &Cell, _op: &Op, _reordered: &[MachineId]) {}
}

/// All controllers of a leader.
#[derive(Clone, Debug)]
pub(crate) struct Controllers {
    pub(crate) lost_machines: LostMachines,
    pub(crate) dead_jobs: DeadJobs,
    pub(crate) updates: Updates,
    pub(crate) drains: Drains,
    pub(crate) lock_sessions: LockSessions,
    pub(crate) short_machines: ShortMachines,
    pub(crate) volumes: Volumes,
    pub(crate) inputs: ChangedInputs,
}

impl Controllers {
    /// Those of one that leads from now on.
    pub(crate) fn new(now: Time, cell: &Cell) -> Self {
        Self {
            lost_machines: LostMachines::new(now, cell),
            dead_jobs: DeadJobs::new(now),
            updates: Updates::new(now),
            drains: Drains::new(now),
            lock_sessions: LockSessions::new(now),
            short_machines: ShortMachines::new(now, cell),
            volumes: Volumes::new(now),
            inputs: ChangedInputs::new(now),
        }
    }

    /// The list, in the order in which they run.
    pub(crate) fn all(&self) -> [&dyn Controller; 8] {
        let Self { lost_machines, dead_jobs, updates, drains, lock_sessions, .. } = self;
        let Self { short_machines, volumes, inputs, .. } = self;
        [lost_machines, dead_jobs, updates, drains, lock_sessions, short_machines, volumes, inputs]
    }

    /// The same, to run them.
    pub(crate) fn all_mut(&mut self) -> [&mut dyn Controller; 8] {
        let Self {
            lost_machines,
            dead_jobs,
            updates,
            drains,
            lock_sessions,
            short_machines,
            volumes,
            inputs,
        } = self;
        [lost_machines, dead_jobs, updates, drains, lock_sessions, short_machines, volumes, inputs]
    }
}
