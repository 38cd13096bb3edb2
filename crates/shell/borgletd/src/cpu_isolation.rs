//! How this machine keeps tasks from each other's CPU and disks: what the kernel offers is tried once, at the
//! start. [`super::cgroups`] has which task is where.

use std::path::Path;

use borglet::{CpuCap, Topology};
use linux::Isolation;
use linux::cgroup::{CpuSharing, DiskRate, Hierarchy, make_tiers, try_disk_rate};
use linux::cpus::Cpus;
use model::attribute::{EXCLUSIVE_CORES, THREADS_PER_CORE};

/// The attributes of machines that say what is enforced.
const CPU_ATTRIBUTE: &str = "cpu-isolation";
const IO_ATTRIBUTE: &str = "io-isolation";

/// The name of the cgroup, below that of all tasks, in which the rates of disks are tried, and the rate.
const SCRATCH: &str = "io-isolation";
const TRIED_RATE: u64 = 1 << 30;

/// What this machine enforces.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineIsolation {
    /// Weights by appclass, and whole cores; `None` without cgroups.
    pub(super) cpu: Option<CpuSharing>,
    /// The disk of the data directory, if its rate can be limited.
    pub(super) disk: Option<(u32, u32)>,
}

impl MachineIsolation {
    /// Prepares the cgroups of a Borglet, and finds out what they can do.
    pub(crate) fn find(isolation: Isolation, parent: &str, directory: &Path) -> Self {
        if isolation == Isolation::Rootless {
            return Self::default();
        }
        let hierarchy = match Hierarchy::detect() {
            Ok(hierarchy) => hierarchy,
            Err(error) => {
                tracing::error!("tasks share CPU and disks without weights: {error}");
                return Self::default();
            }
        };
        let cpu = make_tiers(&hierarchy, parent).map_err(|error| {
            tracing::error!("tasks share CPU whatever their appclass is: {error}");
        });
        if let Ok(CpuSharing { idle: false, .. }) = cpu {
            tracing::info!(
                "this kernel has no cpu.idle: batch tasks have the smallest weight instead of SCHED_IDLE"
            );
        }
        let disk = linux::disk::device(directory).map_err(anyhow::Error::from).and_then(|disk| {
            let rate = DiskRate { major: disk.0, minor: disk.1, bytes: TRIED_RATE };
            try_disk_rate(&hierarchy, &format!("{parent}/{SCRATCH}"), rate)?;
            Ok(disk)
        });
        let disk = disk.map_err(|error| {
            tracing::info!("disk rates of tasks are requested, and not enforced: {error:#}");
        });
        Self { cpu: cpu.ok(), disk: disk.ok() }
    }

    /// The attributes that say so. `topology` is that of [`Self::topology`].
    pub(crate) fn attributes(&self, topology: &Topology) -> Vec<(String, String)> {
        let cpu = match self.cpu {
            Some(CpuSharing { cpuset: true, .. }) => "shares+cpuset",
            Some(CpuSharing { cpuset: false, .. }) => "shares",
            None => "none",
        };
        let io = if self.disk.is_some() { "enforced" } else { "none" };
        let mut all = vec![(CPU_ATTRIBUTE, cpu.to_owned()), (IO_ATTRIBUTE, io.to_owned())];
        if !topology.cores.is_empty() {
            all.push((EXCLUSIVE_CORES, topology.exclusive_max().to_string()));
            all.push((THREADS_PER_CORE, topology.threads().to_string()));
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The physical cores that tasks can have as a whole; none if the Borglet has only a part of the
    /// machine, because then others may give them away, too.
    pub(crate) fn topology(&self, whole_machine: bool) -> anyhow::Result<Topology> {
        let has_cpuset = self.cpu.is_some_and(|cpu| cpu.cpuset);
        if !has_cpuset || !whole_machine {
            return Ok(Topology::default());
        }
        let Cpus { cores, rest } = Cpus::discover()?;
        Ok(Topology { cores, rest })
    }
}

/// Logs a change of a cap: the task, the rule, and its numbers.
pub(super) fn log_cap(label: &str, cap: &CpuCap) {
    match cap {
        CpuCap::At(..) => tracing::warn!("{label} is {cap}"),
        CpuCap::Lifted(_) => tracing::info!("{label} is {cap}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_say_what_is_enforced() {
        let sharing = |cpuset| Some(CpuSharing { idle: true, cpuset });
        let cores = Topology { cores: vec![vec![0, 2], vec![1, 3]], rest: Vec::new() };
        let none = Topology::default();
        let table = [
            (None, None, &none, "cpu-isolation=none io-isolation=none"),
            (sharing(false), None, &none, "cpu-isolation=shares io-isolation=none"),
            (
                sharing(true),
                Some((8, 0)),
                &cores,
                "cpu-isolation=shares+cpuset io-isolation=enforced exclusive-cores=1 threads-per-core=2",
            ),
        ];
        for (cpu, disk, topology, expected) in table {
            let attributes = MachineIsolation { cpu, disk }.attributes(topology);
            let shown: Vec<_> =
                attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(shown.join(" "), expected);
        }
    }
}
