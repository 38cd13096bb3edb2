//! Decides whether a waiting instance has room beside those that are still here: on the machine, or
//! in its alloc.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::{Dimension, InstanceId, Resources};

/// The dimensions in which a shortage is not just slowness, as it is for CPU and access rates.
const INCOMPRESSIBLE: [Dimension; 2] = [Dimension::Ram, Dimension::Disk];

/// What one instance has and no other can have at the same time: a port, or with the number 0 an
/// address as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address of a network of its own; `None` in the host's.
    address: Option<Ipv4Addr>,
    port: u16,
}

impl Endpoint {
    /// A port of the machine.
    pub(crate) fn host(port: u16) -> Self {
        Self { address: None, port }
    }

    /// A port of a network of an instance's own.
    pub(crate) fn own(address: Ipv4Addr, port: u16) -> Self {
        Self { address: Some(address), port }
    }

    /// An address.
    pub(crate) fn address(address: Ipv4Addr) -> Self {
        Self::own(address, 0)
    }
}

/// The resources in use on the machine and in its allocs.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    machine: Room,
    allocs: BTreeMap<InstanceId, Room>,
}

impl Rooms {
    /// An empty machine.
    pub(crate) fn new(capacity: Resources) -> Self {
        Self { machine: Room::new(capacity), allocs: BTreeMap::new() }
    }

    /// Accounts for an alloc; `leaving` if it is being removed. Its tasks use resources of the
    /// alloc.
    pub(crate) fn take_alloc(
        &mut self,
        alloc: InstanceId,
        limit: Resources,
        address: Option<Ipv4Addr>,
        leaving: bool,
    ) {
        self.machine.take(limit, address.map(Endpoint::address).into_iter(), leaving);
        self.allocs.insert(alloc, Room::new(limit));
    }

    /// Accounts for a task; `stopping` if it is being stopped. Ports always belong to the machine.
    pub(crate) fn take(
        &mut self,
        alloc: Option<InstanceId>,
        limit: Resources,
        ports: impl Iterator<Item = Endpoint>,
        stopping: bool,
    ) {
        match alloc.and_then(|alloc| self.allocs.get_mut(&alloc)) {
            Some(room) => {
                room.take(limit, [].into_iter(), stopping);
                self.machine.take(Resources::default(), ports, false);
            }
            None => self.machine.take(limit, ports, stopping),
        }
    }

    /// Whether a task can start now, in its alloc if it has one.
    pub(crate) fn has(
        &self,
        alloc: Option<InstanceId>,
        limit: Resources,
        ports: impl Iterator<Item = Endpoint>,
    ) -> bool {
        let Some(alloc) = alloc else { return self.machine.has(limit, ports) };
        let room = self.allocs.get(&alloc);
        room.is_some_and(|room| room.has(limit, [].into_iter()))
            && self.machine.has(Resources::default(), ports)
    }

    /// Whether an alloc can be created now.
    pub(crate) fn has_alloc(&self, limit: Resources, address: Option<Ipv4Addr>) -> bool {
        self.machine.has(limit, address.map(Endpoint::address).into_iter())
    }
}

/// The resources in use on a machine or in an alloc.
#[derive(Clone, Debug)]
struct Room {
    capacity: Resources,
    taken: Resources,
    ports: Vec<Endpoint>,
    /// Whether some of them will be freed soon.
    stopping: bool,
}

impl Room {
    /// An empty room.
    fn new(capacity: Resources) -> Self {
        Self { capacity, taken: Resources::default(), ports: Vec::new(), stopping: false }
    }

    /// Accounts for an instance; `stopping` if it is being stopped.
    fn take(&mut self, limit: Resources, ports: impl Iterator<Item = Endpoint>, stopping: bool) {
        self.taken = self.taken.plus(limit);
        self.ports.extend(ports);
        self.stopping |= stopping;
    }

