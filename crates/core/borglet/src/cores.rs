//! Which tasks have which whole cores (paper, section 6.2: "LS tasks can reserve entire physical CPU cores,
//! which stops other LS tasks from using them").

use std::collections::BTreeSet;

use model::MilliCores;

/// The CPUs of a machine. A CPU is a hardware thread; the threads of a physical core are given to one task
/// together, because they take time from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The physical cores: the numbers of the CPUs of each, in order. Empty if tasks cannot have CPUs of
    /// their own here.
    pub cores: Vec<Vec<u32>>,
    /// CPUs that belong to no core of which every thread can be used. They are always shared.
    pub rest: Vec<u32>,
}

impl Topology {
    /// The smallest number of threads of a core; 1 without cores.
    #[must_use]
    pub fn threads(&self) -> u64 {
        let fewest = self.cores.iter().map(Vec::len).min().unwrap_or(1);
        u64::try_from(fewest).unwrap_or(u64::MAX).max(1)
    }

    /// How many cores tasks can have as a whole: one always remains for those that share.
    #[must_use]
    pub fn exclusive_max(&self) -> usize {
        self.cores.len().saturating_sub(1)
    }

    /// The number of cores for a limit in this machine's own CPUs.
    pub(crate) fn wanted(&self, limit: MilliCores) -> usize {
        let cores = limit.0.div_ceil(self.threads().saturating_mul(1_000));
        usize::try_from(cores).unwrap_or(usize::MAX)
    }

    /// The CPUs of that many cores of which none is taken: the last ones, because systems use the first
    /// for interrupts and for much else. `None` if there are too few.
    pub(crate) fn choose(&self, count: usize, taken: &BTreeSet<u32>) -> Option<Vec<u32>> {
        let is_free = |core: &&Vec<u32>| !core.iter().any(|cpu| taken.contains(cpu));
        let free: Vec<&Vec<u32>> = self.cores.iter().filter(is_free).collect();
        let left = free.len().checked_sub(count)?;
        // What others have, and this, is at most what can be had.
        let have = self.cores.len() - free.len();
        if count > self.exclusive_max().saturating_sub(have) {
            return None;
        }
        let mut cpus: Vec<u32> =
            free[left..].iter().flat_map(|core| core.iter().copied()).collect();
        cpus.sort_unstable();
        Some(cpus)
    }

    /// The CPUs of those that share, if these are taken: never none where there are CPUs at all.
    pub(crate) fn shared(&self, taken: &BTreeSet<u32>) -> Vec<u32> {
        let all = self.cores.iter().flatten().chain(&self.rest).copied();
        let mut shared: Vec<u32> = all.filter(|cpu| !taken.contains(cpu)).collect();
        if shared.is_empty() {
            // The machine has lost CPUs since they were given away.
            shared = self.cores.first().unwrap_or(&self.rest).clone();
        }
        shared.sort_unstable();
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(cores: &[&[u32]], rest: &[u32]) -> Topology {
        Topology { cores: cores.iter().map(|core| core.to_vec()).collect(), rest: rest.to_vec() }
    }

    #[test]
    fn cores_are_chosen_whole_from_the_end_and_one_is_left() {
        let plain = topology(&[&[0], &[1], &[2], &[3]], &[]);
        let threads = topology(&[&[0, 4], &[1, 5], &[2, 6]], &[]);
        let mixed = topology(&[&[0, 1], &[2], &[3]], &[7]);
        // The machine, the limit in thousandths, what is taken; what is given, and what is then shared.
        type Row<'a> = (&'a Topology, u64, &'a [u32], Option<&'a [u32]>, &'a [u32]);
        let table: [Row<'_>; 11] = [
            (&plain, 1_000, &[], Some(&[3]), &[0, 1, 2]),
            (&plain, 1_001, &[], Some(&[2, 3]), &[0, 1]),
            (&plain, 3_000, &[], Some(&[1, 2, 3]), &[0]),
            (&plain, 4_000, &[], None, &[0, 1, 2, 3]),
            (&plain, 1_000, &[3], Some(&[2]), &[0, 1]),
            (&plain, 1_000, &[2], Some(&[3]), &[0, 1]),
            (&plain, 2_000, &[2, 3], None, &[0, 1]),
            (&threads, 1_000, &[], Some(&[2, 6]), &[0, 1, 4, 5]),
            (&threads, 3_000, &[], Some(&[1, 2, 5, 6]), &[0, 4]),
            (&threads, 1_000, &[6], Some(&[1, 5]), &[0, 2, 4]),
            (&mixed, 2_000, &[], Some(&[2, 3]), &[0, 1, 7]),
        ];
        for (topology, limit, taken, given, shared) in table {
            let mut taken: BTreeSet<u32> = taken.iter().copied().collect();
            let chosen = topology.choose(topology.wanted(MilliCores(limit)), &taken);
            assert_eq!(chosen.as_deref(), given, "{limit} of {topology:?} beside {taken:?}");
            taken.extend(chosen.unwrap_or_default());
            assert_eq!(topology.shared(&taken), shared);
        }
    }

    #[test]
    fn one_cpu_always_stays_shared_if_there_is_any() {
        let all =
            |taken: &[u32], topology: Topology| topology.shared(&taken.iter().copied().collect());
        assert_eq!(all(&[], Topology::default()), [0; 0]);
        assert_eq!(all(&[0, 1], topology(&[&[0], &[1]], &[])), [0]);
        assert_eq!(all(&[0], topology(&[], &[0])), [0]);
        assert_eq!(Topology::default().choose(1, &BTreeSet::new()), None);
        assert_eq!((Topology::default().threads(), Topology::default().exclusive_max()), (1, 0));
    }
}
