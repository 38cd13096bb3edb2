//! The memory limit of all tasks together, and which of them the kernel kills at it.

use crate::support::{Tasks, wait_until};
use linux::cgroup::{Hierarchy, TaskCgroup, parent_name};
use linux::record::ExitReason;
use linux::task::Inspection;

/// Fills memory with a string that doubles.
const GLUTTON: &str = "x=0123456789abcdef; while :; do x=$x$x; done";

/// The cgroup of all tasks, with a limit in MiB.
fn together(tasks: &Tasks, mib: u64) -> TaskCgroup {
    let all = TaskCgroup::open(&Hierarchy::detect().unwrap(), &parent_name(tasks.base.path()));
    let all = all.unwrap();
    all.limit_memory(mib << 20).unwrap();
    all
}

#[test]
fn a_task_killed_within_its_limit_is_not_blamed() {
    let tasks = Tasks::new();
    let all = together(&tasks, 48);
    let mut launch = tasks.script("quiet", "sleep 1000");
    launch.oom_score_adj = 200;
    let quiet = tasks.start("quiet", &launch);
    quiet.wait_ready();
    // Without a limit of its own, and with one that it never reaches.
    for (name, limit) in [("slack", u64::MAX), ("limited", 200 << 20)] {
        let mut launch = tasks.script(name, GLUTTON);
        launch.limits.memory_bytes = limit;
        launch.oom_score_adj = 900;
        let exit = tasks.start(name, &launch).wait_end();
        let ExitReason::MachineOutOfMemory { limit_bytes, peak_bytes } = exit.reason else {
            panic!("{name}: {exit:?}")
        };
        let is_own = limit_bytes == 200 << 20 || limit_bytes >= 1 << 62;
        assert!(is_own && peak_bytes < 56 << 20, "{name}: {limit_bytes} {peak_bytes}");
    }
    let state = quiet.directory.inspect().unwrap();
    assert!(matches!(state, Inspection::Running(_)), "{state:?}");
    // At its own limit it is blamed, beside others.
    let mut launch = tasks.script("small", GLUTTON);
    launch.limits.memory_bytes = 16 << 20;
    let exit = tasks.start("small", &launch).wait_end();
    assert!(
        matches!(exit.reason, ExitReason::OutOfMemory { limit_bytes, .. } if limit_bytes == 16 << 20),
        "{exit:?}"
    );
    quiet.directory.kill().unwrap();
    quiet.wait_end();
    assert!(all.children().is_empty(), "{:?}", all.children());
}

#[test]
fn tmp_files_count_as_memory_and_the_oom_score_is_set() {
    let tasks = Tasks::new();
    let all = together(&tasks, 256);
    let script = "head -c 20M /dev/zero > /tmp/x; cat /proc/self/oom_score_adj; sleep 1000";
    let mut launch = tasks.script("keeps", script);
    (launch.oom_score_adj, launch.tmp_bytes_max) = (700, 64 << 20);
    let task = tasks.start("keeps", &launch);
    task.wait_output("700\n");
    let used = || all.unreclaimable_bytes().unwrap();
    wait_until("what it has in /tmp counts", || used() >= 20 << 20);
    let own = task.cgroup.unreclaimable_bytes().unwrap();
    assert!((20 << 20..=used() + (1 << 20)).contains(&own) && own < 40 << 20, "{own}");
    assert_eq!(all.children(), ["keeps"]);
    assert!(!task.cgroup.has_reached_limit().unwrap());
    // Less than what is used is refused, and changes nothing.
    let error = all.limit_memory(8 << 20).unwrap_err().to_string();
    assert!(error.contains("cannot reclaim enough for a limit of 8388608"), "{error}");
    assert_eq!(all.memory_limit_bytes().unwrap(), 256 << 20);
    task.directory.kill().unwrap();
    task.wait_end();
    wait_until("it is free again", || used() < 10 << 20);
}
