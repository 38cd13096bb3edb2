//! A machine of the replay: what is placed on it, by the production rule of feasibility, and which
//! tasks are killed when its memory is short.

use std::sync::Arc;

use cell::feasibility::{self, Offer, Request, Sums};
use cell::{Demand, MachineState};
use model::{Bytes, InstanceId, MachineId, MachineName, MachineReport, Priority, Resources};

/// A machine.
#[derive(Debug)]
pub(crate) struct LabMachine {
    as_in_a_cell: cell::Machine,
    /// What its tasks count for.
    pub(crate) sums: Sums,
    /// What its production tasks alone count for.
    production: Sums,
    /// The limits of all its tasks.
    pub(crate) limits: Resources,
    /// The memory that its tasks use.
    pub(crate) ram_used: Bytes,
}

/// A task on a machine whose memory is short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) instance: InstanceId,
    pub(crate) priority: Priority,
    pub(crate) limit: Bytes,
    pub(crate) reservation: Bytes,
    pub(crate) used: Bytes,
}

/// Why a task is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It uses more than its limit, whatever its priority.
    AboveLimit,
    /// It has the lowest priority of those that are not production.
    LowestPriority,
}

impl LabMachine {
    pub(crate) fn new(nth: usize, capacity: Resources) -> Self {
        let name = MachineName::new(&format!("m{nth}"));
        let name = name.unwrap_or_else(|error| unreachable!("a machine's name: {error}"));
        let mut machine = cell::Machine::new(MachineId(nth as u64), name, Arc::from(""));
        machine.state = MachineState::Up;
        machine.report = Arc::new(MachineReport { capacity, ..MachineReport::default() });
        Self {
            as_in_a_cell: machine,
            sums: Sums::default(),
            production: Sums::default(),
            limits: Resources::default(),
            ram_used: Bytes(0),
        }
    }

    pub(crate) fn capacity(&self) -> Resources {
        self.as_in_a_cell.capacity()
    }

    /// Whether a task fits: production by limits, the rest by reservations.
    pub(crate) fn fits(&self, demand: Demand) -> bool {
        fits(demand, &self.sums.offered_by(&self.as_in_a_cell))
    }

    /// Whether a task would fit if only production were there.
    pub(crate) fn would_fit(&self, demand: Demand) -> bool {
        fits(demand, &self.production.offered_by(&self.as_in_a_cell))
    }

    pub(crate) fn add(&mut self, demand: &Demand) {
        self.sums.add(demand);
        if demand.prod {
            self.production.add(demand);
        }
        self.limits = self.limits.plus(demand.limit);
    }

    pub(crate) fn remove(&mut self, demand: &Demand) {
        self.sums = self.sums.without(demand);
        if demand.prod {
            self.production = self.production.without(demand);
        }
        self.limits = self.limits.minus(demand.limit);
    }

    /// The reservation of a task changed.
    pub(crate) fn change(&mut self, before: &Demand, after: Resources) {
        let changed = |sums: &mut Sums| {
            sums.reservations = sums.reservations.minus(before.reservation).plus(after);
        };
        changed(&mut self.sums);
        if before.prod {
            changed(&mut self.production);
        }
    }

    /// The limits of its tasks that are beyond its capacity: work that runs in reclaimed resources.
    pub(crate) fn reclaimed(&self) -> Resources {
        self.limits.minus(self.capacity())
    }

