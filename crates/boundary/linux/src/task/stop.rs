//! Stops a task: with notice, or at once.

use std::io;
use std::os::fd::AsFd;

use super::{TaskDirectory, TaskError};
use crate::Isolation;
use crate::cgroup::{Hierarchy, TaskCgroup};
use crate::process::{open_children, open_exact, wait_readable};
use crate::record::{Launch, RecordError, Running};
use crate::sys;

/// How long a shim may take to end after it was killed.
const SHIM_PATIENCE_MS: u64 = 5_000;

/// Whether a signal reached its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It was sent; an inspection shows the task's end.
    Sent,
    /// The task is still being started: retry when it is ready.
    StillStarting,
    /// There was nothing left to signal.
    Gone,
}

impl TaskDirectory {
    /// Sends SIGTERM to the task, or its [stop signal](Launch::stop_signal). Its init sends SIGKILL to all of it when the notice is over, even
    /// if the Borglet dies meanwhile.
    ///
    /// # Errors
    /// When the records cannot be read or the kernel returns an error.
    pub fn terminate(&self) -> Result<Delivery, TaskError> {
        self.signal_init(libc::SIGTERM)
    }

    /// Sends SIGHUP to the task's program, which finds changed files.
    ///
    /// # Errors
    /// When the records cannot be read or the kernel returns an error.
    pub fn hang_up(&self) -> Result<Delivery, TaskError> {
        self.signal_init(libc::SIGHUP)
    }

    /// Kills the whole task, including a lost one, and returns before it is gone. The cgroup of a
    /// lost task is removed.
    ///
    /// # Errors
    /// When the records cannot be read or the kernel returns an error.
    pub fn kill(&self) -> Result<Delivery, TaskError> {
        let delivery = self.signal_init(libc::SIGKILL)?;
        let Some(shim_pid) = self.shim_pid()? else {
            self.remove_cgroup()?;
            return Ok(delivery);
        };
        if let Some(cgroup) = self.cgroup()? {
            // The shim removes it after reading the usage.
            cgroup.kill_all()?;
        } else if delivery == Delivery::StillStarting {
            // The init is the shim's only child, and may exist before its record.
            let failed = |source| self.cannot_signal(shim_pid, source);
            for init in open_children(shim_pid).map_err(failed)? {
                let _gone = sys::pidfd_send_signal(init.as_fd(), libc::SIGKILL);
            }
        }
        Ok(delivery)
    }

    /// Kills the shim, and with it all processes of a task without a cgroup; waits until it is
    /// gone. For a task whose records cannot be read.
    ///
    /// # Errors
    /// When the lock file cannot be read, or the shim does not end.
    pub fn kill_shim(&self) -> Result<(), TaskError> {
        let Some(pid) = self.shim_pid()? else { return Ok(()) };
        let Some(shim) = self.watch()? else { return Ok(()) };
        let failed = |source| self.cannot_signal(pid, source);
        match sys::pidfd_send_signal(shim.as_fd(), libc::SIGKILL) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
            result => result.map_err(failed)?,
        }
        match wait_readable(&shim, SHIM_PATIENCE_MS).map_err(failed)? {
            true => Ok(()),
            false => Err(TaskError::InUse { dir: self.path().to_owned(), shim_pid: pid }),
        }
    }

    fn cannot_signal(&self, pid: i32, source: io::Error) -> TaskError {
        TaskError::Signal { pid, dir: self.path().to_owned(), source }
    }

    fn signal_init(&self, signal: i32) -> Result<Delivery, TaskError> {
        let Some(running) = Running::read(self.path())? else {
            let starting = self.shim_pid()?.is_some();
            return Ok(if starting { Delivery::StillStarting } else { Delivery::Gone });
        };
        let pid = running.init_pid;
        let failed = |source| self.cannot_signal(pid, source);
        let init = open_exact(pid, running.init_start_ticks, &running.boot_id).map_err(failed)?;
        let Some(init) = init else { return Ok(Delivery::Gone) };
        match sys::pidfd_send_signal(init.as_fd(), signal) {
            Ok(()) => Ok(Delivery::Sent),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Delivery::Gone),
            Err(error) => Err(failed(error)),
        }
    }

    /// The task's cgroup, which need not exist; `None` if there is no launch record, or without
    /// root, where the end of its init ends all of it.
    ///
    /// # Errors
    /// When the launch record is damaged or the machine has no cgroups.
    pub fn cgroup(&self) -> Result<Option<TaskCgroup>, TaskError> {
        let Some(launch) = Launch::read(self.path())? else { return Ok(None) };
        match launch.isolation {
            Isolation::Jail => Ok(Some(TaskCgroup::open(&Hierarchy::detect()?, &launch.cgroup)?)),
            Isolation::Rootless => Ok(None),
        }
    }

    /// Kills and removes the rest of the cgroup.
    pub(super) fn remove_cgroup(&self) -> Result<(), TaskError> {
        let cgroup = match self.cgroup() {
            // Damaged by a power loss, after which no cgroups exist either.
            Err(TaskError::Record(RecordError::Damaged { .. })) => None,
            other => other?,
        };
        if let Some(cgroup) = cgroup {
            cgroup.kill_all()?;
            cgroup.remove()?;
        }
        Ok(())
    }
}
