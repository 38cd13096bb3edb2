//! Which machines have which packages, as they report it.
//!
//! It is no part of the cell: a report that is late or missing costs a fetch, and never a placement.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::Cell;
use model::{Bytes, DigestPrefix, HeldPackage, MachineId, PackageId};

use crate::machines::{Machines, Slot};
use crate::score::WHOLE;

/// Of how many machines that have the most of a task's packages the score is compared, wherever the search for the
/// best machine begins.
const HOLDERS_MAX: usize = 64;

/// What a machine has of a task's packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackagesThere {
    /// What is there, or being fetched.
    pub has: Bytes,
    /// What they take in all.
    pub of: Bytes,
}

/// The packages that machines report.
pub type HeldByMachine = BTreeMap<MachineId, Arc<[HeldPackage]>>;

/// What machines have.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldPackages {
    by_machine: HeldByMachine,
    holders: BTreeMap<DigestPrefix, BTreeMap<MachineId, HeldPackage>>,
    /// Increases with each change.
    version: u64,
}

impl HeldPackages {
    /// Takes in the complete list of a machine, in place of the one before.
    pub(crate) fn set(&mut self, machine: MachineId, held: &Arc<[HeldPackage]>) {
        let before = match held.is_empty() {
            true => self.by_machine.remove(&machine),
            false => self.by_machine.insert(machine, Arc::clone(held)),
        };
        if before.as_deref().unwrap_or_default() == &**held {
            return;
        }
        for old in before.iter().flat_map(|before| before.iter()) {
            if let Some(holders) = self.holders.get_mut(&old.package) {
                holders.remove(&machine);
                if holders.is_empty() {
                    self.holders.remove(&old.package);
                }
            }
        }
        for new in held.iter() {
            self.holders.entry(new.package).or_default().insert(machine, *new);
        }
        self.touch();
    }

    /// What was found of it is out of date.
    pub(crate) fn touch(&mut self) {
        self.version += 1;
    }

    /// What machines have of these packages; `None` if the packages take nothing.
    pub(crate) fn of(
        &self,
        cell: &Cell,
        packages: &[PackageId],
        machines: &Machines,
    ) -> Option<ClassHeld> {
        let (mut size, mut by_slot) = (0_u64, BTreeMap::<Slot, u64>::new());
        for package in packages.iter().filter_map(|id| cell.package(id)) {
            size = size.saturating_add(package.unpacked.0);
            for (machine, held) in self.holders.get(&package.digest.prefix()).into_iter().flatten()
            {
                if let Some(slot) = machines.slot(*machine) {
                    let bytes = by_slot.entry(slot).or_default();
                    *bytes = bytes.saturating_add(held.of(package.unpacked).0);
                }
            }
        }
        (size > 0).then(|| ClassHeld::new(size, by_slot))
    }

    /// A number that increases with each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

/// What machines have of the packages of a class of tasks.
#[derive(Clone, Debug)]
pub(crate) struct ClassHeld {
    /// What the packages take.
    size: Bytes,
    /// The share that is missing on each machine that has something, in the order of the slots.
    missing: Vec<(Slot, u32)>,
    /// The machines with the smallest shares missing, the best first.
    nearest: Vec<Slot>,
}

impl ClassHeld {
    fn new(size: u64, by_slot: BTreeMap<Slot, u64>) -> Self {
        let share = |(slot, bytes): (Slot, u64)| {
            let left = u128::from(size.saturating_sub(bytes)) * u128::from(WHOLE);
            (slot, u32::try_from(left.div_ceil(u128::from(size.max(1)))).unwrap_or(WHOLE))
        };
        let missing: Vec<(Slot, u32)> = by_slot.into_iter().map(share).collect();
        let mut nearest: Vec<(u32, Slot)> =
            missing.iter().map(|(slot, missing)| (*missing, *slot)).collect();
        nearest.sort_unstable();
        nearest.truncate(HOLDERS_MAX);
        let nearest = nearest.into_iter().map(|(_, slot)| slot).collect();
        Self { size: Bytes(size), missing, nearest }
    }

    /// The share of the packages that a machine lacks, in parts of [`WHOLE`].
    pub(crate) fn missing(&self, slot: Slot) -> u32 {
        let found = self.missing.binary_search_by_key(&slot, |(slot, _)| *slot);
        found.map_or(WHOLE, |at| self.missing[at].1)
    }

    /// The machines with the most of them.
    pub(crate) fn nearest(&self) -> &[Slot] {
        &self.nearest
    }

    /// What a machine has of them.
    pub(crate) fn there(&self, slot: Slot) -> PackagesThere {
        let lacks = u128::from(self.size.0) * u128::from(self.missing(slot)) / u128::from(WHOLE);
        let lacks = u64::try_from(lacks).unwrap_or(self.size.0);
        PackagesThere { has: Bytes(self.size.0.saturating_sub(lacks)), of: self.size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_is_a_share_of_the_bytes() {
        let held = ClassHeld::new(100, [(3, 100), (5, 25), (9, 0), (11, 300)].into());
        let missing = [(3, 0), (5, 3_072), (9, WHOLE), (11, 0), (4, WHOLE)];
        for (slot, expected) in missing {
            assert_eq!(held.missing(slot), expected, "slot {slot}");
        }
        assert_eq!(held.nearest(), [3, 11, 5, 9]);
    }

    #[test]
    fn only_the_machines_with_the_most_are_looked_at_everywhere() {
        let by_slot: BTreeMap<Slot, u64> = (0..1_000).map(|slot| (slot, u64::from(slot))).collect();
        let held = ClassHeld::new(1_000, by_slot);
        let best: Vec<Slot> = (936..1_000).rev().collect();
        assert_eq!(held.nearest(), best);
    }
}
