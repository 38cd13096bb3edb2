//! What fits where: the one notion that scheduler, master and "why pending?" share (design,
//! section 5).
//!
//! A check is one small file with one function: it looks at what a task asks and what a machine
//! offers, and either passes or names the [`UnschedulableReason`], which is the text of "why pending?". The
//! registry [`CHECKS`] has them cheapest first; a machine fits when all pass. Nothing here scores.

mod constraints;
pub mod maxima;
mod ports;
mod resources;
mod up;

pub(crate) use resources::lacks;

use model::{Dimension, HeldPorts, InstanceId, Resources};
use spec::{Constraint, Maximum};
use thiserror::Error;

use crate::{Cell, Demand, FailureDomain, Job, Machine};

/// What a task asks of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What it would count for: production is judged by its limit, the rest by their reservation
    /// (paper, section 5.5).
    pub demand: Demand,
    /// How many ports it wants.
    pub ports: usize,
    /// What it wants of the machine's attributes; only the hard ones decide here.
    pub constraints: &'a [Constraint],
    /// How many tasks of its job are to be on one machine at most.
    pub max_per_machine: Option<Maximum>,
    /// How many tasks of its job are to be on the machines of one switch at most.
    pub max_per_switch: Option<Maximum>,
}

/// What a machine offers: the machine, and what is left of it in the eyes of whoever asks. A
/// scheduler counts what it has planned and not yet heard about as taken.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// What there is in all: of the machine, or of the alloc that is offered.
    pub capacity: Resources,
    /// What is left of its resources by the reservations of all its tasks.
    pub free: Resources,
    /// What is left of them by the limits of production and monitoring alone.
    pub free_for_prod: Resources,
    /// How many of its ports are left.
    pub free_ports: usize,
    /// What of the task's own job is there already.
    pub colocated: Colocated,
}

/// How many tasks of one job are at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colocated {
    /// On the machine.
    pub machine: u32,
    /// On all machines of its switch. Nothing where no switch is known of it, or where the job says
    /// nothing of switches.
    pub switch: u32,
}

/// The sums by which a machine is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The reservations of all its tasks.
    pub reservations: Resources,
    /// The limits of those that are production or monitoring.
    pub limits_of_prod: Resources,
}

/// Why a task does not fit on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum UnschedulableReason {
    /// The machine does not answer, or has not said yet what it is.
    #[error("is not up")]
    NotUp,
    /// The machine has not answered for a while, and may come back or be marked down.
    #[error("is unreachable")]
    Unreachable,
    /// The machine is being emptied.
    #[error("is draining")]
    Draining,
    /// The machine is not as the task's constraints want it.
    #[error("does not match {constraint}: {}", shown(has.as_deref()))]
    Constraint {
        /// The first hard constraint that it does not match.
        constraint: Box<Constraint>,
        /// What it has instead, where it has the attribute.
        has: Option<Box<str>>,
    },
    /// The machine is too small for it, even when empty.
    #[error("is too small: {} of {dimension} asked, it has {}", .dimension.show(*asked), .dimension.show(*has))]
    TooSmall {
        /// In which dimension.
        dimension: Dimension,
        /// How much is asked.
        asked: u64,
        /// How much the machine has in all.
        has: u64,
    },
    /// Too little is left of the machine.
    #[error("lacks {dimension}: {} asked, {} free", .dimension.show(*asked), .dimension.show(*free))]
    Lacks {
        /// In which dimension.
        dimension: Dimension,
        /// How much is asked.
        asked: u64,
        /// How much is left.
        free: u64,
    },
    /// As many tasks of the job are there as it wants at most.
    #[error("has {has} tasks of the job {place}, and at most {most} are wanted")]
    Maximum {
        /// Where they are counted.
        place: CountedAt,
        /// How many are there.
        has: u32,
        /// How many are to be there at most.
        most: u32,
    },
    /// Too few of its ports are left.
    #[error("lacks ports: {asked} asked, {free} free{}", not_given(held.as_deref()))]
    LacksPorts {
        /// How many are asked.
        asked: usize,
        /// How many are left.
        free: usize,
        /// Those that something holds which they were not given to, where there are any.
        held: Option<Box<NotGiven>>,
    },
}

