//! Empties a cgroup when the kernel cannot do it in one step.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal;
use nix::unistd::Pid;

use super::CgroupError;
use crate::FileError;

/// Whether the cgroup was removed between the opening of one of its files and its use.
pub(super) fn is_removed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

/// Kills the processes of a cgroup and of its descendants when there is no `cgroup.kill`.
pub(super) fn kill_one_by_one(directory: &Path) -> Result<(), CgroupError> {
    let mut killed = HashSet::new();
    loop {
        let mut new = Vec::new();
        collect(directory, &mut new)?;
        new.retain(|pid| killed.insert(*pid));
        if new.is_empty() {
            return Ok(());
        }
        // A fork bomb creates new ones meanwhile, so repeat until there are no new ones; the
        // process limit bounds that.
        for pid in new {
            let _gone = signal::kill(Pid::from_raw(pid), signal::SIGKILL);
        }
    }
}

/// Adds the processes of a cgroup and of its descendants to `pids`.
pub(super) fn collect(directory: &Path, pids: &mut Vec<i32>) -> Result<(), CgroupError> {
    let path = directory.join("cgroup.procs");
    match fs::read_to_string(&path) {
        // 0 stands for a process of another pid namespace, which has no number here.
        Ok(lines) => {
            let numbers = lines.lines().filter_map(|line| line.parse::<i32>().ok());
            pids.extend(numbers.filter(|pid| *pid > 0));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if is_removed(&error) => {}
        Err(error) => return Err(FileError::new("read", &path, error).into()),
    }
    children(directory).iter().try_for_each(|child| collect(child, pids))
}

/// The direct children of `directory`; none if it no longer exists.
fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let groups =
        entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.map(|entry| entry.path()).collect()
}

/// Removes the empty cgroups below `directory`, deepest first.
pub(super) fn remove_children(directory: &Path) {
    for child in children(directory) {
        remove_children(&child);
        // A child that is still busy makes the removal of the parent fail.
        let _busy = fs::remove_dir(child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On directories that look like a v1 tree: machines with `cgroup.kill` never run this code.
    #[test]
    fn processes_in_the_groups_below_are_killed() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("alloc/task");
        fs::create_dir_all(&below).unwrap();
        let mut sleep = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(root.path().join("cgroup.procs"), "0\n").unwrap();
        fs::write(below.join("cgroup.procs"), format!("{}\n", sleep.id())).unwrap();
        kill_one_by_one(root.path()).unwrap();
        assert!(!sleep.wait().unwrap().success());
        kill_one_by_one(&root.path().join("gone")).unwrap();
        fs::remove_file(below.join("cgroup.procs")).unwrap();
        remove_children(root.path());
        assert!(!root.path().join("alloc").exists());
    }
}
