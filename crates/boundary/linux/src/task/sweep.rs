//! Stops all tasks, when a dev cell ends or a machine leaves.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Delivery, TaskDirectory, TaskError, scan};
use crate::process::wait_readable;

/// How long tasks may take to end after they were killed.
const KILL_PATIENCE_MS: u64 = 10_000;

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Tasks that had a shim when the sweep started.
    pub stopped: Vec<String>,
    /// Those that the sweep had to kill.
    pub killed: Vec<String>,
    /// Tasks that still exist, or could not be inspected, with the reason.
    pub failed: Vec<(String, String)>,
}

/// Stops every task below `base`: SIGTERM, `notice_ms` of notice, SIGKILL. The directories stay.
///
/// Blocks at most for the notice, plus some seconds when processes hang in the kernel.
///
/// # Errors
/// When `base` cannot be read; errors of single tasks are in the result.
pub fn sweep(base: &Path, notice_ms: u64) -> Result<Swept, TaskError> {
    let mut swept = Swept::default();
    let mut waiting: Vec<(String, TaskDirectory, OwnedFd)> = Vec::new();
    for name in scan(base)? {
        let directory = TaskDirectory::open(base, &name)?;
        match begin(&directory) {
            Ok(Some(shim)) => {
                swept.stopped.push(name.clone());
                waiting.push((name, directory, shim));
            }
            Ok(None) => {}
            Err(error) => swept.failed.push((name, error.to_string())),
        }
    }
    let waiting = wait_for_all(waiting, notice_ms);
    for (name, directory, _) in &waiting {
        swept.killed.push(name.clone());
        if let Err(error) = directory.kill() {
            swept.failed.push((name.clone(), error.to_string()));
        }
    }
    for (name, ..) in wait_for_all(waiting, KILL_PATIENCE_MS) {
        let why = format!("still there {KILL_PATIENCE_MS} ms after it was killed");
        swept.failed.push((name, why));
    }
    Ok(swept)
}

/// Asks a task to stop; returns what to wait for, or `None` if nothing is left of it.
fn begin(directory: &TaskDirectory) -> Result<Option<OwnedFd>, TaskError> {
    let Some(shim) = directory.watch()? else {
        directory.remove_cgroup()?;
        return Ok(None);
    };
    if directory.terminate()? == Delivery::StillStarting {
        // Too young to have state that deserves a notice.
        directory.kill()?;
    }
    Ok(Some(shim))
}

/// Waits for the shims to end; returns those that have not.
fn wait_for_all(
    waiting: Vec<(String, TaskDirectory, OwnedFd)>,
    timeout_ms: u64,
) -> Vec<(String, TaskDirectory, OwnedFd)> {
    let until = Instant::now() + Duration::from_millis(timeout_ms);
    let still_there = |(_, _, shim): &(String, TaskDirectory, OwnedFd)| {
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        !wait_readable(shim, left).unwrap_or(false)
    };
    waiting.into_iter().filter(still_there).collect()
}
