//! Processes and cgroups of a cell, as the kernel shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// Sends a signal. A missing process is no failure.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _gone = nix::sys::signal::kill(Pid::from_raw(pid), signal);
}

/// Whether there is a process with this pid.
pub(crate) fn is_there(pid: i32) -> bool {
    nix::sys::signal::kill(Pid::from_raw(pid), None).is_ok()
}

/// All processes.
fn all() -> impl Iterator<Item = (i32, PathBuf)> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        Some((path.file_name()?.to_str()?.parse().ok()?, path))
    })
}

/// The arguments or the environment of a process.
fn words(process: &Path, file: &str) -> Vec<String> {
    let bytes = fs::read(process.join(file)).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The command line of a process; empty if it is dead.
pub(crate) fn command(pid: i32) -> Vec<String> {
    words(&Path::new("/proc").join(pid.to_string()), "cmdline")
}

/// The processes in a cgroup and below it, by pid, with their environment.
fn in_cgroup(parent: &str) -> BTreeMap<i32, Vec<String>> {
    let of = |path: &Path| fs::read_to_string(path.join("cgroup")).unwrap_or_default();
    let inside = all().filter(|(_, path)| of(path).contains(parent));
    inside.map(|(pid, path)| (pid, words(&path, "environ"))).collect()
}

/// The established TCP connections of a process: local and remote ports.
pub(crate) fn connections(pid: i32) -> BTreeSet<(u16, u16)> {
    let sockets = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned);
    let sockets: BTreeSet<String> = sockets.filter_map(name).collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let port = |place: &str| u16::from_str_radix(place.rsplit(':').next()?, 16).ok();
    let made = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, own, other, "01", _, _, _, _, _, inode, ..] = words[..] else { return None };
        sockets.contains(&format!("socket:[{inode}]")).then_some((port(own)?, port(other)?))
    });
    made.collect()
}

/// The processes of a user, by pid, with their environment.
fn of_user(wanted: u32) -> BTreeMap<i32, Vec<String>> {
    let of_user = all().filter(|(pid, _)| try_uid(*pid) == Some(wanted));
    of_user.map(|(pid, path)| (pid, words(&path, "environ"))).collect()
}

/// The programs of a job's tasks: pid by index. Their child processes are not included.
pub(crate) fn tasks(parent: &str, job: &str) -> BTreeMap<u32, i32> {
    programs(&in_cgroup(parent), job)
}

/// The same for tasks without cgroups: all processes of a user.
pub(crate) fn tasks_of_user(uid: u32, job: &str) -> BTreeMap<u32, i32> {
    programs(&of_user(uid), job)
}

fn programs(all: &BTreeMap<i32, Vec<String>>, job: &str) -> BTreeMap<u32, i32> {
    let value = |pid: i32, name: &str| {
        let lines = all.get(&pid)?.iter();
        lines.filter_map(|line| line.strip_prefix(name)).next().map(str::to_owned)
    };
    let of_job = |pid: i32| value(pid, "BORG_JOB=").as_deref() == Some(job);
    let programs =
        all.keys().copied().filter(|pid| of_job(*pid) && !parent_of(*pid).is_none_or(of_job));
    let index = |pid| value(pid, "BORG_TASK=").and_then(|index| index.parse().ok());
    // A command inside a task has the task's environment, but is younger than its program.
    let mut programs: Vec<i32> = programs.collect();
    programs.sort_by_key(|pid| std::cmp::Reverse(stat(*pid, STARTED).unwrap_or(u64::MAX)));
    programs.into_iter().map(|pid| (index(pid).expect("a task's index"), pid)).collect()
}

/// The place of the parent in `/proc/PID/stat`, counted after the name (proc(5), fields 4 and 22).
const PARENT: usize = 1;
/// The place of the time of its start.
const STARTED: usize = 19;

/// A number in `/proc/PID/stat`; `None` if the process is gone.
fn stat<T: std::str::FromStr>(pid: i32, place: usize) -> Option<T> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(place)?.parse().ok()
}

/// The pid of a process's parent; `None` if the process is gone.
fn parent_of(pid: i32) -> Option<i32> {
    stat(pid, PARENT)
}

/// The user id of a process.
pub(crate) fn uid(pid: i32) -> u32 {
    try_uid(pid).expect("it runs")
}

fn try_uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The processes in the cgroup of a task, below a parent.
pub(crate) fn of_instance(parent: &str, instance: &str) -> Vec<i32> {
    let is_there = |pid: &i32| cgroup_below(parent, *pid).as_deref() == Some(instance);
    all().map(|(pid, _)| pid).filter(is_there).collect()
}

/// The name of the task, or of the alloc, whose cgroup a process is in, below the parent of all and the
/// cgroup of its kind of tasks.
pub(crate) fn cgroup_below(parent: &str, pid: i32) -> Option<String> {
    let path = cgroup_of(parent, pid)?;
    let below = path.strip_prefix(parent)?.strip_prefix('/')?;
    let is_kind = |name: &&str| linux::cgroup::Tier::ALL.iter().any(|tier| tier.group() == *name);
    below.split('/').find(|name| !is_kind(name)).map(str::to_owned)
}

/// The cgroup of a process below a parent.
pub(crate) fn cgroup_of(parent: &str, pid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let below = format!("/{parent}/");
    // In the trees of some controllers it is in that of all tasks of its kind.
    let paths = text.lines().filter_map(|line| line.find(&below).map(|at| &line[at + 1..]));
    paths.max_by_key(|path| path.len()).map(str::to_owned)
}

/// The processes in a cgroup, and those with a directory in their command line; each with a
/// description. Zombies are not included.
pub(crate) fn left(parent: &str, directory: &Path) -> BTreeMap<i32, String> {
    let directory = directory.to_string_lossy();
    let own = i32::try_from(std::process::id()).expect("a pid");
    let mut left = BTreeMap::new();
    for (pid, path) in all() {
        let cgroup = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
        let words = words(&path, "cmdline");
        let is_ours =
            cgroup.contains(parent) || words.iter().any(|word| word.contains(&*directory));
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let is_dead = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
        if is_ours && !is_dead && pid != own {
            left.insert(pid, format!("{} {stat}", words.join(" ")));
        }
    }
    left
}

/// The directories of a cgroup in all hierarchies.
pub(crate) fn cgroups(parent: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies =
        fs::read_dir(root).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let places = hierarchies.chain([root.to_owned()]).map(|hierarchy| hierarchy.join(parent));
    places.filter(|place| place.is_dir()).collect()
}

/// The shim of a task: the process that was started with its directory.
pub(crate) fn shim(task_directory: &Path) -> Option<i32> {
    let directory = task_directory.to_string_lossy();
    let mut shims = all().filter(|(_, path)| {
        matches!(words(path, "cmdline").as_slice(),
            [_, command, of, ..] if command == "shim" && *of == directory)
    });
    shims.next().map(|(pid, _)| pid)
}
