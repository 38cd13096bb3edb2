//! Machines.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use model::{
    CollectionId, GcuFactor, InstanceId, MachineId, MachineName, MachineReport, MilliCores,
    PortRange, Resources, Time, UserName, VolumeName, attribute,
};

use super::crashes::CrashSeen;
use super::{Credentials, Demand, Placement, Volume};

/// A failure domain: a group of machines that can fail together (paper, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureDomain {
    /// The machine itself.
    Machine,
    /// Its rack.
    Rack,
    /// Its network switch.
    Switch,
    /// Its power supply.
    PowerDomain,
}

/// A machine of the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its id.
    pub id: MachineId,
    /// Its name.
    pub name: MachineName,
    /// The address of its Borglet.
    pub address: Arc<str>,
    /// Whether it is up, unreachable or down.
    pub state: MachineState,
    /// Set while it is being drained.
    pub drain: Option<Arc<Drain>>,
    /// Its last report; empty before its first answer.
    pub report: Arc<MachineReport>,
    /// Attributes set by operators, which override those it reports.
    pub operator_attributes: Arc<BTreeMap<String, String>>,
    /// Whose savers are to end, and who has asked for that; until the machine reports what became of them.
    pub saver_ends: Arc<BTreeMap<InstanceId, UserName>>,
    /// Its volumes, with who claims them.
    pub volumes: Arc<BTreeMap<VolumeName, Volume>>,
    /// Where the search for a free port starts, so that a port is not reused at once.
    pub next_port: u16,
    /// Where the search for a free address starts, so that an address is not reused at once.
    pub next_address: Ipv4Addr,
    /// Recent task crashes on it, oldest first.
    pub crashes: Vec<CrashSeen>,
    /// The record of its certificates; `None` if it never enrolled and was never revoked.
    pub credentials: Option<Arc<Credentials>>,

    // Derived from its report, its operators' attributes and the cell's platforms.
    pub(crate) attributes: Arc<BTreeMap<String, String>>,
    pub(crate) gcu: GcuFactor,
    // Derived from the reports of all machines.
    pub(crate) set_aside: bool,
    // Derived from the tasks placed on it.
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) taken: Resources,
    pub(crate) reserved: Resources,
    pub(crate) taken_by_prod: Resources,
    pub(crate) ports_taken: Vec<u16>,
    pub(crate) addresses_taken: Vec<Ipv4Addr>,
    /// The CPU limits, in normalised cores, of those that have whole cores, in order.
    pub(crate) exclusive: Vec<MilliCores>,
    /// The allocs on it in which tasks run, in order.
    pub(crate) used: Vec<Used>,
}

/// What tasks use of an alloc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// The alloc.
    pub(crate) alloc: InstanceId,
    /// Number of tasks in it: at least 1.
    pub(crate) tasks: u32,
    /// The sum of their limits.
    pub(crate) taken: Resources,
    /// Their ports in the alloc's own network, in order.
    pub(crate) ports: Vec<u16>,
}

/// Whether a machine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It was added, and has not described itself yet.
    Joining,
    /// It answers, and tasks can be placed on it.
    Up,
    /// It did not answer several polls: nothing new is placed on it, and its tasks stay.
    Unreachable {
        /// Since when.
        since: Time,
    },
    /// It does not answer, and its tasks were taken from it.
    Down {
        /// Since when.
        since: Time,
    },
}

/// A request to drain a machine: nothing new is placed on it, and its tasks are evicted as their
/// disruption budgets allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Since when.
    pub since: Time,
    /// Who requested it.
    pub by: UserName,
    /// The reason; may be empty.
    pub reason: String,
    /// When it ends at the latest; `None`: it goes on until the machine is empty.
    pub deadline: Option<Time>,
    /// Whether it is over then: what is left is evicted, beyond the budgets, so that its notice ends at
    /// the deadline.
    pub force: bool,
    /// When it ended because of its deadline. Nothing more is evicted, and still nothing is placed.
    pub expired: Option<Time>,
}

impl Drain {
    /// Whether it evicts whatever is left at a moment, without regard to budgets.
    #[must_use]
    pub fn is_over(&self, at: Time) -> bool {
        self.force && self.deadline.is_some_and(|deadline| deadline <= at)
    }
}

