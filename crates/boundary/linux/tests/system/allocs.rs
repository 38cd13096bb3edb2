//! Allocs: one limit for their tasks together, and shared files.

use std::fs;
use std::path::Path;

use crate::support::{Task, Tasks, held, is_v2, wait_until};
use linux::Isolation;
use linux::alloc::Alloc;
use linux::cgroup::{Limits, parent_name};
use linux::logs::Stream;
use linux::record::{ExitReason, Launch};
use linux::task::{Inspection, Resized};

/// Fills memory with a string that doubles.
const GLUTTON: &str = "x=0123456789abcdef; while :; do x=$x$x; done";

fn limits(mib: u64) -> Limits {
    Limits {
        cpu_milli: 1_000,
        cpu_hard_cap: false,
        memory_bytes: mib << 20,
        pids_max: u64::MAX,
        sharing: linux::cgroup::Sharing::default(),
    }
}

/// The alloc of a test, which need not exist.
fn open(tasks: &Tasks, isolation: Isolation) -> Alloc {
    let base = tasks.base.path().join(".allocs");
    let group = format!("{}/9-0-1", parent_name(tasks.base.path()));
    Alloc::open(&base, "9-0-1", &group, isolation).unwrap()
}

fn made(tasks: &Tasks, mib: u64) -> Alloc {
    let alloc = open(tasks, Isolation::Jail);
    alloc.make(&limits(mib), None).unwrap();
    alloc
}

/// A script in an alloc.
fn inside(tasks: &Tasks, alloc: &Alloc, name: &str, script: &str) -> Launch {
    let mut launch = tasks.script(name, script);
    launch.cgroup = format!("{}/9-0-1/{name}", parent_name(tasks.base.path()));
    launch.in_alloc = true;
    launch.jail.binds.push(alloc.bind("/alloc"));
    launch
}

fn start(tasks: &Tasks, alloc: &Alloc, name: &str, script: &str) -> Task {
    tasks.start(name, &inside(tasks, alloc, name, script))
}

fn is_running(task: &Task) -> bool {
    matches!(task.directory.inspect().unwrap(), Inspection::Running(_))
}

#[test]
fn each_task_of_an_alloc_has_scratch_of_its_own() {
    let tasks = Tasks::new();
    let alloc = made(&tasks, 80);
    // With what every shell has: the programs of an emulated machine are few.
    let script = "[ -e /scratch/x ] && echo used || echo empty; echo x > /scratch/x; while read -r _ at kind _; do \
                  [ $at = /scratch ] && echo $kind; done < /proc/mounts; sleep 1000";
    for name in ["first", "second"] {
        let mut launch = inside(&tasks, &alloc, name, script);
        launch.scratch_bytes_max = Some(4 << 20);
        let task = tasks.start(name, &launch);
        task.wait_output("empty\ntmpfs");
    }
}

#[test]
fn two_tasks_share_an_allocs_limit_and_the_culprit_is_named() {
    let tasks = Tasks::new();
    let alloc = made(&tasks, 80);
    let mut launch =
        inside(&tasks, &alloc, "first", "head -c 50000000 /dev/zero > /tmp/x; echo up; sleep 1000");
    launch.tmp_bytes_max = 60 << 20;
    let first = tasks.start("first", &launch);
    first.wait_output("up");
    // Files in memory, so that the kernel chooses a task with processes that use it.
    let second = start(&tasks, &alloc, "second", GLUTTON);
    let ExitReason::OutOfMemory { limit_bytes, peak_bytes } = second.wait_end().reason else {
        panic!("there is no room for both")
    };
    assert_eq!(limit_bytes, 80 << 20, "the alloc's");
    assert!(peak_bytes < 40 << 20, "far below its own 64 MiB: {peak_bytes}");
    assert!(is_running(&first));
    // The same in the alloc, for a task that reaches its own limit first.
    let mut launch = inside(&tasks, &alloc, "small", GLUTTON);
    launch.limits.memory_bytes = 8 << 20;
    let small = tasks.start("small", &launch).wait_end();
    let ExitReason::OutOfMemory { limit_bytes, .. } = small.reason else { panic!("{small:?}") };
    assert_eq!(limit_bytes, 8 << 20, "its own");
    assert!(is_running(&first));
}