    /// Whether an instance can start now. It can never have a port that is in use. For other
    /// resources it waits only while something is stopping: the cell decided that it runs here and
    /// may count on less room than there is.
    fn has(&self, limit: Resources, mut ports: impl Iterator<Item = Endpoint>) -> bool {
        let fits = |dimension| {
            let (own, taken) = (limit.get(dimension), self.taken.get(dimension));
            own == 0 || taken.saturating_add(own) <= self.capacity.get(dimension)
        };
        let free = !ports.any(|port| self.ports.contains(&port));
        free && (!self.stopping || INCOMPRESSIBLE.into_iter().all(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, MilliCores};

    fn limit([cpu, ram, disk, disk_rate]: [u64; 4]) -> Resources {
        let (cpu, ram) = (MilliCores(cpu), Bytes(ram));
        Resources { cpu, ram, disk: Bytes(disk), disk_rate: Bytes(disk_rate) }
    }

    #[test]
    fn a_task_waits_for_stopping_tasks_unless_it_fits_beside_them() {
        // Capacity 10 in every dimension: what runs, what stops, what waits, and whether it starts.
        let table = [
            ("on an empty machine", None, None, [10; 4], true),
            ("beside what runs", Some([4; 4]), None, [6; 4], true),
            ("more than there is, nothing stops", Some([6; 4]), None, [6; 4], true),
            ("room for all", Some([2; 4]), Some([4; 4]), [4; 4], true),
            ("memory is short", None, Some([1, 8, 1, 1]), [1, 3, 1, 1], false),
            ("disk is short", None, Some([1, 1, 8, 1]), [1, 1, 3, 1], false),
            ("CPU and access rate are not waited for", None, Some([9, 1, 1, 9]), [9; 4], true),
            ("what runs counts too", Some([0, 5, 0, 0]), Some([0, 1, 0, 0]), [0, 5, 0, 0], false),
            ("to the byte", Some([0, 5, 0, 0]), Some([0, 1, 0, 0]), [0, 4, 0, 0], true),
            ("it takes nothing of what is short", Some([12; 4]), Some([1; 4]), [1, 0, 0, 1], true),
            ("sums have an end", Some([u64::MAX; 4]), Some([1; 4]), [1; 4], false),
        ];
        for (what, runs, stops, waits, starts) in table {
            let mut room = Room::new(limit([10; 4]));
            for (taken, stopping) in [(runs, false), (stops, true)] {
                if let Some(taken) = taken {
                    room.take(limit(taken), [].into_iter(), stopping);
                }
            }
            assert_eq!(room.has(limit(waits), [].into_iter()), starts, "{what}");
        }
    }

    #[test]
    fn a_port_has_one_owner_whether_it_stops_or_not() {
        for stopping in [false, true] {
            let mut room = Room::new(limit([10; 4]));
            let ports = |all: &[u16]| all.iter().copied().map(Endpoint::host).collect::<Vec<_>>();
            room.take(limit([1; 4]), ports(&[31_000, 31_001]).into_iter(), stopping);
            assert!(!room.has(limit([1; 4]), ports(&[31_001]).into_iter()));
            assert!(room.has(limit([1; 4]), ports(&[31_002]).into_iter()));
        }
    }

    #[test]
    fn an_address_has_one_owner_and_its_ports_are_its_own() {
        let at = |last| Ipv4Addr::new(10, 64, 5, last);
        let mut room = Room::new(limit([10; 4]));
        let task = [Endpoint::address(at(2)), Endpoint::own(at(2), 80)];
        room.take(limit([1; 4]), task.into_iter(), true);
        for (endpoint, free) in [
            (Endpoint::address(at(2)), false),
            (Endpoint::address(at(3)), true),
            (Endpoint::own(at(2), 80), false),
            (Endpoint::own(at(2), 443), true),
            (Endpoint::own(at(3), 80), true),
            (Endpoint::host(80), true),
        ] {
            assert_eq!(room.has(limit([1; 4]), [endpoint].into_iter()), free, "{endpoint:?}");
        }
    }
}
