//! What tasks and the machine use, from the kernel's counters.
//!
//! Files stay open and are read from the start each time. What a kernel does not count is absent,
//! never zero. Not here: rates, averages and windows.

mod hardware;
mod machine;
mod processes;

pub use hardware::{HardwareCounts, files_of_counters};
pub use machine::{MachineReader, MachineUsage};

use crate::Isolation;
use crate::cgroup::{CgroupError, DetailReader, Details, Hierarchy, TaskCgroup, UsageReader};
use crate::record::{Launch, Running};
use crate::task::{TaskDirectory, TaskError};
use hardware::HardwareReader;
use processes::{Processes, TreeUsage};

/// Whether the machine has hardware counters that the kernel counts by cgroup.
#[must_use]
pub fn has_hardware_counters(hierarchy: &Hierarchy) -> bool {
    let root = match hierarchy {
        Hierarchy::V1(mounts) => mounts.unified.as_ref(),
        Hierarchy::V2 { root } => Some(root),
    };
    root.is_some_and(|root| HardwareReader::open(root).is_ok())
}

/// What a task has used, and uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskUsage {
    /// CPU time of all its processes, including ended ones, in nanoseconds. Without a cgroup it has
    /// the resolution of the kernel's ticks, and lacks what orphans used before they ended.
    pub cpu_ns: Option<u64>,
    /// Memory in bytes, including the page cache. Without a cgroup it is the sum of the processes'
    /// resident memory, with shared pages counted more than once.
    pub memory_bytes: Option<u64>,
    /// The peak of the memory.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes that its processes have read from and written to disks: a counter. Absent if the task
    /// has too many processes to ask each.
    pub disk_bytes: Option<u64>,
    /// The rest, known only with a cgroup.
    pub details: Details,
    /// Hardware counters, if the machine has them.
    pub hardware: Option<HardwareCounts>,
}

/// Reads the usage of one running task.
#[derive(Debug)]
pub struct TaskReader {
    init_pid: i32,
    cgroup: Option<(TaskCgroup, UsageReader, DetailReader)>,
    hardware: Option<HardwareReader>,
    peak_seen_bytes: u64,
}

impl TaskReader {
    /// Opens the counters of the task in a directory; `None` if it does not run, or has just ended.
    ///
    /// # Errors
    /// When its records or its cgroup cannot be read.
    pub fn open(
        task: &TaskDirectory,
        hierarchy: Option<&Hierarchy>,
    ) -> Result<Option<Self>, TaskError> {
        let (launch, running) = (Launch::read(task.path())?, Running::read(task.path())?);
        let (Some(launch), Some(running)) = (launch, running) else { return Ok(None) };
        let cgroup = match (launch.isolation, hierarchy) {
            (Isolation::Jail, Some(hierarchy)) => {
                let cgroup = TaskCgroup::open(hierarchy, &launch.cgroup)?;
                let usage = match cgroup.usage_reader() {
                    Ok(usage) => usage,
                    Err(error) if error.is_gone() => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
                let details = cgroup.detail_reader();
                Some((cgroup, usage, details))
            }
            _ => None,
        };
        let (init_pid, hardware) = (running.init_pid, None);
        Ok(Some(Self { init_pid, cgroup, hardware, peak_seen_bytes: 0 }))
    }

    /// Opens the hardware counters of the task, too, on a machine that has them.
    pub fn open_hardware(&mut self) {
        let directory = self.cgroup.as_ref().and_then(|(cgroup, ..)| cgroup.unified_directory());
        self.hardware = directory.and_then(|directory| HardwareReader::open(&directory).ok());
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// When the task has ended and its cgroup is gone.
    pub fn read(&mut self) -> Result<TaskUsage, CgroupError> {
        let Some((cgroup, usage, details)) = &mut self.cgroup else {
            return Ok(self.read_processes());
        };
        let read = usage.read()?;
        Ok(TaskUsage {
            cpu_ns: Some(read.cpu_ns),
            memory_bytes: Some(read.memory_bytes),
            memory_peak_bytes: Some(read.memory_peak_bytes),
            disk_bytes: Processes::of_cgroup(cgroup)?.disk_bytes(),
            details: details.read(),
            hardware: self.hardware.as_mut().and_then(|counters| counters.read().ok()),
        })
    }

    fn read_processes(&mut self) -> TaskUsage {
        let processes = Processes::below(self.init_pid);
        let TreeUsage { cpu_ns, memory_bytes } = processes.usage();
        self.peak_seen_bytes = self.peak_seen_bytes.max(memory_bytes.unwrap_or(0));
        TaskUsage {
            cpu_ns,
            memory_bytes,
            memory_peak_bytes: memory_bytes.map(|_| self.peak_seen_bytes),
            disk_bytes: processes.disk_bytes(),
            details: Details::default(),
            hardware: None,
        }
    }
}
