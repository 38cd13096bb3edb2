//! What fits where: the one definition that scheduler, master and "why pending?" share (design,
//! section 5).
//!
//! A check is one small file with one function: it compares what a task requests with what a
//! machine offers, and either passes or returns the [`UnschedulableReason`], which is the text of
//! "why pending?". The registry [`CHECKS`] lists them cheapest first; a machine fits if all pass.
//! Nothing here scores.

mod constraints;
mod cores;
pub mod maxima;
mod network;
mod own_machine;
mod ports;
mod resources;
mod shortage;
pub mod static_ports;
mod up;
pub mod variants;
mod volumes;

pub use crate::unschedulable::{CountedAt, NotGiven, PortUse, UnschedulableReason};
pub(crate) use resources::lacks;
pub use variants::VariantsOfPackage;

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::{InstanceId, MachineId, MachineReport, PortName, Resources, UserName};
use spec::{Constraint, JobSpec, Maximum, Network};

use crate::{Cell, Demand, FailureDomain, Job, Machine, VolumeAsk};

/// The static ports of a task that has none.
pub static NO_STATIC_PORTS: BTreeMap<PortName, u16> = BTreeMap::new();

/// What a task requests of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its resources: production is checked by its limit, everything else by its reservation
    /// (paper, section 5.5).
    pub demand: Demand,
    /// Number of ports.
    pub ports: usize,
    /// Its ports with static numbers, on the machine's address.
    pub static_ports: &'a BTreeMap<PortName, u16>,
    /// Its network. For one of its own it takes an address, unless it runs in an alloc.
    pub network: &'a Network,
    /// Constraints on the machine's attributes; only hard ones are checked here.
    pub constraints: &'a [Constraint],
    /// Its packages that are only for some architectures.
    pub variants: Cow<'a, [VariantsOfPackage]>,
    /// Its volumes; `None` if it asks for none.
    pub volumes: Option<Box<VolumeAsk>>,
    /// The only machine on which it may run, if its job has one task on every machine.
    pub machine: Option<MachineId>,
    /// Maximum number of tasks of its job on one machine.
    pub max_per_machine: Option<Maximum>,
    /// Maximum number of tasks of its job on the machines of one switch.
    pub max_per_switch: Option<Maximum>,
}

/// What a machine offers: the machine, and what the caller considers free on it. A scheduler counts
/// what it has planned but not yet had confirmed as taken.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The total capacity: of the machine, or of the alloc that is offered.
    pub capacity: Resources,
    /// Resources left by the reservations of all tasks.
    pub free: Resources,
    /// Resources left by the limits of production and monitoring tasks alone.
    pub free_for_prod: Resources,
    /// Number of free ports.
    pub free_ports: usize,
    /// Ports of the machine that are free only once tasks have left it that are leaving.
    pub leaving_ports: &'a [u16],
    /// Ports of the machine that are taken beyond those that the cell records: the static ones of
    /// planned tasks.
    pub planned_ports: &'a [u16],
    /// Number of free addresses.
    pub free_addresses: usize,
    /// Number of whole physical cores that no task has for itself.
    pub free_cores: u64,
    /// The alloc, if one is offered rather than the machine.
    pub alloc: Option<OfferedAlloc<'a>>,
    /// Tasks of the same job that are already there.
    pub colocated: Colocated,
}

/// The network of an alloc that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedAlloc<'a> {
    /// Whether it has one of its own.
    pub own_network: bool,
    /// The ports that tasks have in that network.
    pub ports_taken: &'a [u16],
}

/// Number of tasks of one job on a machine and its switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colocated {
    /// On the machine.
    pub machine: u32,
    /// On all machines of its switch. Zero if the machine's switch is unknown, or if the job sets
    /// no maximum per switch.
    pub switch: u32,
}

/// The sums that are compared with a machine's capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The reservations of all its tasks.
    pub reservations: Resources,
    /// The limits of those that are production or monitoring.
    pub limits_of_prod: Resources,
}

/// A check: passes, or returns the reason.
pub type Check = fn(&Request<'_>, &Offer<'_>) -> Result<(), UnschedulableReason>;

/// Every check, cheapest first; a machine that can never fit is reported as such before a full one.
pub const CHECKS: &[Check] = &[
    own_machine::check,
    up::check,
    constraints::check,
    variants::check,
    volumes::check,
    maxima::check,
    cores::check_all,
    resources::check,
    cores::check,
    ports::check,
    static_ports::check,
    network::check,
    shortage::check,
];

/// Whether a request fits an offer.
///
/// # Errors
/// The first unschedulable reason.
pub fn fits(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    CHECKS.iter().try_for_each(|check| check(ask, offer))
}

/// Whether a machine is one on which a job that wants a task on every machine gets one: it has described itself, matches
/// the hard constraints, and each package has a variant for it. Its size and state do not matter: its task waits.
#[must_use]
pub fn suits(cell: &Cell, owner: &UserName, spec: &JobSpec, machine: &Machine) -> bool {
    suits_with(&VariantsOfPackage::of(cell, owner, spec), spec, machine)
}

/// The same, with the variants of the packages of the description: they are those of every machine.
pub(crate) fn suits_with(
    variants: &[VariantsOfPackage],
    spec: &JobSpec,
    machine: &Machine,
) -> bool {
    let attributes = machine.attributes();
    let mut hard = spec.task.constraints.iter().filter(|constraint| constraint.hard);
    *machine.report != MachineReport::default()
        && hard.all(|constraint| constraint.matches(attributes))
        && variants::missing(variants, machine).is_none()
}

