//! Which CPUs belong to the same physical core.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::FileError;
use crate::error::At;

/// The CPUs that this process may use. A CPU is a hardware thread: a physical core has several of them if
/// it runs several threads at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// The physical cores of which this process may use every thread: the numbers of their CPUs, in order.
    pub cores: Vec<Vec<u32>>,
    /// The other CPUs, in order.
    pub rest: Vec<u32>,
}

impl Cpus {
    /// Asks the kernel. Where it does not know which threads belong together, each is a core.
    ///
    /// # Errors
    /// When the kernel does not say which CPUs can be used.
    pub fn discover() -> Result<Self, FileError> {
        let usable = usable()?;
        Ok(Self::of(&usable, Path::new("/sys/devices/system/cpu")))
    }

    /// The same with the kernel's description in another directory.
    fn of(usable: &[u32], directory: &Path) -> Self {
        let mut by_core: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
        for cpu in usable {
            let file = directory.join(format!("cpu{cpu}/topology/thread_siblings_list"));
            let siblings = fs::read_to_string(file).ok().and_then(|text| parse(text.trim()));
            let siblings = siblings.filter(|cpus| cpus.contains(cpu)).unwrap_or_else(|| vec![*cpu]);
            by_core.entry(siblings).or_default().push(*cpu);
        }
        let mut found = Self::default();
        for (siblings, cpus) in by_core {
            match siblings == cpus {
                true => found.cores.push(cpus),
                false => found.rest.extend(cpus),
            }
        }
        found.rest.sort_unstable();
        found
    }
}

/// The CPUs on which this process may run, in order; at least one.
///
/// # Errors
/// When the kernel does not say.
pub(crate) fn usable() -> Result<Vec<u32>, FileError> {
    let set = sched_getaffinity(Pid::from_raw(0)).at("ask the kernel for", "the usable CPUs")?;
    let usable = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false));
    Ok(usable.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// A list of numbers as the kernel writes it: `0,4-7`; `None` if it is not one.
fn parse(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let most = u32::try_from(CpuSet::count()).unwrap_or(u32::MAX);
        if first > last || last >= most {
            return None;
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        let table: [(&str, Option<&[u32]>); 7] = [
            ("0", Some(&[0])),
            ("0,4", Some(&[0, 4])),
            ("2-3,0", Some(&[0, 2, 3])),
            ("", None),
            ("3-2", None),
            ("0-4294967295", None),
            ("x", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn threads_of_a_core_go_together_and_half_a_core_is_none() {
        let directory = tempfile::tempdir().unwrap();
        // 0 and 2 are a core, as are 1 and 3, and 4 and 5; 6 is not described.
        for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3"), (4, "4-5")] {
            let place = directory.path().join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
        let found = Cpus::of(&[0, 1, 2, 3, 4, 6], directory.path());
        assert_eq!(found.cores, [vec![0, 2], vec![1, 3], vec![6]]);
        assert_eq!(found.rest, [4]);
    }

    #[test]
    fn the_cpus_of_this_machine_are_each_in_one_place() {
        let found = Cpus::discover().unwrap();
        let mut all: Vec<u32> = found.cores.concat();
        all.extend(&found.rest);
        all.sort_unstable();
        assert_eq!(all, usable().unwrap());
    }
}