impl Machine {
    /// A newly added machine.
    #[must_use]
    pub fn new(id: MachineId, name: MachineName, address: Arc<str>) -> Self {
        Self {
            id,
            name,
            address,
            state: MachineState::Joining,
            drain: None,
            report: Arc::default(),
            operator_attributes: Arc::default(),
            saver_ends: Arc::default(),
            volumes: Arc::default(),
            next_port: 0,
            next_address: Ipv4Addr::UNSPECIFIED,
            crashes: Vec::new(),
            credentials: None,
            attributes: Arc::default(),
            gcu: GcuFactor::ONE,
            set_aside: false,
            instances: Vec::new(),
            taken: Resources::default(),
            reserved: Resources::default(),
            taken_by_prod: Resources::default(),
            ports_taken: Vec::new(),
            addresses_taken: Vec::new(),
            exclusive: Vec::new(),
            used: Vec::new(),
        }
    }

    /// The capacity available to tasks, with CPU in the cell's normalised cores.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        let reported = self.report.capacity;
        Resources { cpu: self.gcu.normalised(reported.cpu), ..reported }
    }

    /// Whether it gets no tasks, because it can run none. At most half of a cell's machines are set
    /// aside: beyond that the cause is more likely the same everywhere, and tasks are tried.
    #[must_use]
    pub fn is_set_aside(&self) -> bool {
        self.set_aside
    }

    /// The factor of its cores.
    #[must_use]
    pub fn gcu(&self) -> GcuFactor {
        self.gcu
    }

    /// Its attributes: those it reports, overridden by those that operators set.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, String> {
        &self.attributes
    }

    /// One of its attributes.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Its failure domain of a given kind, if known.
    #[must_use]
    pub fn domain(&self, of: FailureDomain) -> Option<&str> {
        match of {
            FailureDomain::Machine => Some(self.name.as_str()),
            FailureDomain::Rack => self.attribute(attribute::RACK),
            FailureDomain::Switch => self.attribute(attribute::SWITCH),
            FailureDomain::PowerDomain => self.attribute(attribute::POWER_DOMAIN),
        }
    }

    /// The sum of the limits of the tasks placed on it.
    #[must_use]
    pub fn taken(&self) -> Resources {
        self.taken
    }

    /// Capacity minus limits.
    #[must_use]
    pub fn free(&self) -> Resources {
        self.capacity().minus(self.taken)
    }

    /// The sum of the reservations of the tasks placed on it.
    #[must_use]
    pub fn reserved(&self) -> Resources {
        self.reserved
    }

    /// The sum of the limits of the production and monitoring tasks placed on it.
    #[must_use]
    pub fn taken_by_prod(&self) -> Resources {
        self.taken_by_prod
    }

    /// Number of tasks of a job that are placed on it.
    #[must_use]
    pub fn tasks_of(&self, job: CollectionId) -> u32 {
        let before = self.instances.partition_point(|other| other.collection < job);
        let up_to = self.instances.partition_point(|other| other.collection <= job);
        u32::try_from(up_to.saturating_sub(before)).unwrap_or(u32::MAX)
    }

    /// The instances placed on it, in order.
    #[must_use]
    pub fn instances(&self) -> &[InstanceId] {
        &self.instances
    }

    /// The sum of the limits of the tasks in an alloc; `None` if no task runs in it.
    #[must_use]
    pub fn used(&self, alloc: InstanceId) -> Option<Resources> {
        let position = self.used.binary_search_by_key(&alloc, |used| used.alloc).ok()?;
        self.used.get(position).map(|used| used.taken)
    }

    /// The ports of an alloc's own network that tasks in it have, in order.
    #[must_use]
    pub fn ports_in(&self, alloc: InstanceId) -> &[u16] {
        let position = self.used.binary_search_by_key(&alloc, |used| used.alloc);
        position.ok().and_then(|at| self.used.get(at)).map_or(&[], |used| &used.ports)
    }

    /// The addresses assigned to its tasks and allocs, in order.
    #[must_use]
    pub fn addresses_taken(&self) -> &[Ipv4Addr] {
        &self.addresses_taken
    }

    /// The ports assigned to its tasks, in order.
    #[must_use]
    pub fn ports_taken(&self) -> &[u16] {
        &self.ports_taken
    }

    /// Recomputes its attributes and the factor of its cores.
    pub(crate) fn derive(&mut self, platforms: &imbl::OrdMap<String, GcuFactor>) {
        let mut attributes = self.report.attributes.clone();
        attributes.extend(
            self.operator_attributes.iter().map(|(name, value)| (name.clone(), value.clone())),
        );
        self.gcu = attributes
            .get(attribute::PLATFORM)
            .and_then(|platform| platforms.get(platform))
            .copied()
            .unwrap_or_default();
        self.attributes = Arc::new(attributes);
    }

    /// Number of its ports that are neither assigned to a task nor held by anything else.
    #[must_use]
    pub fn free_port_count(&self) -> usize {
        // A task may still have ports that the machine no longer offers.
        let range = self.report.ports;
        range.len().saturating_sub(self.taken_within(range)).saturating_sub(self.held_port_count())
    }

    /// Number of its ports that are not assigned to a task but held by something else.
    #[must_use]
    pub fn held_port_count(&self) -> usize {
        let range = self.report.ports;
        let held = self.report.held_ports.iter().map(|held| {
            let (first, last) =
                (held.ports.first.max(range.first), held.ports.last.min(range.last));
            let held = PortRange { first, last };
            held.len().saturating_sub(self.taken_within(held))
        });
        held.sum()
    }

    /// Number of ports in a range that are assigned to tasks.
    fn taken_within(&self, range: PortRange) -> usize {
        let below = self.ports_taken.partition_point(|port| *port < range.first);
        let up_to = self.ports_taken.partition_point(|port| *port <= range.last);
        up_to.saturating_sub(below)
    }

    /// Whether a port is in its range, not assigned to a task, and not held by anything else.
    #[must_use]
    pub fn is_free_port(&self, port: u16) -> bool {
        self.report.ports.contains(port)
            && self.ports_taken.binary_search(&port).is_err()
            && self.report.holder_of(port).is_none()
    }

    /// Up to `count` free ports, in search order. `also_taken` are ports that the caller has
    /// planned for other tasks.
    #[must_use]
    pub fn free_ports(&self, count: usize, also_taken: &[u16]) -> Vec<u16> {
        let range = self.report.ports;
        let start = if range.contains(self.next_port) { self.next_port } else { range.first };
        let free = |port: &u16| self.is_free_port(*port) && !also_taken.contains(port);
        (start..=range.last).chain(range.first..start).filter(free).take(count).collect()
    }

    /// Number of addresses that it can give to further tasks and allocs.
    #[must_use]
    pub fn free_address_count(&self) -> usize {
        let Some(range) = self.report.task_network else { return 0 };
        // A task may still have an address that the machine no longer offers.
        let taken = self.addresses_taken.iter().filter(|address| range.is_of_task(**address));
        range.task_count().saturating_sub(taken.count())
    }

    /// Whether an address is in its range, and no task or alloc has it.
    #[must_use]
    pub fn is_free_address(&self, address: Ipv4Addr) -> bool {
        self.report.task_network.is_some_and(|range| range.is_of_task(address))
            && self.addresses_taken.binary_search(&address).is_err()
    }

    /// A free address, the first in search order. `also_taken` are addresses that the caller has
    /// planned for other tasks.
    #[must_use]
    pub fn free_address(&self, also_taken: &[Ipv4Addr]) -> Option<Ipv4Addr> {
        let range = self.report.task_network?;
        let free = |address: &Ipv4Addr| {
            self.addresses_taken.binary_search(address).is_err() && !also_taken.contains(address)
        };
        range.task_addresses(self.next_address).find(free)
    }

    /// How many of its physical cores tasks can have as a whole: it says so itself, and always keeps one
    /// for those that share.
    #[must_use]
    pub fn whole_core_count(&self) -> u64 {
        self.reported_number(attribute::EXCLUSIVE_CORES).unwrap_or(0)
    }

    /// The number of physical cores that are at least as much as some normalised cores.
    #[must_use]
    pub fn whole_cores(&self, normalised: MilliCores) -> u64 {
        let threads = self.reported_number(attribute::THREADS_PER_CORE).unwrap_or(1).max(1);
        self.gcu.physical(normalised).0.div_ceil(threads.saturating_mul(1_000))
    }

    /// Number of physical cores that further tasks can have as a whole.
    #[must_use]
    pub fn free_whole_cores(&self) -> u64 {
        let taken = self.exclusive.iter().map(|limit| self.whole_cores(*limit));
        self.whole_core_count().saturating_sub(taken.fold(0, u64::saturating_add))
    }

    /// A number among the attributes that it reports itself.
    fn reported_number(&self, name: &str) -> Option<u64> {
        self.report.attributes.get(name)?.parse().ok()
    }

    /// Updates what an instance placed on it counts for.
    pub(crate) fn resize(&mut self, old: &Demand, new: &Demand) {
        self.let_go(old);
        self.hold(new);
    }

    fn hold(&mut self, demand: &Demand) {
        self.taken = self.taken.plus(demand.limit);
        self.reserved = self.reserved.plus(demand.reservation);
        if demand.prod {
            self.taken_by_prod = self.taken_by_prod.plus(demand.limit);
        }
        if demand.exclusive {
            let position = self.exclusive.partition_point(|other| *other < demand.limit.cpu);
            self.exclusive.insert(position, demand.limit.cpu);
        }
    }

    fn let_go(&mut self, demand: &Demand) {
        self.taken = self.taken.minus(demand.limit);
        self.reserved = self.reserved.minus(demand.reservation);
        if demand.prod {
            self.taken_by_prod = self.taken_by_prod.minus(demand.limit);
        }
        if demand.exclusive
            && let Ok(position) = self.exclusive.binary_search(&demand.limit.cpu)
        {
            self.exclusive.remove(position);
        }
    }

    pub(crate) fn place(&mut self, instance: InstanceId, demand: &Demand, placed: &Placement) {
        if let Err(position) = self.instances.binary_search(&instance) {
            self.instances.insert(position, instance);
            self.hold(demand);
            self.ports_taken.extend_from_slice(placed.machine_ports());
            self.ports_taken.sort_unstable();
            if let Some(address) = placed.machine_address()
                && let Err(position) = self.addresses_taken.binary_search(&address)
            {
                self.addresses_taken.insert(position, address);
            }
        }
    }

    /// Adds a task, with its limit and the ports that it has there, to an alloc.
    pub(crate) fn enter(&mut self, alloc: InstanceId, limit: Resources, ports: &[u16]) {
        match self.used.binary_search_by_key(&alloc, |used| used.alloc) {
            Ok(position) => {
                let used = &mut self.used[position];
                (used.tasks, used.taken) = (used.tasks + 1, used.taken.plus(limit));
                used.ports.extend_from_slice(ports);
                used.ports.sort_unstable();
            }
            Err(position) => {
                let mut ports = ports.to_vec();
                ports.sort_unstable();
                self.used.insert(position, Used { alloc, tasks: 1, taken: limit, ports });
            }
        }
    }

    /// Removes a task, with its limit and its ports there, from an alloc.
    pub(crate) fn leave(&mut self, alloc: InstanceId, limit: Resources, ports: &[u16]) {
        let Ok(position) = self.used.binary_search_by_key(&alloc, |used| used.alloc) else {
            return;
        };
        let used = &mut self.used[position];
        (used.tasks, used.taken) = (used.tasks.saturating_sub(1), used.taken.minus(limit));
        used.ports.retain(|port| !ports.contains(port));
        if used.tasks == 0 {
            self.used.remove(position);
        }
    }

    pub(crate) fn release(&mut self, instance: InstanceId, demand: &Demand, placed: &Placement) {
        if let Ok(position) = self.instances.binary_search(&instance) {
            self.instances.remove(position);
            self.let_go(demand);
            // Another task may wait for a port with a static number.
            for port in placed.machine_ports() {
                if let Ok(position) = self.ports_taken.binary_search(port) {
                    self.ports_taken.remove(position);
                }
            }
            if let Some(address) = placed.machine_address() {
                self.addresses_taken.retain(|taken| *taken != address);
            }
        }
    }
}