/// Whether a machine that is offered takes tasks at all: it answers, and is not being drained.
#[must_use]
pub fn is_available(offer: &Offer<'_>) -> bool {
    up::is_up(offer).is_ok()
}

/// Whether a task that already runs on a machine can change to this request: the machine need not
/// be up, and where the task does not grow no more room is needed.
///
/// # Errors
/// The first unschedulable reason.
pub fn fits_a_running_task(
    ask: &Request<'_>,
    offer: &Offer<'_>,
    grows: bool,
) -> Result<(), UnschedulableReason> {
    constraints::check(ask, offer)?;
    variants::check(ask, offer)?;
    if grows { resources::check(ask, offer) } else { Ok(()) }
}

impl<'a> Request<'a> {
    /// What a task of a job requests.
    #[must_use]
    pub fn of(cell: &Cell, job: &'a Job, index: model::TaskIndex) -> Self {
        Self {
            demand: job.asks(index),
            ports: job.port_count(index),
            static_ports: job.static_ports(index),
            network: job.network(index),
            constraints: job.described(index).constraints(index),
            variants: VariantsOfPackage::of(cell, &job.owner, job.described(index)).into(),
            volumes: VolumeAsk::of(job, index).map(Box::new),
            machine: job.machine_of(index),
            max_per_machine: job.spec.max_per_machine,
            max_per_switch: job.spec.max_per_switch,
        }
    }
}

impl<'a> Offer<'a> {
    /// All that is free on a machine, with none of the job's tasks on it.
    #[must_use]
    pub fn of(machine: &'a Machine) -> Self {
        Sums::of(machine).offered_by(machine)
    }

    /// All that is free in an alloc on a machine, with none of the job's other tasks there.
    #[must_use]
    pub fn within(cell: &Cell, machine: &'a Machine, alloc: InstanceId) -> Self {
        let set = cell.job(alloc.collection);
        let capacity = set.map(|set| set.limit(alloc.index)).unwrap_or_default();
        // As it runs, and not as its next incarnation will.
        let own_network = cell.placement(alloc).is_some_and(|placed| placed.address.is_some());
        let ports_taken = machine.ports_in(alloc);
        let offered = Some(OfferedAlloc { own_network, ports_taken });
        let free = capacity.minus(machine.used(alloc).unwrap_or_default());
        Self { capacity, free, free_for_prod: free, alloc: offered, ..Self::of(machine) }
    }

    /// All that is free on a machine for a task of a job.
    #[must_use]
    pub fn to(cell: &Cell, job: &Job, machine: &'a Machine) -> Self {
        Self { colocated: Colocated::of(cell, job, machine), ..Self::of(machine) }
    }
}

impl Colocated {
    /// Number of a job's tasks on a machine and at its switch; counted only where the job sets a
    /// maximum.
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
    /// The sums of a machine's tasks.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        Self { reservations: machine.reserved(), limits_of_prod: machine.taken_by_prod() }
    }

    /// Adds a task.
    pub fn add(&mut self, demand: &Demand) {
        *self = self.plus(&Self::one(demand));
    }

    /// Subtracts a task that is included.
    #[must_use]
    pub fn without(&self, demand: &Demand) -> Self {
        self.minus(&Self::one(demand))
    }

    fn one(demand: &Demand) -> Self {
        let limits_of_prod = if demand.prod { demand.limit } else { Resources::default() };
        Self { reservations: demand.reservation, limits_of_prod }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            reservations: self.reservations.plus(other.reservations),
            limits_of_prod: self.limits_of_prod.plus(other.limits_of_prod),
        }
    }

    /// The difference, saturating at zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            reservations: self.reservations.minus(other.reservations),
            limits_of_prod: self.limits_of_prod.minus(other.limits_of_prod),
        }
    }

    /// What a machine offers when these sums are taken.
    #[must_use]
    pub fn offered_by<'a>(&self, machine: &'a Machine) -> Offer<'a> {
        let capacity = machine.capacity();
        Offer {
            machine,
            capacity,
            free: capacity.minus(self.reservations),
            free_for_prod: capacity.minus(self.limits_of_prod),
            free_ports: machine.free_port_count(),
            leaving_ports: &[],
            planned_ports: &[],
            free_addresses: machine.free_address_count(),
            free_cores: machine.free_whole_cores(),
            alloc: None,
            colocated: Colocated::default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use model::{Bytes, MachineReport, MilliCores, PortRange};

    use super::{Demand, NO_STATIC_PORTS, Offer, Request, Resources, UnschedulableReason};
    use crate::{Machine, MachineState};

    pub(crate) fn resources(cpu: u64, ram: u64) -> Resources {
        Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
    }

    /// The result of a check for a task that requests `(cpu, ram, ports)` on an up machine of 1,000
    /// milli-cores, 1,000 bytes and 2 ports, of which `taken` is taken.
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
        let demand = Demand { limit, reservation: limit, ..Demand::default() };
        check(&Request { ports: ask.2, ..asking(demand) }, &offer).err()
    }

    /// A request for resources alone.
    pub(crate) fn asking(demand: Demand) -> Request<'static> {
        let (max_per_machine, max_per_switch) = (None, None);
        let network = &spec::Network::Host;
        let (constraints, variants, volumes) = (Default::default(), Default::default(), None);
        Request {
            demand,
            ports: 0,
            static_ports: &NO_STATIC_PORTS,
            network,
            constraints,
            variants,
            volumes,
            machine: None,
            max_per_machine,
            max_per_switch,
        }
    }
}
