//! The packages on machines, as the Borglets send them with their answers. In memory only: after a restart, or if
//! another replica polls a machine, its Borglet sends its list again.
//!
//! Each replica has the lists of the machines that it polls. Schedulers ask all replicas for what has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use api::v1;
use model::{DigestPrefix, HELD_PACKAGES_MAX, HeldPackage, MachineId};
use placement::HeldByMachine;

/// A machine that was not heard of for so long is polled by another replica now, or gone.
const UNHEARD_MAX: Duration = Duration::from_secs(120);
/// About how many packages one answer to a scheduler has at most: 4 MiB of them.
const PACKAGES_AT_ONCE: usize = 128 << 10;

/// The packages on the machines that a replica polls.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    /// Tells this start of the replica from others.
    epoch: u64,
    all: Mutex<AllHeld>,
}

#[derive(Debug, Default)]
struct AllHeld {
    machines: BTreeMap<MachineId, MachineHeld>,
    /// The machines in the order of their last changes.
    by_change: BTreeMap<u64, MachineId>,
    last_change: u64,
}

#[derive(Debug)]
struct MachineHeld {
    version: u64,
    packages: Arc<[HeldPackage]>,
    change: u64,
    heard: Instant,
}

impl Default for HeldMemory {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(now.as_micros()).unwrap_or(u64::MAX).max(1);
        Self { epoch, all: Mutex::default() }
    }
}

impl HeldMemory {
    /// The version of the list of a machine; 0 if there is none.
    pub(crate) fn version(&self, machine: MachineId) -> u64 {
        self.lock().machines.get(&machine).map_or(0, |held| held.version)
    }

    /// Takes in a machine's answer: its list if that has changed. A list that cannot be read, or is too long, is left
    /// out; the poll still succeeded.
    pub(crate) fn take_in(&self, machine: MachineId, list: Option<v1::HeldPackages>, now: Instant) {
        let mut all = self.lock();
        if let Some(held) = all.machines.get_mut(&machine) {
            held.heard = now;
        }
        let Some(list) = list.filter(|list| list.packages.len() <= HELD_PACKAGES_MAX) else {
            return;
        };
        let read: Result<Vec<_>, _> =
            list.packages.into_iter().map(HeldPackage::try_from).collect();
        let Ok(packages) = read else { return };
        all.forget_unheard(now);
        all.last_change += 1;
        let change = all.last_change;
        let held =
            MachineHeld { version: list.version, packages: packages.into(), change, heard: now };
        if let Some(before) = all.machines.insert(machine, held) {
            all.by_change.remove(&before.change);
        }
        all.by_change.insert(change, machine);
    }

    /// What has changed since an answer.
    pub(crate) fn changes(
        &self,
        asked: &v1::ListHeldPackagesRequest,
        now: Instant,
    ) -> v1::ListHeldPackagesResponse {
        let mut all = self.lock();
        all.forget_unheard(now);
        let mut after = if asked.epoch == self.epoch { asked.after } else { 0 };
        let (mut machines, mut count, mut more) = (Vec::new(), 0, false);
        for (change, machine) in all.by_change.range(after.saturating_add(1)..) {
            if count >= PACKAGES_AT_ONCE {
                more = true;
                break;
            }
            after = *change;
            if let Some(held) = all.machines.get(machine) {
                count += held.packages.len();
                machines.push(v1::list_held_packages_response::MachinePackages {
                    machine: machine.0,
                    packages: held.packages.iter().map(Into::into).collect(),
                });
            }
        }
        v1::ListHeldPackagesResponse { epoch: self.epoch, after, machines, more }
    }

