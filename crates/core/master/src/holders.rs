//! Which machines have a package, or are fetching it, as far as they have asked for the right to read it.
//!
//! It is in the memory of each replica, and may be wrong: a machine that is named and has nothing is asked in vain, and one
//! that is forgotten is not asked. So nothing of it is in the log.

use std::collections::{BTreeMap, VecDeque};

use model::{Digest, MachineName, Random, Span, Time};

/// How many machines are named to one that fetches.
pub const HOLDERS_NAMED: usize = 8;
/// How many packages of a machine are remembered, those that it asked for last.
const PACKAGES_OF_A_MACHINE_MAX: usize = 64;
/// How many machines of a package are remembered, those that asked last.
const MACHINES_OF_A_PACKAGE_MAX: usize = 1_024;
/// How long a machine counts after it has asked: it removes layers that it has not used for a day.
const REMEMBERED: Span = Span::from_secs(24 * 60 * 60);

/// The machines of packages, by the digests of their manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// When each machine asked last.
    packages: BTreeMap<Digest, BTreeMap<MachineName, Time>>,
    /// The packages of each machine, oldest first.
    machines: BTreeMap<MachineName, VecDeque<Digest>>,
}

impl Holders {
    /// A machine may read a package from now on.
    pub fn asked(&mut self, machine: &MachineName, package: Digest, now: Time) {
        let of_machine = self.machines.entry(machine.clone()).or_default();
        of_machine.retain(|it| *it != package);
        of_machine.push_back(package);
        if of_machine.len() > PACKAGES_OF_A_MACHINE_MAX
            && let Some(oldest) = of_machine.pop_front()
        {
            self.forget(machine, oldest);
        }
        let of_package = self.packages.entry(package).or_default();
        of_package.insert(machine.clone(), now);
        if of_package.len() > MACHINES_OF_A_PACKAGE_MAX {
            let oldest = of_package.iter().min_by_key(|(_, asked)| **asked);
            let oldest = oldest.map(|(machine, _)| machine.clone());
            if let Some(oldest) = oldest {
                self.remove(&oldest, package);
            }
        }
    }

    /// At most [`HOLDERS_NAMED`] machines that have a package, for one that fetches it: those nearby first, and others for
    /// each that asks, so that none is asked by all. `nearby` says of a machine whether it is; `None`: it is not up.
    pub fn of(
        &mut self,
        package: Digest,
        machine: &MachineName,
        now: Time,
        nearby: impl Fn(&MachineName) -> Option<bool>,
    ) -> Vec<MachineName> {
        let Some(all) = self.packages.get(&package) else { return Vec::new() };
        let is_old = |asked: &Time| now.since(*asked) >= REMEMBERED;
        let old: Vec<MachineName> =
            all.iter().filter(|(_, asked)| is_old(asked)).map(|(name, _)| name.clone()).collect();
        let seed = weight(machine, 0);
        let others = all.iter().filter(|(name, asked)| *name != machine && !is_old(asked));
        let mut others: Vec<_> = others
            .filter_map(|(name, _)| Some((!nearby(name)?, weight(name, seed), name.clone())))
            .collect();
        others.sort_unstable();
        for name in old {
            self.remove(&name, package);
        }
        others.into_iter().map(|(_, _, name)| name).take(HOLDERS_NAMED).collect()
    }

    /// Forgets machines that are not in the cell any more.
    pub fn retain(&mut self, is_there: impl Fn(&MachineName) -> bool) {
        let gone: Vec<MachineName> =
            self.machines.keys().filter(|name| !is_there(name)).cloned().collect();
        for name in gone {
            for package in self.machines.remove(&name).unwrap_or_default() {
                self.forget(&name, package);
            }
        }
    }

    fn remove(&mut self, machine: &MachineName, package: Digest) {
        if let Some(of_machine) = self.machines.get_mut(machine) {
            of_machine.retain(|it| *it != package);
            if of_machine.is_empty() {
                self.machines.remove(machine);
            }
        }
        self.forget(machine, package);
    }

    fn forget(&mut self, machine: &MachineName, package: Digest) {
        if let Some(of_package) = self.packages.get_mut(&package) {
            of_package.remove(machine);
            if of_package.is_empty() {
                self.packages.remove(&package);
            }
        }
    }
}

/// A number of a name that differs by the seed.
fn weight(name: &MachineName, seed: u64) -> u64 {
    name.as_str().bytes().fold(seed, |all, byte| Random::mixed(all ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> MachineName {
        format!("m{number}").parse().expect("a name")
    }

    fn package(number: u8) -> Digest {
        Digest::from_bytes([number; Digest::BYTES])
    }

    fn near(_: &MachineName) -> Option<bool> {
        Some(true)
    }

    #[test]
    fn machines_that_asked_are_named_to_others_and_the_load_is_spread() {
        let mut holders = Holders::default();
        assert_eq!(holders.of(package(1), &name(0), Time(5), near), []);
        for number in 0..24 {
            holders.asked(&name(number), package(1), Time(5));
        }
        let mut named = BTreeMap::<MachineName, usize>::new();
        for number in 0..24 {
            let some = holders.of(package(1), &name(number), Time(6), near);
            assert_eq!(some.len(), HOLDERS_NAMED);
            assert!(!some.contains(&name(number)), "itself");
            assert_eq!(some, holders.of(package(1), &name(number), Time(6), near));
            for one in some {
                *named.entry(one).or_default() += 1;
            }
        }
        assert!(named.len() > 20 && named.values().all(|times| *times <= 18), "{named:?}");
        assert_eq!(holders.of(package(2), &name(0), Time(6), near), []);
    }

    #[test]
    fn those_nearby_come_first_and_those_that_are_down_not_at_all() {
        let mut holders = Holders::default();
        for number in 0..20 {
            holders.asked(&name(number), package(1), Time(5));
        }
        let nearby = |machine: &MachineName| match machine.as_str() {
            "m3" | "m4" => Some(true),
            "m5" => None,
            _ => Some(false),
        };
        let some = holders.of(package(1), &name(19), Time(5), nearby);
        let mut first: Vec<_> = some.iter().take(2).cloned().collect();
        first.sort();
        assert_eq!(first, [name(3), name(4)]);
        assert!(!some.contains(&name(5)));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ends() {
        let mut holders = Holders::default();
        for number in 0..=PACKAGES_OF_A_MACHINE_MAX {
            holders.asked(&name(1), package(u8::try_from(number).expect("few")), Time(5));
        }
        assert_eq!(
            holders.of(package(0), &name(2), Time(5), near),
            [],
            "the oldest of its packages"
        );
        assert_eq!(holders.of(package(1), &name(2), Time(5), near), [name(1)]);
        let later = Time(5) + REMEMBERED;
        assert_eq!(holders.of(package(1), &name(2), later, near), []);
        assert_eq!(holders.of(package(1), &name(2), Time(5), near), [], "it is forgotten");
        let mut holders = Holders::default();
        for number in 0..MACHINES_OF_A_PACKAGE_MAX + 5 {
            holders.asked(&name(number), package(1), Time(number as u64));
        }
        assert_eq!(holders.machines.len(), MACHINES_OF_A_PACKAGE_MAX);
        holders.retain(|machine| *machine == name(100));
        assert_eq!(holders.of(package(1), &name(2), Time(9_999), near), [name(100)]);
        holders.retain(|_| false);
        assert_eq!(holders, Holders::default());
    }
}
