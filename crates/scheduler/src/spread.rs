//! Where the tasks of a job are: on how many machines, racks, switches and power domains how many.

use std::collections::BTreeMap;

use cell::feasibility::Beside;
use cell::{Job, TaskState};

use crate::machines::{Machines, NOWHERE, Slot};
use crate::score::share_lost;

/// Where the tasks of one job are, those included that are planned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    tasks: u32,
    machines: BTreeMap<Slot, u32>,
    racks: BTreeMap<u32, u32>,
    powers: BTreeMap<u32, u32>,
    switches: BTreeMap<u32, u32>,
}

impl Spread {
    /// Of a job's tasks that are placed.
    pub(crate) fn of(job: &Job, machines: &Machines) -> Self {
        let mut spread = Self { tasks: job.spec.tasks, ..Self::default() };
        if job.running() == 0 {
            return spread;
        }
        for (_, task) in job.tasks() {
            if let TaskState::Running(placement) = &task.state
                && let Some(slot) = machines.slot(placement.machine)
            {
                spread.add(machines, slot);
            }
        }
        spread
    }

    /// One task more.
    pub(crate) fn add(&mut self, machines: &Machines, slot: Slot) {
        *self.machines.entry(slot).or_default() += 1;
        for (counts, domain) in [
            (&mut self.racks, machines.rack(slot)),
            (&mut self.powers, machines.power(slot)),
            (&mut self.switches, machines.switch(slot)),
        ] {
            if domain != NOWHERE {
                *counts.entry(domain).or_default() += 1;
            }
        }
    }

    /// How many are on a machine and at its switch.
    pub(crate) fn beside(&self, machines: &Machines, slot: Slot) -> Beside {
        let count = |counts: &BTreeMap<u32, u32>, at| counts.get(&at).copied().unwrap_or(0);
        Beside {
            machine: count(&self.machines, slot),
            switch: count(&self.switches, machines.switch(slot)),
        }
    }

    /// The shares of the job that are on a machine, in its rack and on its power domain already.
    pub(crate) fn shares(&self, machines: &Machines, slot: Slot) -> [u32; 3] {
        let share = |counts: &BTreeMap<u32, u32>, at| {
            share_lost(counts.get(&at).copied().unwrap_or(0), self.tasks)
        };
        [
            share(&self.machines, slot),
            share(&self.racks, machines.rack(slot)),
            share(&self.powers, machines.power(slot)),
        ]
    }
}