    /// The share of its work that would have to leave for the limits to fit, in millionths: that of
    /// CPU or that of memory, whichever is more.
    pub(crate) fn reclaimed_share(&self) -> u64 {
        let (over, limits) = (self.reclaimed(), self.limits);
        let share = |over: u64, of: u64| {
            let share = (u128::from(over) * 1_000_000).checked_div(of.into()).unwrap_or(0);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        share(over.cpu.0, limits.cpu.0).max(share(over.ram.0, limits.ram.0))
    }

    /// Whether its tasks use more memory than it has.
    pub(crate) fn is_short(&self) -> bool {
        self.ram_used > self.capacity().ram
    }
}

fn fits(demand: Demand, offer: &Offer<'_>) -> bool {
    let (max_per_machine, max_per_switch) = (None, None);
    let network = &spec::Network::Host;
    let (constraints, variants) = (Default::default(), Default::default());
    let request = Request {
        demand,
        ports: 0,
        static_ports: &feasibility::NO_STATIC_PORTS,
        network,
        constraints,
        variants,
        volumes: None,
        machine: None,
        max_per_machine,
        max_per_switch,
    };
    feasibility::fits(&request, offer).is_ok()
}

/// The tasks that are killed on a machine with so much memory (paper, sections 5.5 and 6.2): first
/// those above their own limit, then from the lowest priority up, until what is left fits: of each
/// task what it uses, or its reservation if that is more. Of equals the newest is first. Production
/// within its limit is never killed.
///
/// It is a model of the Borglet's rule (`borglet`, `state/memory.rs`), which also keeps a reserve and
/// orders equals by their excess.
pub(crate) fn victims(capacity: Bytes, mut tasks: Vec<Candidate>) -> Vec<(InstanceId, Rule)> {
    let mut needed = tasks.iter().fold(0_u64, |sum, task| sum.saturating_add(needs(task)));
    tasks.sort_by_key(|task| {
        (task.used <= task.limit, task.priority, std::cmp::Reverse(task.instance))
    });
    let mut victims = Vec::new();
    for task in tasks {
        if needed <= capacity.0 {
            break;
        }
        let rule = match task.used > task.limit {
            true => Rule::AboveLimit,
            false if task.priority.is_prod() => break,
            false => Rule::LowestPriority,
        };
        needed = needed.saturating_sub(needs(&task));
        victims.push((task.instance, rule));
    }
    victims
}

fn needs(task: &Candidate) -> u64 {
    task.used.max(task.reservation).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{CollectionId, Generation, MilliCores, TaskId, TaskIndex};

    fn instance(number: u64) -> InstanceId {
        TaskId { collection: CollectionId(number), index: TaskIndex(0) }.generation(Generation(1))
    }

    /// Tasks as (priority, limit, reservation, used); which of them are killed, on a machine of
    /// 100.
    #[test]
    fn the_order_of_kills() {
        type Row = (i64, u64, u64, u64);
        let cases: &[(&[Row], &[u64])] = &[
            // It fits.
            (&[(200, 60, 40, 40), (25, 60, 40, 50)], &[]),
            // The lowest priority first, of equals the last one; no more than needed.
            (&[(200, 60, 60, 60), (25, 30, 20, 20), (25, 30, 20, 20), (110, 9, 5, 5)], &[2]),
            (&[(200, 60, 60, 60), (25, 30, 20, 20), (110, 30, 20, 25)], &[1]),
            // A task above its limit before all others, even production.
            (&[(25, 50, 40, 40), (110, 10, 10, 20), (200, 40, 40, 45)], &[1]),
            (&[(25, 50, 40, 40), (200, 60, 60, 61)], &[1]),
            // A reservation that is not used is needed, too.
            (&[(200, 60, 60, 10), (25, 60, 30, 50)], &[1]),
            // Production within its limit stays, even if it does not help.
            (&[(200, 90, 90, 90), (360, 90, 90, 90)], &[]),
        ];
        for (tasks, expected) in cases {
            let candidates =
                tasks.iter().zip(0..).map(|((priority, limit, reservation, used), number)| {
                    Candidate {
                        instance: instance(number),
                        priority: Priority::new(*priority).expect("a priority"),
                        limit: Bytes(*limit),
                        reservation: Bytes(*reservation),
                        used: Bytes(*used),
                    }
                });
            let killed = victims(Bytes(100), candidates.collect());
            let killed: Vec<u64> = killed.iter().map(|(one, _)| one.collection.0).collect();
            assert_eq!(killed, *expected, "{tasks:?}");
        }
    }

    #[test]
    fn limits_decide_for_production_and_reservations_for_the_rest() {
        let one = |cpu: u64| Resources { cpu: MilliCores(cpu), ..Resources::default() };
        let mut machine = LabMachine::new(1, one(1_000));
        let prod = Demand { limit: one(800), reservation: one(100), prod: true, exclusive: false };
        machine.add(&prod);
        for (limit, reservation, prod, expected) in [
            (900, 900, false, true),
            (5_000, 901, false, false),
            (200, 200, true, true),
            (201, 200, true, false),
        ] {
            let demand =
                Demand { limit: one(limit), reservation: one(reservation), prod, exclusive: false };
            assert_eq!(machine.fits(demand), expected, "{demand:?}");
        }
        machine.add(&Demand {
            limit: one(900),
            reservation: one(900),
            prod: false,
            exclusive: false,
        });
        assert_eq!(machine.reclaimed(), one(700));
    }
}
