//! The machines as parallel arrays: quantised values for scans, and exact sums beside them. They
//! are updated machine by machine and never rebuilt for a pass.
//!
//! Each machine has a slot. Slots are in a random order, so any run of them is a random sample.
//! Free amounts are rounded up and requested amounts down: a scan passes everything that fits, and
//! `cell::feasibility` verifies each chosen machine.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use cell::feasibility::{Colocated, Offer, Sums};
use cell::{Cell, Demand, FailureDomain, Machine, MachineState};
use model::{Dimension, MachineId, MilliCores, Random, Resources};

use crate::score::WHOLE;

/// Slots are scanned in blocks of this size; the arrays always consist of whole blocks.
pub(crate) const BLOCK: usize = 64;

/// A machine's index in the arrays.
pub(crate) type Slot = u32;

/// Maximum of a quantity in its unit, so that shares can be computed in 32 bits.
const UNITS_MAX: u64 = 1 << 20;

/// An unknown domain.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A vector of quantities in the units of the arrays.
pub(crate) type Units = [i32; 4];

/// The shift, in bits, from each quantity to its unit, in the order of [`Dimension::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shifts([u32; 4]);

impl Shifts {
    fn for_largest(largest: &Resources) -> Self {
        Self(Dimension::ALL.map(|dimension| {
            let bits = u64::BITS - largest.get(dimension).leading_zeros();
            bits.saturating_sub(UNITS_MAX.trailing_zeros())
        }))
    }

    fn down(self, amount: &Resources) -> Units {
        self.units(amount, |_| 0)
    }

    fn up(self, amount: &Resources) -> Units {
        self.units(amount, |shift| (1 << shift) - 1)
    }

    fn units(self, amount: &Resources, more: impl Fn(u32) -> u64) -> Units {
        let mut units = [0; 4];
        for ((unit, dimension), shift) in units.iter_mut().zip(Dimension::ALL).zip(self.0) {
            let amount = amount.get(dimension).saturating_add(more(shift)) >> shift;
            // Anything above the capacity of every machine is equivalent.
            *unit = i32::try_from(amount.min(2 * UNITS_MAX)).unwrap_or(i32::MAX);
        }
        units
    }
}

/// The exact values of a machine, including what the plan holds of it.
#[derive(Clone, Debug, Default)]
struct Exact {
    id: MachineId,
    capacity: Resources,
    /// The sums of the cell and the plan together.
    sums: Sums,
    planned: Sums,
    planned_ports: Vec<u16>,
    planned_static_ports: Vec<u16>,
    /// The ports beyond the machine's range that tasks have.
    static_ports_taken: Vec<u16>,
    planned_addresses: Vec<Ipv4Addr>,
    /// The CPU limits of planned tasks that get whole cores.
    planned_exclusive: Vec<MilliCores>,
}

/// The machines of a cell, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machines {
    slots: BTreeMap<MachineId, Slot>,
    exact: Vec<Exact>,
    /// Number of slots ever assigned; those after them are empty.
    used: usize,
    shifts: Shifts,
    /// By dimension: what is left by the reservations of all tasks.
    pub(crate) free: [Vec<i32>; 4],
    /// By dimension: what is left by the limits of production.
    pub(crate) free_for_prod: [Vec<i32>; 4],
    /// Free ports; −1 if nothing can be placed.
    pub(crate) ports: Vec<i32>,
    /// Free addresses; −1 if nothing can be placed.
    pub(crate) addresses: Vec<i32>,
    /// For CPU and memory: [`WHOLE`] divided by the capacity, in 2^20ths.
    pub(crate) inverse: [Vec<u32>; 2],
    /// The share of the CPU taken by the limits of production.
    pub(crate) share_of_prod: Vec<u32>,
    racks: Domains,
    powers: Domains,
    switches: Domains,
}

/// The failure domains of one kind, numbered in the order of discovery.
#[derive(Clone, Debug, Default)]
struct Domains {
    numbers: BTreeMap<Box<str>, u32>,
    of: Vec<u32>,
}