#[test]
fn tasks_of_two_users_share_files() {
    let tasks = Tasks::new();
    let alloc = made(&tasks, 80);
    let write = "echo GET / > /alloc/access.log; mkdir -m 700 /alloc/own; id -u; sleep 1000";
    let web = start(&tasks, &alloc, "web", write);
    wait_until("the log", || alloc.shared().join("own").is_dir());
    let read = "cat /alloc/access.log; echo saved > /alloc/saved; id -u; \
                rm -f /alloc/access.log; ls /alloc/own; ls /alloc";
    let mut launch = inside(&tasks, &alloc, "saver", read);
    (launch.uid, launch.gid) = (launch.uid + 1, launch.gid + 1);
    let saver = tasks.start("saver", &launch);
    assert_eq!(saver.wait_end().reason, ExitReason::Exited { code: 0 });
    let said = saver.log(Stream::Stdout);
    assert_eq!(said, "GET /\n61235\nown\nsaved\n", "what is there can be replaced");
    let refused = saver.log(Stream::Stderr);
    assert!(refused.contains("own"), "and not read where its owner does not want it: {refused}");
    assert!(is_running(&web) && web.log(Stream::Stdout).contains("61234"));
    // Other tasks of the machine see nothing of it.
    let (_, outside) = tasks.output("outside", "ls -d /alloc || echo none");
    assert_eq!(outside, "none\n");
}

#[test]
fn a_task_does_not_start_in_an_alloc_that_is_not_there() {
    let tasks = Tasks::new();
    let alloc = open(&tasks, Isolation::Jail);
    alloc.make_directory().unwrap();
    assert!(!alloc.is_made());
    let exit = start(&tasks, &alloc, "early", "true").wait_end();
    let ExitReason::NotSetUp { reason } = exit.reason else { panic!("{exit:?}") };
    assert!(reason.starts_with("its alloc does not exist: bourg/"), "{reason}");
}

#[test]
fn an_alloc_is_created_idempotently_and_resized_in_place() {
    let tasks = Tasks::new();
    let alloc = made(&tasks, 64);
    let fill = "head -c 30000000 /dev/zero > /tmp/x; echo up; sleep 1000";
    let mut launch = inside(&tasks, &alloc, "task", fill);
    launch.tmp_bytes_max = 60 << 20;
    let task = tasks.start("task", &launch);
    task.wait_output("up");
    fs::write(alloc.shared().join("kept"), "x").unwrap();
    alloc.make(&limits(96), None).unwrap();
    assert!(alloc.is_made() && is_running(&task));
    let group = task.cgroup.parent().unwrap();
    assert_eq!(group.memory_limit_bytes().unwrap(), 96 << 20);
    let whole_or_one = if is_v2() { "0" } else { "" };
    assert_eq!(held(&group)[2..], ["max", whole_or_one]);
    assert_eq!(alloc.resize(&limits(48)).unwrap(), Resized::Done);
    assert_eq!(group.memory_limit_bytes().unwrap(), 48 << 20);
    let refused = alloc.resize(&limits(16)).unwrap();
    assert_eq!(refused, Resized::Refused { memory_bytes: 48 << 20 });
    assert!(is_running(&task), "nobody is killed for it");
}

#[test]
fn an_alloc_is_removed_with_its_files_and_remaining_processes() {
    let tasks = Tasks::new();
    let alloc = made(&tasks, 64);
    let task = start(&tasks, &alloc, "task", "mkdir -p /alloc/a/b; echo up; sleep 1000");
    task.wait_output("up");
    // As after a reboot: the cgroup is gone, and the files are not.
    let rebooted = open(&tasks, Isolation::Jail);
    alloc.remove().unwrap();
    assert_eq!(task.wait_end().reason, ExitReason::Signalled { signal: 9 });
    assert!(!alloc.is_made() && !alloc.path().exists());
    assert!(!task.cgroup.parent().unwrap().exists());
    alloc.remove().unwrap();
    rebooted.make_directory().unwrap();
    fs::write(rebooted.shared().join("kept"), "x").unwrap();
    assert!(!rebooted.is_made());
    rebooted.make(&limits(64), None).unwrap();
    assert!(rebooted.is_made() && rebooted.shared().join("kept").is_file());
    rebooted.remove().unwrap();
    assert!(linux::task::scan(alloc.path().parent().unwrap()).unwrap().is_empty());
}

/// For the caller's own user; the test of rootless tasks runs it.
pub(crate) fn without_groups_it_is_the_directory_alone() {
    let tasks = Tasks::new();
    let alloc = open(&tasks, Isolation::Rootless);
    assert!(!alloc.is_made());
    alloc.make(&limits(64), None).unwrap();
    assert!(alloc.is_made());
    assert_eq!(alloc.resize(&limits(1)).unwrap(), Resized::Done, "nothing holds it to that");
    for (name, script) in [("web", "echo hello > /alloc/log"), ("saver", "cat /alloc/log")] {
        let task = start(&tasks, &alloc, name, script);
        assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 0 }, "{}", task.shim_log());
        let said = if name == "saver" { "hello\n" } else { "" };
        assert_eq!(task.log(Stream::Stdout), said);
    }
    alloc.remove().unwrap();
    assert!(!Path::new(alloc.path()).exists());
}