/// Ports of a machine that something holds which they were not given to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotGiven {
    /// How many.
    pub count: usize,
    /// The first of them, with what holds those.
    pub first: HeldPorts,
}

impl NotGiven {
    /// Those of a machine; none where there are none.
    #[must_use]
    pub fn of(machine: &Machine) -> Option<Self> {
        let count = machine.held_port_count();
        let first = machine.report.held_ports.first().filter(|_| count > 0)?.clone();
        Some(Self { count, first })
    }
}

/// `2 held by others: 31000 by /system.slice/web.service (nginx), …`
impl std::fmt::Display for NotGiven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let more = if self.count > self.first.ports.len() { ", …" } else { "" };
        write!(f, "{} held by others: {}{more}", self.count, self.first)
    }
}

fn not_given(held: Option<&NotGiven>) -> String {
    held.map(|held| format!(", {held}")).unwrap_or_default()
}

/// Where the tasks of a job are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedAt {
    /// On one machine.
    Machine,
    /// On all machines of its switch.
    Switch,
}

impl std::fmt::Display for CountedAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Machine => "on it",
            Self::Switch => "at its switch",
        })
    }
}

fn shown(has: Option<&str>) -> String {
    match has {
        Some(value) => format!("it has \"{}\"", value.escape_debug()),
        None => "it does not have that attribute".to_owned(),
    }
}

/// A check: passes, or says why not.
pub type Check = fn(&Request<'_>, &Offer<'_>) -> Result<(), UnschedulableReason>;

/// Every check, cheapest first; a machine that can never fit is told before one that is full.
pub const CHECKS: &[Check] =
    &[up::check, constraints::check, maxima::check, resources::check, ports::check];

/// Whether what is asked fits what is offered.
///
/// # Errors
/// The first unschedulable reason.
pub fn fits(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    CHECKS.iter().try_for_each(|check| check(ask, offer))
}

/// Whether a task that runs on a machine can ask this of it from now on: it need not be up, and where
/// the task does not grow there need not be room for more.
///
/// # Errors
/// The first unschedulable reason.
pub fn fits_a_running_task(
    ask: &Request<'_>,
    offer: &Offer<'_>,
    grows: bool,
) -> Result<(), UnschedulableReason> {
    constraints::check(ask, offer)?;
    if grows { resources::check(ask, offer) } else { Ok(()) }
}

impl<'a> Request<'a> {
    /// What a task of a job asks.
    #[must_use]
    pub fn of(job: &'a Job, index: model::TaskIndex) -> Self {
        Self {
            demand: job.asks(index),
            ports: job.port_count(index),
            constraints: job.spec.constraints(index),
            max_per_machine: job.spec.max_per_machine,
            max_per_switch: job.spec.max_per_switch,
        }
    }
}

impl<'a> Offer<'a> {
    /// All that is left of a machine, and nothing of the task's job on it.
    #[must_use]
    pub fn of(machine: &'a Machine) -> Self {
        Sums::of(machine).offered_by(machine)
    }

    /// All that is left of an alloc on a machine, and nothing of the task's job beside it.
    #[must_use]
    pub fn within(cell: &Cell, machine: &'a Machine, alloc: InstanceId) -> Self {
        let limit = cell.job(alloc.collection).map(|set| set.limit(alloc.index));
        let capacity = limit.unwrap_or_default();
        let free = capacity.minus(machine.used(alloc).unwrap_or_default());
        Self { capacity, free, free_for_prod: free, ..Self::of(machine) }
    }

    /// All that is left of a machine for a task of a job.
    #[must_use]
    pub fn to(cell: &Cell, job: &Job, machine: &'a Machine) -> Self {
        Self { colocated: Colocated::of(cell, job, machine), ..Self::of(machine) }
    }
}

