//! Emptying a group where the kernel does not do it in one go.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use nix::sys::signal;
use nix::unistd::Pid;

use super::CgroupError;
use crate::FileError;

/// Whether the group was removed between the opening of one of its files and its use.
pub(super) fn is_removed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

/// Kills the processes of a group where there is no `cgroup.kill`.
pub(super) fn kill_one_by_one(directory: &Path) -> Result<(), CgroupError> {
    let path = directory.join("cgroup.procs");
    let mut killed = HashSet::new();
    loop {
        let pids = match fs::read_to_string(&path) {
            Ok(pids) => pids,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if is_removed(&error) => return Ok(()),
            Err(error) => return Err(FileError::new("read", &path, error).into()),
        };
        // 0 stands for a process of another pid namespace, which has no number here.
        let pids = pids.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0);
        let new: Vec<i32> = pids.filter(|pid| killed.insert(*pid)).collect();
        if new.is_empty() {
            return Ok(());
        }
        // A fork bomb makes new ones meanwhile, so go round until there is none that is new; the
        // limit of processes bounds that.
        for pid in new {
            let _gone = signal::kill(Pid::from_raw(pid), signal::SIGKILL);
        }
    }
}

/// Removes the empty groups below `directory`, deepest first.
pub(super) fn remove_children(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_children(&entry.path());
            // Whoever is still busy shows when the parent is removed.
            let _busy = fs::remove_dir(entry.path());
        }
    }
}
