//! Machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    CollectionId, GcuFactor, InstanceId, MachineId, MachineName, MachineReport, PortRange,
    Resources, Time, UserName,
};

use super::crashes::CrashSeen;
use super::{Credentials, Demand};

/// The names of attributes that the cell itself looks at.
pub mod attribute {
    /// What the machine's processor is: cores of one platform do equally much.
    pub const PLATFORM: &str = "platform";
    /// The rack that it stands in.
    pub const RACK: &str = "rack";
    /// The network switch that it is connected to.
    pub const SWITCH: &str = "switch";
    /// What it gets its power from.
    pub const POWER_DOMAIN: &str = "power-domain";
}

/// What can fail with everything in it (paper, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureDomain {
    /// The machine itself.
    Machine,
    /// Its rack.
    Rack,
    /// Its network switch.
    Switch,
    /// What it gets its power from.
    PowerDomain,
}

/// A machine of the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its id.
    pub id: MachineId,
    /// Its name.
    pub name: MachineName,
    /// Where its Borglet answers.
    pub address: Arc<str>,
    /// Whether it answers.
    pub state: MachineState,
    /// Whether it is to be emptied.
    pub drain: Option<Arc<Drain>>,
    /// What it last said of itself; nothing before its first answer.
    pub report: Arc<MachineReport>,
    /// What its operators say of it, which goes before what it says itself.
    pub operator_attributes: Arc<BTreeMap<String, String>>,
    /// From where the next free port is looked for, so that a port rests before it is used again.
    pub next_port: u16,
    /// The tasks that crashed on it lately, and when; the oldest first.
    pub crashes: Vec<CrashSeen>,
    /// What was said of its certificates; nothing where it never enrolled and was never revoked.
    pub credentials: Option<Arc<Credentials>>,

    // Derived from what is said of it and from the cell's platforms.
    pub(crate) attributes: Arc<BTreeMap<String, String>>,
    pub(crate) gcu: GcuFactor,
    // Derived from the tasks that are placed on it.
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) taken: Resources,
    pub(crate) reserved: Resources,
    pub(crate) taken_by_prod: Resources,
    pub(crate) ports_taken: Vec<u16>,
    /// The allocs on it that tasks run in, in order.
    pub(crate) used: Vec<Used>,
}

/// What tasks take of an alloc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// The alloc.
    pub(crate) alloc: InstanceId,
    /// How many tasks run in it: at least 1.
    pub(crate) tasks: u32,
    /// Their limits together.
    pub(crate) taken: Resources,
}

/// Whether a machine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It was added, and has not said yet what it is.
    Joining,
    /// It answers, and tasks can be placed on it.
    Up,
    /// It did not answer several polls: nothing is placed on it, and its tasks stay where they are.
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

/// That a machine is to be emptied: no task is placed on it, and those that are there leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Since when.
    pub since: Time,
    /// Who wants it.
    pub by: UserName,
    /// Why; may be empty.
    pub reason: String,
}

