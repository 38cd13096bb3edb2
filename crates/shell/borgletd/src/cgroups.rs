//! The cgroups of tasks and allocs: which one each has by its appclass, and with which limits.

use borglet::Desired;
use linux::Isolation;
use linux::cgroup::{DiskRate, Hierarchy, Limits, Sharing, TaskCgroup, Tier, set_shared_cpus};
use model::{Appclass, InstanceId, MilliCores, Resources};

use super::tasks::Files;

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
            pids_max: self.machine_isolation.processes.of(limit.ram, desired.spec.processes.into()),
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
