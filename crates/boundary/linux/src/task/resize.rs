//! Changes the limits of a running task.

use super::{Inspection, TaskDirectory, TaskError};
use crate::cgroup::{CgroupError, Limits};
use crate::record::Launch;

/// The result of changing limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// The limits apply, or would if limits were enforced: without root they are not.
    Done,
    /// The task uses more memory than that, and the kernel cannot reclaim it: retry later. All
    /// limits except memory were changed.
    Refused {
        /// The memory limit that still applies, in bytes.
        memory_bytes: u64,
    },
    /// The task is still being started: retry when it is ready.
    StillStarting,
    /// The task no longer exists.
    Gone,
}

impl TaskDirectory {
    /// Caps the CPU usage of a running task, in thousandths of a core, or lifts the cap. It is not recorded,
    /// and a change of limits lifts it. A hard cap at the limit stays. Returns the label of the task; `None` if
    /// it no longer exists.
    ///
    /// # Errors
    /// When the records cannot be used, or the kernel rejects it.
    pub fn cap_cpu(&self, cpu_milli: Option<u64>) -> Result<Option<String>, TaskError> {
        let (Some(launch), Some(cgroup)) = (Launch::read(self.path())?, self.cgroup()?) else {
            return Ok(None);
        };
        let Limits { cpu_hard_cap, cpu_milli: limit, .. } = launch.limits;
        let hard = cpu_hard_cap.then_some(limit);
        match cgroup.set_cpu_max(cpu_milli.into_iter().chain(hard).min()) {
            Ok(()) => Ok(Some(launch.label)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes the limits and records the applied ones in the launch record. What its init created
    /// at the start stays as it is, such as the size of its `/tmp`.
    ///
    /// May take as long as the kernel takes to reclaim memory. Must not be called concurrently.
    ///
    /// # Errors
    /// [`TaskError::Invalid`] before anything is done; otherwise when the records cannot be used or
    /// the kernel rejects anything other than memory. Each kernel file then has the old limit or
    /// the new one.
    pub fn resize(&self, limits: &Limits) -> Result<Resized, TaskError> {
        let Some(before) = Launch::read(self.path())? else { return Ok(Resized::Gone) };
        let mut launch = Launch { limits: limits.clone(), ..before.clone() };
        launch
            .check()
            .map_err(|source| TaskError::Invalid { label: launch.label.clone(), source })?;
        match self.inspect()? {
            Inspection::Starting => return Ok(Resized::StillStarting),
            Inspection::Ended(_) | Inspection::Lost { .. } => return Ok(Resized::Gone),
            Inspection::Running(_) => {}
        }
        let mut resized = Resized::Done;
        if let Some(cgroup) = self.cgroup()? {
            let held = cgroup.set_limits(limits).or_else(|error| match error {
                CgroupError::MemoryInUse { .. } => {
                    let memory_bytes = cgroup.memory_limit_bytes()?;
                    launch.limits.memory_bytes = memory_bytes;
                    resized = Resized::Refused { memory_bytes };
                    Ok(())
                }
                error => Err(error),
            });
            match held {
                Ok(()) => {}
                // The shim removes the cgroup at the task's end, and records the end only then.
                Err(error) if error.is_gone() => return Ok(Resized::Gone),
                Err(error) => return Err(error.into()),
            }
        }
        if launch != before {
            launch.write(self.path())?;
        }
        Ok(resized)
    }
}