impl Machine {
    /// A machine that was just added.
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
            next_port: 0,
            crashes: Vec::new(),
            credentials: None,
            attributes: Arc::default(),
            gcu: GcuFactor::ONE,
            instances: Vec::new(),
            taken: Resources::default(),
            reserved: Resources::default(),
            taken_by_prod: Resources::default(),
            ports_taken: Vec::new(),
            used: Vec::new(),
        }
    }

    /// What tasks can have of it in all, its cores in the cell's normalised ones.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        let reported = self.report.capacity;
        Resources { cpu: self.gcu.normalised(reported.cpu), ..reported }
    }

    /// How much a core of it does.
    #[must_use]
    pub fn gcu(&self) -> GcuFactor {
        self.gcu
    }

    /// What is known of it: what it says itself, and over it what its operators say.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, String> {
        &self.attributes
    }

    /// One thing that is known of it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// With whom it fails together, where that is known.
    #[must_use]
    pub fn domain(&self, of: FailureDomain) -> Option<&str> {
        match of {
            FailureDomain::Machine => Some(self.name.as_str()),
            FailureDomain::Rack => self.attribute(attribute::RACK),
            FailureDomain::Switch => self.attribute(attribute::SWITCH),
            FailureDomain::PowerDomain => self.attribute(attribute::POWER_DOMAIN),
        }
    }

    /// The limits of the tasks placed on it, together.
    #[must_use]
    pub fn taken(&self) -> Resources {
        self.taken
    }

    /// What is left by limits.
    #[must_use]
    pub fn free(&self) -> Resources {
        self.capacity().minus(self.taken)
    }

    /// The reservations of the tasks placed on it, together.
    #[must_use]
    pub fn reserved(&self) -> Resources {
        self.reserved
    }

    /// The limits of the production and monitoring tasks placed on it, together.
    #[must_use]
    pub fn taken_by_prod(&self) -> Resources {
        self.taken_by_prod
    }

    /// How many tasks of a job are placed on it.
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

    /// The limits of the tasks that run in an alloc, together; none where no task does.
    #[must_use]
    pub fn used(&self, alloc: InstanceId) -> Option<Resources> {
        let position = self.used.binary_search_by_key(&alloc, |used| used.alloc).ok()?;
        self.used.get(position).map(|used| used.taken)
    }

    /// The ports that its tasks have, in order.
    #[must_use]
    pub fn ports_taken(&self) -> &[u16] {
        &self.ports_taken
    }

    /// What is known of it and how much its cores do, from what is said of it.
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

    /// How many of its ports no task has, and nothing else holds.
    #[must_use]
    pub fn free_port_count(&self) -> usize {
        // A task may still have ports that the machine no longer gives.
        let range = self.report.ports;
        range.len().saturating_sub(self.taken_within(range)).saturating_sub(self.held_port_count())
    }

    /// How many of its ports no task has, and something else holds.
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

    /// How many ports of a range its tasks have.
    fn taken_within(&self, range: PortRange) -> usize {
        let below = self.ports_taken.partition_point(|port| *port < range.first);
        let up_to = self.ports_taken.partition_point(|port| *port <= range.last);
        up_to.saturating_sub(below)
    }

    /// Whether a port is one that it gives, no task has, and nothing else holds.
    #[must_use]
    pub fn is_free_port(&self, port: u16) -> bool {
        self.report.ports.contains(port)
            && self.ports_taken.binary_search(&port).is_err()
            && self.report.holder_of(port).is_none()
    }

    /// So many free ports, the one looked for first at the front; fewer where there are fewer.
    /// `also_taken` are ports that somebody has in mind for others.
    #[must_use]
    pub fn free_ports(&self, count: usize, also_taken: &[u16]) -> Vec<u16> {
        let range = self.report.ports;
        let start = if range.contains(self.next_port) { self.next_port } else { range.first };
        let free = |port: &u16| self.is_free_port(*port) && !also_taken.contains(port);
        (start..=range.last).chain(range.first..start).filter(free).take(count).collect()
    }

    /// An instance that is placed on it counts for something else from now on.
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
    }

    fn let_go(&mut self, demand: &Demand) {
        self.taken = self.taken.minus(demand.limit);
        self.reserved = self.reserved.minus(demand.reservation);
        if demand.prod {
            self.taken_by_prod = self.taken_by_prod.minus(demand.limit);
        }
    }

    pub(crate) fn place(&mut self, instance: InstanceId, demand: &Demand, ports: &[u16]) {
        if let Err(position) = self.instances.binary_search(&instance) {
            self.instances.insert(position, instance);
            self.hold(demand);
            self.ports_taken.extend_from_slice(ports);
            self.ports_taken.sort_unstable();
        }
    }

    /// A task enters an alloc, with its limit.
    pub(crate) fn enter(&mut self, alloc: InstanceId, limit: Resources) {
        match self.used.binary_search_by_key(&alloc, |used| used.alloc) {
            Ok(position) => {
                let used = &mut self.used[position];
                (used.tasks, used.taken) = (used.tasks + 1, used.taken.plus(limit));
            }
            Err(position) => self.used.insert(position, Used { alloc, tasks: 1, taken: limit }),
        }
    }

    /// A task leaves an alloc, with its limit.
    pub(crate) fn leave(&mut self, alloc: InstanceId, limit: Resources) {
        let Ok(position) = self.used.binary_search_by_key(&alloc, |used| used.alloc) else {
            return;
        };
        let used = &mut self.used[position];
        (used.tasks, used.taken) = (used.tasks.saturating_sub(1), used.taken.minus(limit));
        if used.tasks == 0 {
            self.used.remove(position);
        }
    }

    pub(crate) fn release(&mut self, instance: InstanceId, demand: &Demand, ports: &[u16]) {
        if let Ok(position) = self.instances.binary_search(&instance) {
            self.instances.remove(position);
            self.let_go(demand);
            self.ports_taken.retain(|port| !ports.contains(port));
        }
    }
}

#[cfg(test)]
impl Machine {
    /// A machine of which nothing matters.
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
        machine.place(instance, &Demand::default(), &[11]);
        machine.next_port = 13;
        assert_eq!(machine.free_ports(9, &[]), [13, 14, 10, 12]);
        assert_eq!(machine.free_ports(2, &[14]), [13, 10]);
        machine.release(instance, &Demand::default(), &[11]);
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
        machine.place(instance, &Demand::default(), &[10, 11]);
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
        // Beyond the range they say nothing, and a range that is none is none.
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
        machine.place(instance, &Demand::default(), &[11, 12]);
        assert_eq!(machine.free_ports(9, &[]), [16, 17, 18, 13, 15]);
        assert_eq!(
            (machine.free_port_count(), machine.held_port_count()),
            (5, 3),
            "11 is a task's"
        );
    }
}
