//! Other limits for a task that runs.

use super::{Inspection, TaskDirectory, TaskError};
use crate::cgroup::{CgroupError, Limits};
use crate::record::Launch;

/// What became of new limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// The task is held to them, or would be if anything held it: without root nothing does.
    Done,
    /// The task has more memory than that, and the kernel cannot reclaim it: try again later. All
    /// but memory is as it should be.
    Refused {
        /// The memory that the task is still held to, in bytes.
        memory_bytes: u64,
    },
    /// The task is still being started: try again when it is ready.
    StillStarting,
    /// There is no task any more.
    Gone,
}

impl TaskDirectory {
    /// Holds the task to other limits from now on, and writes into its launch record what it is held
    /// to. What its init made at the start stays as it is, such as the size of its `/tmp`.
    ///
    /// May take as long as the kernel takes to reclaim memory. Not to be called twice at a time.
    ///
    /// # Errors
    /// [`TaskError::Invalid`] before anything is done; otherwise when the records cannot be used or
    /// the kernel refuses anything else than memory. Each file of the kernel then holds the old
    /// limit or the new one.
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
                // The shim removes it at the task's end, and records the end only then.
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