#[cfg(test)]
impl Machine {
    /// A machine with arbitrary values.
    pub(crate) fn testing() -> Self {
        let name = MachineName::new("m1").expect("a name");
        Self::new(MachineId(1), name, "127.0.0.1:1".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{CollectionId, Generation, HeldPorts, TaskIndex};

    fn machine(first: u16, last: u16) -> Machine {
        let mut machine = Machine::testing();
        let ports = PortRange { first, last };
        machine.report = Arc::new(MachineReport { ports, ..MachineReport::default() });
        machine
    }

    #[test]
    fn free_ports_go_round_and_leave_out_what_is_taken() {
        let mut machine = machine(10, 14);
        let instance = InstanceId {
            collection: CollectionId(1),
            index: TaskIndex(0),
            generation: Generation(1),
        };
        machine.place(instance, &Demand::default(), &Placement::testing(&[11], None));
        machine.next_port = 13;
        assert_eq!(machine.free_ports(9, &[]), [13, 14, 10, 12]);
        assert_eq!(machine.free_ports(2, &[14]), [13, 10]);
        machine.release(instance, &Demand::default(), &Placement::testing(&[11], None));
        assert_eq!(machine.free_ports(9, &[]).len(), 5);
    }

    #[test]
    fn a_machine_without_ports_has_none_to_give() {
        assert_eq!(machine(0, 0).free_ports(1, &[]), Vec::<u16>::new());
        assert_eq!(machine(u16::MAX, u16::MAX).free_ports(2, &[]), [u16::MAX]);
    }

    #[test]
    fn ports_are_counted_as_the_machine_gives_them_now() {
        let mut machine = machine(10, 11);
        let instance = InstanceId {
            collection: CollectionId(1),
            index: TaskIndex(0),
            generation: Generation(1),
        };
        machine.place(instance, &Demand::default(), &Placement::testing(&[10, 11], None));
        for (first, last, free) in [(10, 11, 0), (11, 12, 1), (20, 21, 2), (0, 0, 0)] {
            let ports = PortRange { first, last };
            machine.report = Arc::new(MachineReport { ports, ..MachineReport::default() });
            assert_eq!(machine.free_port_count(), free, "{ports}");
            assert_eq!(machine.free_ports(9, &[]).len(), free, "{ports}");
        }
    }

    #[test]
    fn ports_that_something_else_holds_are_not_given() {
        let mut machine = machine(10, 19);
        let held = |first, last| HeldPorts {
            ports: PortRange { first, last },
            by: "/ssh.service (sshd)".to_owned(),
        };
        let report = Arc::make_mut(&mut machine.report);
        // Ports beyond the range do not count, and an invalid range is ignored.
        report.held_ports = vec![held(5, 11), held(14, 14), held(17, 16), held(19, 30)];
        assert_eq!(machine.free_ports(9, &[]), [12, 13, 15, 16, 17, 18]);
        assert_eq!((machine.free_port_count(), machine.held_port_count()), (6, 4));
        machine.next_port = 16;
        assert_eq!(machine.free_ports(3, &[17]), [16, 18, 12]);
        let instance = InstanceId {
            collection: CollectionId(1),
            index: TaskIndex(0),
            generation: Generation(1),
        };
        machine.place(instance, &Demand::default(), &Placement::testing(&[11, 12], None));
        assert_eq!(machine.free_ports(9, &[]), [16, 17, 18, 13, 15]);
        assert_eq!(
            (machine.free_port_count(), machine.held_port_count()),
            (5, 3),
            "11 is a task's"
        );
    }

    #[test]
    fn addresses_go_round_and_are_free_again_when_their_task_has_left() {
        let mut machine = Machine::testing();
        assert_eq!((machine.free_address(&[]), machine.free_address_count()), (None, 0));
        let range = "10.64.5.0/29".parse().ok();
        machine.report = Arc::new(MachineReport { task_network: range, ..Default::default() });
        let at = |last| Ipv4Addr::new(10, 64, 5, last);
        assert_eq!((machine.free_address(&[]), machine.free_address_count()), (Some(at(2)), 5));
        let instance = InstanceId {
            collection: CollectionId(1),
            index: TaskIndex(0),
            generation: Generation(1),
        };
        // Its ports are its own, so the machine's are not taken.
        let placed = Placement::testing(&[80], Some(at(2)));
        machine.place(instance, &Demand::default(), &placed);
        assert_eq!(machine.ports_taken(), [0; 0]);
        assert_eq!((machine.addresses_taken(), machine.free_address_count()), (&[at(2)][..], 4));
        assert!(!machine.is_free_address(at(2)) && machine.is_free_address(at(3)));
        assert_eq!(machine.free_address(&[at(3)]), Some(at(4)));
        machine.next_address = at(6);
        assert_eq!(machine.free_address(&[at(6)]), Some(at(3)));
        // It keeps its address although the machine offers others now.
        let range = "10.64.6.0/30".parse().ok();
        machine.report = Arc::new(MachineReport { task_network: range, ..Default::default() });
        assert_eq!(machine.free_address_count(), 1);
        machine.release(instance, &Demand::default(), &placed);
        assert_eq!(machine.addresses_taken(), [Ipv4Addr::UNSPECIFIED; 0]);
    }
}
