//! Determines the state of a task from its directory alone.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use super::{TaskDirectory, TaskError};
use crate::FileError;
use crate::error::At;
use crate::process::boot_id;
use crate::record::{Exit, LOCK_FILE, Running};
use crate::shim::begin::lock_holder;
use crate::sys;

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Its shim exists; its program has not been executed yet.
    Starting,
    /// It is running.
    Running(Running),
    /// It has ended, and it is known how. Nothing of it is left but its directory.
    Ended(Exit),
    /// It is gone, and how it ended is unknown. Its cgroup may still contain processes for a
    /// moment: call [`TaskDirectory::kill`].
    Lost {
        /// Why there is no record.
        reason: LostReason,
    },
}

/// Why a task has neither a shim nor an exit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The directory was created, but no shim ever locked it.
    NeverStarted,
    /// The shim was killed.
    ShimDied,
    /// The machine was rebooted.
    Rebooted,
}

impl TaskDirectory {
    /// Determines the task's state.
    ///
    /// # Errors
    /// When its files cannot be read or are damaged.
    pub fn inspect(&self) -> Result<Inspection, TaskError> {
        if let Some(exit) = Exit::read(self.path())? {
            return Ok(Inspection::Ended(exit));
        }
        if self.shim_pid()?.is_some() {
            return Ok(match Running::read(self.path())? {
                Some(running) => Inspection::Running(running),
                None => Inspection::Starting,
            });
        }
        // The shim may have ended between the two checks; it writes the record before it ends.
        if let Some(exit) = Exit::read(self.path())? {
            return Ok(Inspection::Ended(exit));
        }
        let now = boot_id().at("read", "/proc/sys/kernel/random/boot_id")?;
        let reason = match Running::read(self.path())? {
            Some(running) if running.boot_id != now => LostReason::Rebooted,
            None if !self.path().join(LOCK_FILE).exists() => LostReason::NeverStarted,
            _ => LostReason::ShimDied,
        };
        Ok(Inspection::Lost { reason })
    }

    /// The process id of the task's shim, if there is one.
    ///
    /// # Errors
    /// When the lock file cannot be read.
    pub fn shim_pid(&self) -> Result<Option<i32>, TaskError> {
        let path = self.path().join(LOCK_FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::new("open", &path, error).into()),
        };
        Ok(lock_holder(&file).at("ask who locks", &path)?)
    }

    /// A descriptor that becomes readable when the task's shim has ended, for a Borglet that did
    /// not start it. `None` if there is no shim any more: inspect again.
    ///
    /// # Errors
    /// When the lock file cannot be read.
    pub fn watch(&self) -> Result<Option<OwnedFd>, TaskError> {
        let Some(pid) = self.shim_pid()? else { return Ok(None) };
        let pidfd = match sys::pidfd_open(pid) {
            Ok(pidfd) => pidfd,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(source) => {
                return Err(TaskError::Signal { pid, dir: self.path().to_owned(), source });
            }
        };
        // It still holds the lock after the descriptor was opened, so the descriptor refers to it.
        Ok((self.shim_pid()? == Some(pid)).then_some(pidfd))
    }
}