impl Domains {
    fn set(&mut self, slot: usize, domain: Option<&str>) {
        let number = domain.map_or(NOWHERE, |domain| match self.numbers.get(domain) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.numbers.len()).unwrap_or(NOWHERE);
                self.numbers.insert(domain.into(), number);
                number
            }
        });
        if let Some(of) = self.of.get_mut(slot) {
            *of = number;
        }
    }

    fn at(&self, slot: Slot) -> u32 {
        self.of.get(slot as usize).copied().unwrap_or(NOWHERE)
    }
}

/// The effect of updating a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// It has less room in some respect, and more in none.
    Less,
    /// Tasks may fit now that did not before.
    More,
}

impl Machines {
    /// The machines of a cell, in random order if `shuffled`.
    pub(crate) fn of(cell: &Cell, random: &mut Random, shuffled: bool) -> Self {
        let mut ids: Vec<MachineId> = cell.machines().map(|machine| machine.id).collect();
        if shuffled {
            random.shuffle(&mut ids);
        }
        let largest = |largest: Resources, machine: &std::sync::Arc<Machine>| {
            largest.most(machine.capacity())
        };
        let largest = cell.machines().fold(Resources::default(), largest);
        let mut machines = Self { shifts: Shifts::for_largest(&largest), ..Self::default() };
        for id in ids {
            machines.describe(cell, id);
        }
        machines
    }

    /// Number of slots: a multiple of the block size.
    pub(crate) fn len(&self) -> usize {
        self.exact.len()
    }

    /// Number of slots of removed machines.
    pub(crate) fn gone(&self) -> usize {
        self.used - self.slots.len()
    }