    /// The lists of some machines, and what all machines have of some packages.
    pub(crate) fn of(
        &self,
        machines: &[MachineId],
        packages: &BTreeSet<DigestPrefix>,
        now: Instant,
    ) -> HeldByMachine {
        let mut all = self.lock();
        all.forget_unheard(now);
        let known = |id: &MachineId| Some((*id, Arc::clone(&all.machines.get(id)?.packages)));
        let mut found: HeldByMachine = machines.iter().filter_map(known).collect();
        if packages.is_empty() {
            return found;
        }
        for (id, held) in &all.machines {
            let of_it = held.packages.iter().filter(|held| packages.contains(&held.package));
            let of_it: Arc<[HeldPackage]> = of_it.copied().collect();
            if !of_it.is_empty() {
                found.entry(*id).or_insert(of_it);
            }
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, AllHeld> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AllHeld {
    /// Another replica has what these machines have now, and if one comes back here, it sends its list again.
    fn forget_unheard(&mut self, now: Instant) {
        let by_change = &mut self.by_change;
        self.machines.retain(|_, held| {
            let is_heard = now.saturating_duration_since(held.heard) <= UNHEARD_MAX;
            if !is_heard {
                by_change.remove(&held.change);
            }
            is_heard
        });
    }
}

#[cfg(test)]
mod tests {
    use model::{Bytes, HeldUse, held_version};

    use super::*;

    const M1: MachineId = MachineId(1);
    const M2: MachineId = MachineId(2);

    fn list(packages: &[u64]) -> v1::HeldPackages {
        let held = |package: &u64| HeldPackage {
            package: DigestPrefix(*package),
            bytes: Bytes(5),
            needs: Bytes(10),
            held_use: HeldUse::InUse,
        };
        let packages: Vec<HeldPackage> = packages.iter().map(held).collect();
        let version = held_version(&packages);
        v1::HeldPackages { version, packages: packages.iter().map(Into::into).collect() }
    }

    fn names(answer: &v1::ListHeldPackagesResponse) -> Vec<(u64, usize)> {
        answer.machines.iter().map(|one| (one.machine, one.packages.len())).collect()
    }

    #[test]
    fn a_scheduler_gets_each_change_once_and_everything_after_a_restart() {
        let (memory, now) = (HeldMemory::default(), Instant::now());
        memory.take_in(M1, Some(list(&[1])), now);
        memory.take_in(M2, Some(list(&[1, 2])), now);
        let first = memory.changes(&v1::ListHeldPackagesRequest::default(), now);
        assert_eq!(names(&first), [(1, 1), (2, 2)]);
        let after = |answer: &v1::ListHeldPackagesResponse| v1::ListHeldPackagesRequest {
            epoch: answer.epoch,
            after: answer.after,
        };
        assert_eq!(names(&memory.changes(&after(&first), now)), []);
        memory.take_in(M1, None, now);
        assert_eq!(names(&memory.changes(&after(&first), now)), [], "the same list is no change");
        memory.take_in(M1, Some(list(&[])), now);
        assert_eq!(names(&memory.changes(&after(&first), now)), [(1, 0)]);
        let other_start = v1::ListHeldPackagesRequest { epoch: 1, after: first.after };
        assert_eq!(names(&memory.changes(&other_start, now)), [(2, 2), (1, 0)]);
    }

    #[test]
    fn a_machine_that_is_not_heard_of_is_forgotten_and_sends_its_list_again() {
        let (memory, now) = (HeldMemory::default(), Instant::now());
        memory.take_in(M1, Some(list(&[1])), now);
        assert_ne!(memory.version(M1), 0);
        let now = now + UNHEARD_MAX + Duration::from_secs(1);
        memory.take_in(M2, Some(list(&[1])), now);
        assert_eq!(memory.version(M1), 0);
        assert_eq!(names(&memory.changes(&v1::ListHeldPackagesRequest::default(), now)), [(2, 1)]);
    }

    #[test]
    fn a_list_that_is_too_long_or_unreadable_changes_nothing() {
        let (memory, now) = (HeldMemory::default(), Instant::now());
        memory.take_in(M1, Some(list(&[1])), now);
        let version = memory.version(M1);
        let one = list(&[1]).packages.remove(0);
        let long = v1::HeldPackages { version: 7, packages: vec![one; HELD_PACKAGES_MAX + 1] };
        memory.take_in(M1, Some(long), now);
        let bad = v1::HeldPackages { version: 8, packages: vec![v1::HeldPackage::default()] };
        memory.take_in(M1, Some(bad), now);
        assert_eq!(memory.version(M1), version);
    }

    #[test]
    fn an_answer_is_bounded_and_says_that_there_is_more() {
        let (memory, now) = (HeldMemory::default(), Instant::now());
        let whole: Vec<u64> = (0..HELD_PACKAGES_MAX as u64).collect();
        for machine in 1..=40 {
            memory.take_in(MachineId(machine), Some(list(&whole)), now);
        }
        let first = memory.changes(&v1::ListHeldPackagesRequest::default(), now);
        assert_eq!((first.machines.len(), first.more), (32, true));
        let (epoch, after) = (first.epoch, first.after);
        let rest = memory.changes(&v1::ListHeldPackagesRequest { epoch, after }, now);
        assert_eq!((rest.machines.len(), rest.more), (8, false));
    }

    #[test]
    fn machines_and_packages_are_found() {
        let (memory, now) = (HeldMemory::default(), Instant::now());
        memory.take_in(M1, Some(list(&[1, 2])), now);
        memory.take_in(M2, Some(list(&[2, 3])), now);
        let count = |machines: &[MachineId], packages: &[u64]| {
            let packages = packages.iter().map(|one| DigestPrefix(*one)).collect();
            let found = memory.of(machines, &packages, now);
            found.into_iter().map(|(id, held)| (id.0, held.len())).collect::<Vec<_>>()
        };
        assert_eq!(count(&[M2, MachineId(9)], &[]), [(2, 2)]);
        assert_eq!(count(&[], &[2]), [(1, 1), (2, 1)]);
        assert_eq!(count(&[], &[3]), [(2, 1)]);
    }
}
