//! What of its machine a Borglet offers to tasks: everything, or what its flags say.

use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use borglet::Topology;
use linux::Isolation;
use linux::machine::MachineResources;
use model::{Bytes, MachineReport, MilliCores, PortRange, Resources};

use super::disk;
use super::memory;
use super::port_isolation::PortIsolation;
use super::tasks::Files;

/// The usual throughput of a machine's disks per second, which cannot be queried.
pub(crate) const DISK_RATE: Bytes = Bytes(200 << 20);

/// The attribute of machines that tells how they keep tasks to their disk requests: the files are
/// counted, and a task that exceeds its request is ended.
const DISK_ISOLATION: &str = "disk-isolation";

/// The resources for tasks, from the flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The cores; all of the machine if `None`.
    pub(crate) cpu: Option<MilliCores>,
    /// The memory; all of the machine if `None`.
    pub(crate) ram: Option<Bytes>,
    /// The maximum disk space.
    pub(crate) disk: Option<Bytes>,
    /// The disk throughput per second.
    pub(crate) disk_rate: Bytes,
}

/// The description of a machine.
pub(crate) struct Described {
    pub(crate) report: Arc<MachineReport>,
    /// The disk part of its capacity, which may have to be counted further.
    pub(crate) disk: disk::Capacity,
    /// The cores that tasks can have as a whole.
    pub(crate) topology: Topology,
}

impl Limits {
    /// Checks the flags against this machine, before anything else is done.
    pub(crate) fn check(
        &self,
        directory: &Path,
        ports: PortRange,
        isolation: Isolation,
    ) -> anyhow::Result<()> {
        self.of_machine(&MachineResources::discover(directory, isolation)?, ports).map(drop)
    }

    fn of_machine(
        &self,
        machine: &MachineResources,
        ports: PortRange,
    ) -> anyhow::Result<(MilliCores, Bytes)> {
        let (first, last) = machine.ephemeral_ports;
        ensure!(
            ports.last < first || ports.first > last,
            "the ports {ports} overlap with the kernel's range for outgoing connections \
             ({first}-{last}): choose others with --ports"
        );
        self.of(MilliCores(machine.cpu_milli), Bytes(machine.memory_bytes))
    }

    /// Whether tasks have every CPU of the machine: the flags leave none to others, and no container has only
    /// a quota.
    fn has_whole(&self, machine: &MachineResources) -> bool {
        let cpus = machine.attributes.get("cores").and_then(|cores| cores.parse::<u64>().ok());
        let all = MilliCores(cpus.unwrap_or(0).saturating_mul(1_000));
        machine.cpu_milli >= all.0 && self.cpu.is_none_or(|cpu| cpu >= all)
    }

    /// The cores and the memory for tasks on a machine that has these.
    fn of(&self, cpu: MilliCores, ram: Bytes) -> anyhow::Result<(MilliCores, Bytes)> {
        let limits = (self.cpu.unwrap_or(cpu), self.ram.unwrap_or(ram));
        ensure!(limits.0.0 > 0, "--cpu is 0: tasks need some of the machine's {cpu}");
        ensure!(limits.1.0 > 0, "--ram is 0: tasks need some of the machine's {ram}");
        ensure!(limits.0 <= cpu, "--cpu is {}, but this machine has {cpu}", limits.0);
        ensure!(limits.1 <= ram, "--ram is {}, but this machine has {ram}", limits.1);
        Ok(limits)
    }
}

/// Describes this machine to the cell.
pub(crate) fn describe(
    files: &Files,
    ports: PortRange,
    limits: Limits,
    isolation: Isolation,
) -> anyhow::Result<Described> {
    let mut machine = MachineResources::discover(&files.directory, isolation)?;
    let port_isolation = files.port_isolation.name().to_owned();
    machine.attributes.insert(PortIsolation::ATTRIBUTE.to_owned(), port_isolation);
    let memory_isolation = memory::isolation_name(isolation).to_owned();
    machine.attributes.insert(memory::ATTRIBUTE.to_owned(), memory_isolation);
    machine.attributes.insert(DISK_ISOLATION.to_owned(), "measured".to_owned());
    let (cpu, ram) = limits.of_machine(&machine, ports)?;
    let topology = files.machine_isolation.topology(limits.has_whole(&machine))?;
    machine.attributes.extend(files.machine_isolation.attributes(&topology));
    let disk = disk::capacity(files, limits.disk.unwrap_or(Bytes(u64::MAX)))?;
    let report = MachineReport {
        capacity: Resources { cpu, ram, disk: disk.bytes, disk_rate: limits.disk_rate },
        ports,
        task_network: files.task_network,
        attributes: machine.attributes,
        held_ports: Vec::new(),
        saving: Vec::new(),
        volumes: Vec::new(),
        shortage: None,
        not_ready: None,
    };
    Ok(Described { report: Arc::new(report), disk, topology })
}

/// The resources of this host for tasks of Borglets with data on the file system of a directory.
///
/// # Errors
/// If the host cannot run tasks, or the kernel does not provide the information.
pub fn of_host(directory: &Path) -> anyhow::Result<Resources> {
    let machine = MachineResources::discover(directory, linux::machine::preflight()?)?;
    Ok(Resources {
        cpu: MilliCores(machine.cpu_milli),
        ram: Bytes(machine.memory_bytes),
        disk: disk::free_for_tasks(directory)?,
        disk_rate: DISK_RATE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_flags_never_take_more_than_the_machine_has() {
        let machine = (MilliCores(2_000), Bytes(4 << 30));
        for (cpu, ram, expected) in [
            (None, None, Ok(machine)),
            (Some(500), None, Ok((MilliCores(500), machine.1))),
            (Some(2_000), Some(1 << 30), Ok((machine.0, Bytes(1 << 30)))),
            (Some(2_001), None, Err("--cpu is 2.001 cores, but this machine has 2 cores")),
            (None, Some(5 << 30), Err("--ram is 5 GiB, but this machine has 4 GiB")),
            (Some(0), None, Err("--cpu is 0: tasks need some of the machine's 2 cores")),
            (None, Some(0), Err("--ram is 0: tasks need some of the machine's 4 GiB")),
        ] {
            let (cpu, ram) = (cpu.map(MilliCores), ram.map(Bytes));
            let limits = Limits { cpu, ram, disk: None, disk_rate: DISK_RATE };
            let found = limits.of(machine.0, machine.1).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}
