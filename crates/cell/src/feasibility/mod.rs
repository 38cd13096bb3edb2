//! What fits where: the one notion that scheduler, master and "why pending?" share (design,
//! section 5).
//!
//! A check is one small file with one function: it looks at what a task asks and what a machine
//! offers, and either passes or names the [`Misfit`], which is the text of "why pending?". The
//! registry [`CHECKS`] has them cheapest first; a machine fits when all pass. Nothing here scores.

mod constraints;
mod ports;
mod resources;
mod up;

use model::{Dimension, Resources};
use spec::Constraint;
use thiserror::Error;

use crate::{Job, Machine};

/// What a task asks of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// Its limit.
    pub limit: Resources,
    /// How many ports it wants.
    pub ports: usize,
    /// What it wants of the machine's attributes; only the hard ones decide here.
    pub constraints: &'a [Constraint],
}

/// What a machine offers: the machine, and what is left of it in the eyes of whoever asks. A
/// scheduler counts what it has planned and not yet heard about as taken.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// What is left of its resources.
    pub free: Resources,
    /// How many of its ports are left.
    pub free_ports: usize,
}

/// Why a task does not fit on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Misfit {
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
    /// Too few of its ports are left.
    #[error("lacks ports: {asked} asked, {free} free")]
    LacksPorts {
        /// How many are asked.
        asked: usize,
        /// How many are left.
        free: usize,
    },
}

fn shown(has: Option<&str>) -> String {
    match has {
        Some(value) => format!("it has \"{}\"", value.escape_debug()),
        None => "it does not have that attribute".to_owned(),
    }
}

/// A check: passes, or says why not.
pub type Check = fn(&Ask<'_>, &Offer<'_>) -> Result<(), Misfit>;

/// Every check, cheapest first; a machine that can never fit is told before one that is full.
pub const CHECKS: &[Check] = &[up::check, constraints::check, resources::check, ports::check];

/// Whether what is asked fits what is offered.
///
/// # Errors
/// The first misfit.
pub fn fits(ask: &Ask<'_>, offer: &Offer<'_>) -> Result<(), Misfit> {
    CHECKS.iter().try_for_each(|check| check(ask, offer))
}

/// Whether a task that runs on a machine can ask this of it from now on: it need not be up, and where
/// the task does not grow there need not be room for more.
///
/// # Errors
/// The first misfit.
pub fn fits_a_running_task(ask: &Ask<'_>, offer: &Offer<'_>, grows: bool) -> Result<(), Misfit> {
    constraints::check(ask, offer)?;
    if grows { resources::check(ask, offer) } else { Ok(()) }
}

impl<'a> Ask<'a> {
    /// What a task of a job asks.
    #[must_use]
    pub fn of(job: &'a Job, index: model::TaskIndex) -> Self {
        Self {
            limit: job.limit(index),
            ports: job.ports(index).len(),
            constraints: job.spec.constraints(index),
        }
    }
}

impl<'a> Offer<'a> {
    /// All that is left of a machine.
    #[must_use]
    pub fn of(machine: &'a Machine) -> Self {
        Self { machine, free: machine.free(), free_ports: machine.free_port_count() }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use model::{Bytes, MachineReport, MilliCores, PortRange};

    use super::{Ask, Misfit, Offer, Resources};
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
    ) -> Option<Misfit> {
        let mut machine = Machine::testing();
        machine.state = MachineState::Up;
        machine.report = Arc::new(MachineReport {
            capacity: resources(1_000, 1_000),
            ports: PortRange { first: 1, last: 2 },
            ..MachineReport::default()
        });
        let free = machine.capacity().minus(resources(taken.0, taken.1));
        let offer = Offer { machine: &machine, free, free_ports: 2 - taken.2 };
        let limit = resources(ask.0, ask.1);
        check(&Ask { limit, ports: ask.2, constraints: &[] }, &offer).err()
    }
}