impl Colocated {
    /// What of a job is on a machine and at its switch; what the job does not ask about is not
    /// counted.
    #[must_use]
    pub fn of(cell: &Cell, job: &Job, machine: &Machine) -> Self {
        let at_switch = || {
            let switch = machine.domain(FailureDomain::Switch)?;
            let machines = cell.machines_of_switch(switch);
            Some(machines.map(|machine| machine.tasks_of(job.id)).sum())
        };
        let (per_machine, per_switch) = (job.spec.max_per_machine, job.spec.max_per_switch);
        Self {
            machine: per_machine.map_or(0, |_| machine.tasks_of(job.id)),
            switch: per_switch.and_then(|_| at_switch()).unwrap_or(0),
        }
    }
}

/// `0.2 cores, 64 MiB reserved and 0 cores, 0 B limits of production`.
impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reservations, limits_of_prod } = self;
        write!(f, "{reservations} reserved and {limits_of_prod} limits of production")
    }
}

impl Sums {
    /// Those that a machine keeps.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        Self { reservations: machine.reserved(), limits_of_prod: machine.taken_by_prod() }
    }

    /// With one task more.
    pub fn add(&mut self, demand: &Demand) {
        *self = self.plus(&Self::one(demand));
    }

    /// Without a task that is counted.
    #[must_use]
    pub fn without(&self, demand: &Demand) -> Self {
        self.minus(&Self::one(demand))
    }

    fn one(demand: &Demand) -> Self {
        let limits_of_prod = if demand.prod { demand.limit } else { Resources::default() };
        Self { reservations: demand.reservation, limits_of_prod }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            reservations: self.reservations.plus(other.reservations),
            limits_of_prod: self.limits_of_prod.plus(other.limits_of_prod),
        }
    }

    /// The difference, nowhere less than nothing.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            reservations: self.reservations.minus(other.reservations),
            limits_of_prod: self.limits_of_prod.minus(other.limits_of_prod),
        }
    }

    /// What a machine offers that these are taken of.
    #[must_use]
    pub fn offered_by<'a>(&self, machine: &'a Machine) -> Offer<'a> {
        let capacity = machine.capacity();
        Offer {
            machine,
            capacity,
            free: capacity.minus(self.reservations),
            free_for_prod: capacity.minus(self.limits_of_prod),
            free_ports: machine.free_port_count(),
            colocated: Colocated::default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use model::{Bytes, MachineReport, MilliCores, PortRange};

    use super::{Demand, Offer, Request, Resources, UnschedulableReason};
    use crate::{Machine, MachineState};

    pub(crate) fn resources(cpu: u64, ram: u64) -> Resources {
        Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
    }

    /// What a check says of a task that asks `(cpu, ram, ports)` and an up machine of
    /// 1,000 milli-cores, 1,000 bytes and 2 ports of which `taken` is taken.
    pub(crate) fn checked(
        check: super::Check,
        ask: (u64, u64, usize),
        taken: (u64, u64, usize),
    ) -> Option<UnschedulableReason> {
        let mut machine = Machine::testing();
        machine.state = MachineState::Up;
        machine.report = Arc::new(MachineReport {
            capacity: resources(1_000, 1_000),
            ports: PortRange { first: 1, last: 2 },
            ..MachineReport::default()
        });
        let free = machine.capacity().minus(resources(taken.0, taken.1));
        let offer = Offer { free, free_ports: 2 - taken.2, ..Offer::of(&machine) };
        let limit = resources(ask.0, ask.1);
        let demand = Demand { limit, reservation: limit, prod: false };
        check(&Request { ports: ask.2, ..asking(demand) }, &offer).err()
    }

    /// What asks for resources alone.
    pub(crate) fn asking(demand: Demand) -> Request<'static> {
        let (max_per_machine, max_per_switch) = (None, None);
        Request { demand, ports: 0, constraints: &[], max_per_machine, max_per_switch }
    }
}