    /// Number of machines.
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn slot(&self, id: MachineId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    pub(crate) fn id(&self, slot: Slot) -> MachineId {
        self.exact.get(slot as usize).map(|exact| exact.id).unwrap_or_default()
    }

    /// Assigns the first unused slot to a machine. Slots of removed machines are not reused; there
    /// are few of them, and a scheduler that starts again has none.
    fn add(&mut self, id: MachineId) -> Slot {
        let next = self.used;
        self.used += 1;
        if next >= self.exact.len() {
            let length = next + BLOCK - next % BLOCK;
            self.exact.resize_with(length, Exact::default);
            for array in self.free.iter_mut().chain(&mut self.free_for_prod) {
                array.resize(length, -1);
            }
            self.ports.resize(length, -1);
            self.addresses.resize(length, -1);
            for array in &mut self.inverse {
                array.resize(length, 0);
            }
            self.share_of_prod.resize(length, 0);
            for domains in [&mut self.racks, &mut self.powers, &mut self.switches] {
                domains.of.resize(length, NOWHERE);
            }
        }
        self.exact[next].id = id;
        let slot = Slot::try_from(next).unwrap_or(Slot::MAX);
        self.slots.insert(id, slot);
        slot
    }

    /// Whether the units of the arrays can represent a machine's capacity; else the arrays have to
    /// be rebuilt.
    pub(crate) fn measures(&self, machine: &Machine) -> bool {
        let units = self.shifts.up(&machine.capacity());
        units.iter().all(|unit| u64::try_from(*unit).is_ok_and(|unit| unit <= UNITS_MAX))
    }

    /// Updates a machine's description.
    pub(crate) fn describe(&mut self, cell: &Cell, id: MachineId) -> (Option<Slot>, Change) {
        let Some(machine) = cell.machine(id) else {
            let Some(slot) = self.slots.remove(&id) else { return (None, Change::None) };
            self.write(slot as usize, -1, -1);
            return (Some(slot), Change::Less);
        };
        let slot = match self.slots.get(&id) {
            Some(slot) => *slot,
            None => self.add(id),
        };
        let at = slot as usize;
        self.racks.set(at, machine.domain(FailureDomain::Rack));
        self.powers.set(at, machine.domain(FailureDomain::PowerDomain));
        self.switches.set(at, machine.domain(FailureDomain::Switch));
        let capacity = machine.capacity();
        let inverse = |amount: i32| {
            let whole = (u64::from(WHOLE) << 20) - 1;
            let amount = u64::try_from(amount).unwrap_or(1).max(1);
            u32::try_from(whole / amount).unwrap_or(u32::MAX)
        };
        // Rounded up, so that no share exceeds a whole.
        let units = self.shifts.up(&capacity);
        self.inverse[0][at] = inverse(units[0]);
        self.inverse[1][at] = inverse(units[1]);
        self.exact[at].capacity = capacity;
        (Some(slot), self.count_again(machine, slot))
    }

    /// Updates the sums of what is placed on a machine.
    pub(crate) fn recount(&mut self, cell: &Cell, id: MachineId) -> (Option<Slot>, Change) {
        let (Some(machine), Some(slot)) = (cell.machine(id), self.slots.get(&id).copied()) else {
            return self.describe(cell, id);
        };
        (Some(slot), self.count_again(machine, slot))
    }

    fn count_again(&mut self, machine: &Machine, slot: Slot) -> Change {
        let at = slot as usize;
        let exact = &mut self.exact[at];
        exact.sums = Sums::of(machine).plus(&exact.planned);
        let range = machine.report.ports;
        let fixed = machine.ports_taken().iter().copied().filter(|port| !range.contains(*port));
        let before = std::mem::replace(&mut exact.static_ports_taken, fixed.collect());
        let has_static = before.iter().any(|port| !exact.static_ports_taken.contains(port));
        let (planned_ports, planned_addresses) =
            (exact.planned_ports.len(), exact.planned_addresses.len());
        let is_up = machine.state == MachineState::Up && !machine.is_set_aside();
        let takes_tasks = is_up && machine.drain.is_none();
        if !takes_tasks {
            return self.write(at, -1, -1);
        }
        let left = |free: usize, planned: usize| {
            i32::try_from(free.saturating_sub(planned)).unwrap_or(i32::MAX)
        };
        let ports = left(machine.free_port_count(), planned_ports);
        let change = self.write(at, ports, left(machine.free_address_count(), planned_addresses));
        // A static port is free again.
        if has_static { Change::More } else { change }
    }

    /// Writes what is free into the arrays, and returns whether that is more.
    fn write(&mut self, at: usize, ports: i32, addresses: i32) -> Change {
        let Exact { capacity, sums, .. } = &self.exact[at];
        let mut free = self.shifts.up(&capacity.minus(sums.reservations));
        let mut free_for_prod = self.shifts.up(&capacity.minus(sums.limits_of_prod));
        let (mut more, mut less) = (ports > self.ports[at], ports < self.ports[at]);
        more |= addresses > self.addresses[at];
        less |= addresses < self.addresses[at];
        (self.ports[at], self.addresses[at]) = (ports, addresses);
        if ports < 0 {
            // No task with any request fits there.
            (free, free_for_prod) = ([-1; 4], [-1; 4]);
        }
        let arrays = self.free.iter_mut().chain(&mut self.free_for_prod);
        for (array, now) in arrays.zip(free.into_iter().chain(free_for_prod)) {
            more |= now > array[at];
            less |= now < array[at];
            array[at] = now;
        }
        let has = self.shifts.up(capacity)[0];
        self.share_of_prod[at] = WHOLE
            .saturating_sub(share(self.free_for_prod[0][at].clamp(0, has), self.inverse[0][at]));
        match (more, less) {
            (true, _) => Change::More,
            (false, true) => Change::Less,
            (false, false) => Change::None,
        }
    }

    /// Reserves resources of a machine for the plan.
    pub(crate) fn plan(
        &mut self,
        slot: Slot,
        demand: &Demand,
        ports: &[u16],
        address: Option<Ipv4Addr>,
    ) -> Change {
        let at = slot as usize;
        let exact = &mut self.exact[at];
        exact.planned.add(demand);
        exact.sums.add(demand);
        exact.planned_ports.extend_from_slice(ports);
        exact.planned_addresses.extend(address);
        exact.planned_exclusive.extend(demand.exclusive.then_some(demand.limit.cpu));
        let left = |before: i32, given: usize| {
            let given = i32::try_from(given).unwrap_or(i32::MAX);
            if before < 0 { -1 } else { before.saturating_sub(given).max(0) }
        };
        let (ports, addresses) = (
            left(self.ports[at], ports.len()),
            left(self.addresses[at], usize::from(address.is_some())),
        );
        self.write(at, ports, addresses)
    }

    /// Releases resources that the plan held. The machine has to be recounted after this.
    pub(crate) fn unplan(
        &mut self,
        slot: Slot,
        demand: &Demand,
        ports: &[u16],
        address: Option<Ipv4Addr>,
    ) {
        let exact = &mut self.exact[slot as usize];
        exact.planned = exact.planned.without(demand);
        exact.planned_ports.retain(|port| !ports.contains(port));
        exact.planned_addresses.retain(|planned| Some(*planned) != address);
        let own = |limit: &MilliCores| demand.exclusive && *limit == demand.limit.cpu;
        if let Some(position) = exact.planned_exclusive.iter().position(own) {
            exact.planned_exclusive.swap_remove(position);
        }
    }

    /// Reserves static ports of a machine for the plan.
    pub(crate) fn plan_static_ports(&mut self, slot: Slot, ports: &[u16]) {
        if let Some(exact) = self.exact.get_mut(slot as usize) {
            exact.planned_static_ports.extend_from_slice(ports);
        }
    }

    /// Releases them, each once: an evicted task may still be planned to leave one to another.
    pub(crate) fn unplan_static_ports(&mut self, slot: Slot, ports: &[u16]) {
        let Some(exact) = self.exact.get_mut(slot as usize) else { return };
        for port in ports {
            let planned = &mut exact.planned_static_ports;
            if let Some(position) = planned.iter().position(|other| other == port) {
                planned.swap_remove(position);
            }
        }
    }

    /// What a machine offers exactly, with the plan's share taken.
    pub(crate) fn offer<'a>(
        &'a self,
        slot: Slot,
        machine: &'a Machine,
        colocated: Colocated,
    ) -> Offer<'a> {
        let Some(exact) = self.exact.get(slot as usize) else { return Offer::of(machine) };
        let offer = exact.sums.offered_by(machine);
        let free_ports = offer.free_ports.saturating_sub(exact.planned_ports.len());
        let free_addresses = offer.free_addresses.saturating_sub(exact.planned_addresses.len());
        let planned = exact.planned_exclusive.iter().map(|limit| machine.whole_cores(*limit));
        let free_cores = offer.free_cores.saturating_sub(planned.fold(0, u64::saturating_add));
        let planned_ports = &exact.planned_static_ports;
        Offer { free_ports, planned_ports, free_addresses, free_cores, colocated, ..offer }
    }

    /// What the plan holds of a machine.
    pub(crate) fn planned(&self, slot: Slot) -> Sums {
        self.exact.get(slot as usize).map(|exact| exact.planned).unwrap_or_default()
    }

    /// The ports of a machine that the plan has assigned.
    pub(crate) fn planned_ports(&self, slot: Slot) -> &[u16] {
        self.exact.get(slot as usize).map_or(&[], |exact| &exact.planned_ports)
    }

    /// The addresses of a machine that the plan has assigned.
    pub(crate) fn planned_addresses(&self, slot: Slot) -> &[Ipv4Addr] {
        self.exact.get(slot as usize).map_or(&[], |exact| &exact.planned_addresses)
    }

    /// A requested amount, rounded down to the units of the arrays.
    pub(crate) fn asked(&self, amount: &Resources) -> Units {
        self.shifts.down(amount)
    }

    /// An offered amount, rounded up to the units of the arrays.
    pub(crate) fn offered(&self, amount: &Resources) -> Units {
        self.shifts.up(amount)
    }

    pub(crate) fn rack(&self, slot: Slot) -> u32 {
        self.racks.at(slot)
    }

    pub(crate) fn power(&self, slot: Slot) -> u32 {
        self.powers.at(slot)
    }

    pub(crate) fn switch(&self, slot: Slot) -> u32 {
        self.switches.at(slot)
    }
}

/// A quantity as a share of its machine's capacity.
#[inline]
pub(crate) fn share(amount: i32, inverse: u32) -> u32 {
    amount.cast_unsigned().wrapping_mul(inverse) >> 20
}
