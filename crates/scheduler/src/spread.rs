//! Where the tasks of a job are: on how many machines, racks, switches and power domains how many.

use std::collections::BTreeMap;

use cell::feasibility::Beside;
use cell::{Job, TaskState};

use crate::machines::{Machines, NOWHERE, Slot};
use crate::score::{Weights, share_lost};

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

    /// One task less.
    pub(crate) fn remove(&mut self, machines: &Machines, slot: Slot) {
        less(&mut self.machines, slot);
        less(&mut self.racks, machines.rack(slot));
        less(&mut self.powers, machines.power(slot));
        less(&mut self.switches, machines.switch(slot));
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

fn less(counts: &mut BTreeMap<u32, u32>, domain: u32) {
    if let Some(count) = counts.get_mut(&domain) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&domain);
        }
    }
}

/// What the racks and power domains of a job add to the scores of their machines, to be looked up by
/// domain while many machines are scanned.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainScores {
    racks: Vec<u32>,
    powers: Vec<u32>,
    /// Those that are not 0.
    used: [Vec<u32>; 2],
}

impl DomainScores {
    /// They are those of a job's tasks from here on.
    pub(crate) fn set(&mut self, spread: Option<&Spread>, weights: &Weights) {
        let of_racks = (&mut self.racks, weights.spread_rack);
        let of_powers = (&mut self.powers, weights.spread_power);
        let counts = spread.map(|spread| [&spread.racks, &spread.powers]);
        let tasks = spread.map_or(1, |spread| spread.tasks);
        for (number, (scores, weight)) in [of_racks, of_powers].into_iter().enumerate() {
            let used = &mut self.used[number];
            used.drain(..).for_each(|domain| scores[domain as usize] = 0);
            for (domain, count) in counts.into_iter().flat_map(|counts| counts[number]) {
                let score = share_lost(*count, tasks).saturating_mul(weight);
                if score > 0 {
                    if scores.len() <= *domain as usize {
                        scores.resize(*domain as usize + 1, 0);
                    }
                    scores[*domain as usize] = score;
                    used.push(*domain);
                }
            }
        }
    }

    pub(crate) fn are_empty(&self) -> bool {
        self.used.iter().all(Vec::is_empty)
    }

    /// What they add to the score of a machine.
    pub(crate) fn of(&self, machines: &Machines, slot: Slot) -> u32 {
        let of = |scores: &[u32], domain: u32| scores.get(domain as usize).copied().unwrap_or(0);
        of(&self.racks, machines.rack(slot)).saturating_add(of(&self.powers, machines.power(slot)))
    }
}
