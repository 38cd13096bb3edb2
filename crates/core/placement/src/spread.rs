//! The distribution of a job's tasks over machines, racks, switches and power domains.

use std::collections::BTreeMap;

use cell::feasibility::Colocated;
use cell::{Job, TaskState};

use crate::machines::{Machines, NOWHERE, Slot};
use crate::score::{Weights, share_lost};

/// Where the tasks of one job are, planned ones included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    tasks: u32,
    machines: BTreeMap<Slot, u32>,
    racks: Counts,
    powers: Counts,
    switches: Counts,
}

/// Number of tasks in each domain of a kind: a list while there are few, indexed after that.
#[derive(Clone, Debug, Default)]
struct Counts {
    few: Vec<(u32, u32)>,
    many: Vec<u32>,
}

/// Maximum number of domains in a list.
const FEW: usize = 32;

impl Counts {
    fn get(&self, domain: u32) -> u32 {
        if !self.many.is_empty() {
            return self.many.get(domain as usize).copied().unwrap_or(0);
        }
        let found = self.few.iter().find(|(other, _)| *other == domain);
        found.map_or(0, |(_, count)| *count)
    }

    fn change(&mut self, domain: u32, change: impl FnOnce(u32) -> u32) {
        if domain == NOWHERE {
            return;
        }
        if self.many.is_empty() {
            if let Some((_, count)) = self.few.iter_mut().find(|(other, _)| *other == domain) {
                *count = change(*count);
                return;
            }
            if self.few.len() < FEW {
                self.few.push((domain, change(0)));
                return;
            }
            for (domain, count) in std::mem::take(&mut self.few) {
                *self.numbered(domain) = count;
            }
        }
        let count = self.numbered(domain);
        *count = change(*count);
    }

    fn numbered(&mut self, domain: u32) -> &mut u32 {
        let at = domain as usize;
        if self.many.len() <= at {
            self.many.resize(at + 1, 0);
        }
        &mut self.many[at]
    }
}

impl Spread {
    /// The distribution of a job's placed tasks.
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

    /// Adds a task.
    pub(crate) fn add(&mut self, machines: &Machines, slot: Slot) {
        *self.machines.entry(slot).or_default() += 1;
        let more = |count: u32| count.saturating_add(1);
        self.racks.change(machines.rack(slot), more);
        self.powers.change(machines.power(slot), more);
        self.switches.change(machines.switch(slot), more);
    }

    /// Removes a task.
    pub(crate) fn remove(&mut self, machines: &Machines, slot: Slot) {
        let less = |count: u32| count.saturating_sub(1);
        if let Some(count) = self.machines.get_mut(&slot) {
            *count = less(*count);
        }
        self.racks.change(machines.rack(slot), less);
        self.powers.change(machines.power(slot), less);
        self.switches.change(machines.switch(slot), less);
    }

    /// Number of tasks on a machine and at its switch.
    pub(crate) fn colocated(&self, machines: &Machines, slot: Slot) -> Colocated {
        Colocated {
            machine: self.machines.get(&slot).copied().unwrap_or(0),
            switch: self.switches.get(machines.switch(slot)),
        }
    }

    /// The shares of the job already on a machine, in its rack and on its power domain.
    pub(crate) fn shares(&self, machines: &Machines, slot: Slot) -> [u32; 3] {
        let share = |count| share_lost(count, self.tasks);
        [
            share(self.machines.get(&slot).copied().unwrap_or(0)),
            share(self.racks.get(machines.rack(slot))),
            share(self.powers.get(machines.power(slot))),
        ]
    }

    /// What its rack and its power domain add to the score of a machine.
    pub(crate) fn of_domains(&self, machines: &Machines, slot: Slot, weights: &Weights) -> u32 {
        let share = |count, weight: u32| match count {
            0 => 0,
            count => share_lost(count, self.tasks).saturating_mul(weight),
        };
        let rack = share(self.racks.get(machines.rack(slot)), weights.spread_rack);
        let power = share(self.powers.get(machines.power(slot)), weights.spread_power);
        rack.saturating_add(power)
    }
}
