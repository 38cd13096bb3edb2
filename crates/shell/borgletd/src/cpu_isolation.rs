//! How this machine keeps tasks from each other's CPU and disks: what the kernel offers is tried once, at the
//! start. [`super::cgroups`] has which task is where.

use std::path::Path;

use borglet::{CpuCap, Topology};
use linux::Isolation;
use linux::cgroup::{
    CpuSharing, DiskRate, Hierarchy, limit_all_processes, make_tiers, try_disk_rate,
};
use linux::cpus::Cpus;
use model::Bytes;
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
    /// How many processes tasks have by their memory.
    pub(super) processes: ProcessShare,
}

/// How many processes and threads a task may have at most by its memory, so that no task, and no user with
/// many of them, takes those of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessShare {
    /// One for so many bytes.
    bytes: u64,
}

/// Every task may have so many: a shell, its commands, and a few threads.
const TASK_PROCESSES_MIN: u64 = 32;
/// No machine gives more than one process for so many bytes.
const PROCESS_BYTES_MIN: u64 = 256 << 10;

impl Default for ProcessShare {
    fn default() -> Self {
        Self { bytes: PROCESS_BYTES_MIN }
    }
}

impl ProcessShare {
    /// That of a machine with so much memory, whose tasks may have so many processes together.
    fn new(ram: Bytes, processes: u64) -> Self {
        let bytes = ram.0.checked_div(processes).unwrap_or(u64::MAX);
        Self { bytes: bytes.max(PROCESS_BYTES_MIN) }
    }

    /// The maximum of a task that has a memory limit, and asks for so many.
    pub(super) fn of(self, ram: Bytes, asked: u64) -> u64 {
        asked.min((ram.0 / self.bytes).max(TASK_PROCESSES_MIN))
    }
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
        let processes = limit_all_processes(&hierarchy, parent).map_err(anyhow::Error::from);
        let processes = processes.and_then(|all| {
            let share = ProcessShare::new(Bytes(linux::machine::memory_bytes()?), all);
            tracing::info!("tasks have at most {all} processes, one for {}", Bytes(share.bytes));
            Ok(share)
        });
        let processes = processes.unwrap_or_else(|error| {
            tracing::error!("nothing limits the processes of all tasks together: {error:#}");
            ProcessShare::default()
        });
        Self { cpu: cpu.ok(), disk: disk.ok(), processes }
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
            let attributes =
                MachineIsolation { cpu, disk, ..Default::default() }.attributes(topology);
            let shown: Vec<_> =
                attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(shown.join(" "), expected);
        }
    }

    #[test]
    fn tasks_have_processes_by_their_memory() {
        let mib = |mib: u64| Bytes(mib << 20);
        let large = ProcessShare::new(mib(24_576), 4_000_000);
        let small = ProcessShare::new(mib(24_576), 28_672);
        for (share, ram, asked, expected) in [
            (large, 48, 1_024, 192),
            (large, 1_024, 1_024, 1_024),
            (large, 16_384, 1_000_000, 65_536),
            (large, 4, 1_024, 32),
            (large, 4, 2, 2),
            (small, 48, 1_024, 56),
            (small, 24_576, 1_000_000, 28_672),
            (ProcessShare::default(), 64, 1_024, 256),
        ] {
            assert_eq!(share.of(mib(ram), asked), expected, "{share:?} {ram}");
        }
        assert_eq!(ProcessShare::new(mib(1), 0).of(mib(64), 100), 32);
    }
}
