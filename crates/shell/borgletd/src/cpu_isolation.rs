//! How this machine keeps tasks from each other's CPU and disks: what the kernel offers is tried once, at the
//! start ([`MachineIsolation`]), and each task gets its cgroup and its share by its appclass.

use std::path::Path;

use borglet::{CpuCap, Desired, Topology};
use linux::Isolation;
use linux::cgroup::{
    CpuSharing, DiskRate, Hierarchy, Limits, Sharing, TaskCgroup, Tier, make_tiers,
    set_shared_cpus, try_disk_rate,
};
use linux::cpus::Cpus;
use model::attribute::{EXCLUSIVE_CORES, THREADS_PER_CORE};
use model::{Appclass, InstanceId, MilliCores, Resources};

use super::tasks::Files;

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
    cpu: Option<CpuSharing>,
    /// The disk of the data directory, if its rate can be limited.
    disk: Option<(u32, u32)>,
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

impl Files {
    /// The cgroup below which a task or an alloc is.
    fn tier(&self, appclass: Appclass, exclusive: bool) -> String {
        let tier = match appclass {
            Appclass::LatencySensitive if exclusive => Tier::Exclusive,
            Appclass::LatencySensitive => Tier::LatencySensitive,
            Appclass::Batch => Tier::Batch,
        };
        match self.machine_isolation.cpu {
            Some(_) => format!("{}/{}", self.cgroup, tier.group()),
            None => self.cgroup.to_string(),
        }
    }

    /// Every cgroup below which tasks and allocs can be. Those of earlier releases are in the first.
    pub(super) fn tiers(&self) -> impl Iterator<Item = String> {
        let tiers = Tier::ALL.map(|tier| format!("{}/{}", self.cgroup, tier.group()));
        std::iter::once(self.cgroup.to_string()).chain(tiers)
    }

    /// The cgroup of a saver: it is in no hurry.
    pub(super) fn cgroup_of_saver(&self, instance: InstanceId) -> String {
        format!("{}/saver-{instance}", self.tier(Appclass::Batch, false))
    }

    /// The cgroup of an alloc: where it is, or where it is to be.
    pub(super) fn cgroup_of_alloc(
        &self,
        alloc: InstanceId,
        appclass: Appclass,
    ) -> anyhow::Result<String> {
        if self.isolation == Isolation::Jail {
            let hierarchy = Hierarchy::detect()?;
            for above in self.tiers() {
                let name = format!("{above}/{alloc}");
                if TaskCgroup::open(&hierarchy, &name)?.exists() {
                    return Ok(name);
                }
            }
        }
        Ok(format!("{}/{alloc}", self.tier(appclass, false)))
    }

    /// The cgroup of a task that is about to start.
    pub(super) fn cgroup_of_task(
        &self,
        desired: &Desired,
        exclusive: bool,
    ) -> anyhow::Result<String> {
        let above = match desired.alloc {
            None => self.tier(desired.appclass, exclusive),
            Some(alloc) => self.cgroup_of_alloc(alloc, desired.appclass)?,
        };
        Ok(format!("{above}/{}", desired.instance))
    }

    /// The kernel limits of a task. One that may use slack memory is limited by its alloc and by what
    /// all tasks may use.
    pub(super) fn limits_of(&self, desired: &Desired, limit: Resources, cpus: Vec<u32>) -> Limits {
        let batch = desired.alloc.is_some() && desired.appclass == Appclass::Batch;
        let memory_bytes = if desired.spec.memory_slack { u64::MAX } else { limit.ram.0 };
        Limits {
            cpu_milli: limit.cpu.0,
            cpu_hard_cap: !desired.spec.cpu_slack,
            memory_bytes,
            pids_max: desired.spec.processes.into(),
            sharing: Sharing { batch, cpus, disk_rate: self.disk_rate(limit) },
        }
    }

    /// The limits of the tasks of an alloc together. The number of processes is limited for each task.
    pub(super) fn limits_of_alloc(&self, limit: Resources) -> Limits {
        Limits {
            cpu_milli: limit.cpu.0,
            cpu_hard_cap: false,
            memory_bytes: limit.ram.0,
            pids_max: u32::MAX.into(),
            sharing: Sharing { disk_rate: self.disk_rate(limit), ..Sharing::default() },
        }
    }

    /// The rate of the disk of the data directory. Without a request there is no limit.
    fn disk_rate(&self, limit: Resources) -> Option<DiskRate> {
        let (major, minor) = self.machine_isolation.disk?;
        Some(DiskRate { major, minor, bytes: limit.disk_rate.0 })
    }

    /// Lets latency-sensitive tasks that share cores run on these CPUs only.
    pub(crate) fn share_cpus(&self, cpus: &[u32]) -> anyhow::Result<()> {
        Ok(set_shared_cpus(&Hierarchy::detect()?, &self.cgroup, cpus)?)
    }

    /// Changes the cap of a running task. Returns its name for people, unless it is gone.
    pub(crate) fn cap_cpu(
        &self,
        instance: InstanceId,
        max: Option<MilliCores>,
    ) -> anyhow::Result<Option<String>> {
        Ok(self.task(instance)?.cap_cpu(max.map(|max| max.0))?)
    }
}

/// Says what was done to whom, by which rule, with its numbers.
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
