//! The shim: one small process per task that outlives the Borglet.
//!
//! It holds the lock of the task's directory, starts the task's init in a new pid namespace, copies
//! the task's output to log files, and records how the task ended. It has one thread, runs in its
//! own session, outside the task's cgroup, and ignores the signals with which a terminal or a
//! service manager ends whole groups of processes.
//!
//! It makes no decisions: it never restarts a task, and when it dies the task dies.

pub(crate) mod begin;
mod budget;
mod end;
mod server;
mod supervise;

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::cgroup::{Hierarchy, TaskCgroup};
use crate::error::At;
use crate::logs::{LogWriter, Stream};
use crate::process::unix_micros_now;
use crate::record::{BindablePorts, Exit, ExitReason, HOME_DIRECTORY, LOG_DIRECTORY, Launch};
use crate::shim_log::message;
use crate::{Isolation, NET_BIND_SERVICE, bind};
use begin::{Begun, Shim};
pub use server::serve;
pub(crate) use server::{REQUEST_BYTES_MAX, REQUEST_FILES, command_line};
use supervise::Ended;

/// The implementation of `bourg shim DIR`, a shim without a server ([`serve`]); call it before the
/// process has a second thread or opens a file.
///
/// Protocol with the starter: standard input is a pipe that the starter closes as the go-ahead;
/// standard output is the ready pipe, which receives one line, `pid N` or `error TEXT`, and closes
/// when the task runs or has ended. Standard error is for messages to the operator. The process
/// forks and returns at once; the shim proper is its child.
///
/// Closes all inherited descriptors except those three. Never panics, whatever `task_dir` contains.
#[must_use]
pub fn run(task_dir: &Path) -> ExitCode {
    match begin::begin(task_dir) {
        Ok(Begun::Starter) => ExitCode::SUCCESS,
        Ok(Begun::Shim(shim)) => supervise_to_the_end(shim),
        Err(error) => {
            message(&format_args!("bourg shim {}: {error}", task_dir.display()));
            ExitCode::FAILURE
        }
    }
}

/// Runs the shim's task to its end, and records how it ended.
fn supervise_to_the_end(mut shim: Shim) -> ExitCode {
    let exit = run_task(&mut shim);
    let mut code = ExitCode::SUCCESS;
    if let Err(error) = exit.write(&shim.dir) {
        message(&format_args!(
            "cannot record the end of the task: {error}; how it ended: {exit:?}"
        ));
        code = ExitCode::FAILURE;
    }
    // Only now: whoever sees the lock released or the pipe closed finds the record.
    drop(shim);
    code
}

/// Runs the shim's task to its end.
fn run_task(shim: &mut Shim) -> Exit {
    let dir = &shim.dir;
    let not_set_up = |reason: String| Exit {
        reason: ExitReason::NotSetUp { reason },
        ended_at_unix_us: unix_micros_now(),
        cpu_ns: None,
        memory_peak_bytes: None,
    };
    let launch = match read_launch(dir) {
        Ok(launch) => launch,
        Err(reason) => return not_set_up(reason),
    };
    let cgroup = match prepare(dir, &launch) {
        Ok(cgroup) => cgroup,
        Err(reason) => return not_set_up(reason),
    };
    let log = |stream| LogWriter::new(dir.join(LOG_DIRECTORY), stream, launch.log);
    let mut logs = [log(Stream::Stdout), log(Stream::Stderr)];
    let ended = supervise::supervise(dir, &launch, cgroup.as_ref(), &mut logs, &mut shim.ready);
    for (log, name) in logs.iter().zip(["stdout", "stderr"]) {
        if log.dropped_bytes() > 0 {
            message(&format_args!(
                "{}: the disk was full: {} bytes of {name} were dropped",
                launch.label,
                log.dropped_bytes()
            ));
        }
    }
    let ended = ended.unwrap_or_else(|reason| Ended {
        reason: ExitReason::NotSetUp { reason },
        alloc_was_full: false,
        limit_was_reached: false,
    });
    end::end(&launch, cgroup.as_ref(), ended)
}

fn read_launch(dir: &Path) -> Result<Launch, String> {
    let launch = Launch::read(dir).map_err(|error| error.to_string())?;
    let launch = launch.ok_or_else(|| format!("{} has no launch.json", dir.display()))?;
    launch.check().map_err(|error| error.to_string())?;
    Ok(launch)
}

/// Creates what the task needs outside of its jail; returns its cgroup, which exists only with
/// root.
fn prepare(dir: &Path, launch: &Launch) -> Result<Option<TaskCgroup>, String> {
    let directories = || -> Result<(), crate::FileError> {
        for name in [LOG_DIRECTORY, HOME_DIRECTORY] {
            let path = dir.join(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.at("create directory", &path)?,
            }
        }
        if launch.isolation == Isolation::Rootless {
            return Ok(());
        }
        let home = dir.join(HOME_DIRECTORY);
        let owner = (Some(launch.uid), Some(launch.gid));
        std::os::unix::fs::lchown(&home, owner.0, owner.1).at("give to the task", &home)
    };
    directories().map_err(|error| error.to_string())?;
    if launch.isolation == Isolation::Rootless {
        return Ok(None);
    }
    let hierarchy = Hierarchy::detect().map_err(|error| error.to_string())?;
    if launch.in_alloc {
        let own =
            TaskCgroup::open(&hierarchy, &launch.cgroup).map_err(|error| error.to_string())?;
        // Created here, it would have no limit.
        if !own.parent().is_some_and(|alloc| alloc.is_whole()) {
            return Err(format!("its alloc does not exist: {} has no parent cgroup", own.name()));
        }
    }
    let cgroup = TaskCgroup::create(&hierarchy, &launch.cgroup, &launch.limits)
        .map_err(|error| error.to_string())?;
    if let BindablePorts::Only(given) = &launch.bindable_ports {
        // A task that was given such a port has the capability for it, and for no other.
        let has_own = given.iter().any(|port| *port < bind::UNPRIVILEGED);
        let privileged = launch.capabilities.contains(&NET_BIND_SERVICE) && !has_own;
        if let Err(error) = bind::enforce(&cgroup, given, privileged) {
            // Nothing has joined it.
            let left = cgroup.remove().err().map_or_else(String::new, |left| format!("; {left}"));
            return Err(format!("{error}{left}"));
        }
    }
    Ok(Some(cgroup))
}
