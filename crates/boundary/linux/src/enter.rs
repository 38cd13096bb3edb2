//! Enters a running task, to run a command in it ([`crate::session`]).
//!
//! The command joins the task's cgroups and namespaces and is confined like the task itself, so it
//! has the same rights and ends with the task. A separate process, `bourg enter`, does the work,
//! because only a process with one thread may change its mount namespace.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use nix::sched::{CloneFlags, setns};

use crate::cgroup::{CgroupError, Hierarchy, TaskCgroup};
use crate::process::open_exact;
use crate::record::{Launch, RecordError, Running};
use crate::{Isolation, sys};

/// The exit status when the program could not be executed, as in shells.
pub(crate) const NOT_FOUND: u8 = 127;

/// The task could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// There is no such task, or it has ended.
    #[error("the task is not running: check its state first")]
    NotRunning,
    /// Its records could not be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Its cgroup could not be joined.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Another step failed.
    #[error("cannot {step}: {source}")]
    Step {
        /// The attempted step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

pub(crate) fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> EnterError {
    move |error| EnterError::Step { step, source: error.into() }
}

/// The standard files of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// Three pipes.
    Pipes,
    /// A new terminal.
    New {
        /// The height of the window in characters.
        rows: u16,
        /// The width of the window in characters.
        columns: u16,
        /// The terminal type, the value of `TERM`.
        term: String,
    },
}

/// Sets the window size of a command's terminal, in characters.
///
/// # Errors
/// When `terminal` is not a terminal.
pub fn resize(terminal: impl AsFd, rows: u16, columns: u16) -> Result<(), EnterError> {
    sys::set_window_size(terminal.as_fd(), rows, columns).map_err(step("size the terminal"))
}

/// The exit status for a program's raw wait status.
pub(crate) fn exit_code(ended: Result<i32, EnterError>) -> ExitCode {
    match ended {
        Ok(status) if libc::WIFSIGNALED(status) => code(128 + libc::WTERMSIG(status)),
        Ok(status) => code(libc::WEXITSTATUS(status)),
        Err(error) => {
            eprintln!("cannot enter the task: {error}");
            ExitCode::from(NOT_FOUND)
        }
    }
}

fn code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}

/// What is needed to enter a task, opened while the host's files are still visible.
pub(crate) struct Opened {
    pub(crate) launch: Launch,
    pub(crate) alone: sys::SingleThread,
    pub(crate) cgroups: Vec<File>,
    init: OwnedFd,
    user: CloneFlags,
}

/// Opens the running task of a directory.
pub(crate) fn open(dir: &Path) -> Result<Opened, EnterError> {
    let launch = Launch::read(dir)?.ok_or(EnterError::NotRunning)?;
    let running = Running::read(dir)?.ok_or(EnterError::NotRunning)?;
    // Checked now, because later /proc is the task's, which does not contain this process.
    let alone = sys::SingleThread::check().map_err(step("fork"))?;
    let init = open_exact(running.init_pid, running.init_start_ticks, &running.boot_id)
        .map_err(step("open the task's init"))?
        .ok_or(EnterError::NotRunning)?;
    let (cgroups, user) = match launch.isolation {
        Isolation::Jail => {
            let cgroup = TaskCgroup::open(&Hierarchy::detect()?, &launch.cgroup)?;
            (cgroup.join_files()?, CloneFlags::empty())
        }
        // Those of the init, which the other namespaces belong to.
        Isolation::Rootless => (Vec::new(), CloneFlags::CLONE_NEWUSER),
    };
    Ok(Opened { launch, alone, cgroups, init, user })
}

impl Opened {
    /// Joins the namespaces of the task; the pid namespace holds for later children.
    pub(crate) fn join_namespaces(&self) -> Result<(), EnterError> {
        let namespaces = CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWCGROUP;
        let own = self.launch.network.is_some();
        let network = if own { CloneFlags::CLONE_NEWNET } else { CloneFlags::empty() };
        setns(&self.init, self.user | namespaces | network)
            .map_err(step("join the task's namespaces"))
    }
}
