//! cgroups on the real kernel: limits read back, nested cgroups, and differences between the
//! hierarchies.

use std::process::{Child, Command};

use crate::support::{Tasks, held, is_v2};
use linux::cgroup::{CgroupError, Hierarchy, Limits, Sharing, TaskCgroup, parent_name};
use linux::record::ExitReason;
use linux::task::Inspection;

/// The name of a cgroup of this test.
fn name(tasks: &Tasks, last: &str) -> String {
    format!("{}/{last}", parent_name(tasks.base.path()))
}

fn limits(cpu_milli: u64, cpu_hard_cap: bool, memory_bytes: u64, pids_max: u64) -> Limits {
    Limits { cpu_milli, cpu_hard_cap, memory_bytes, pids_max, sharing: Sharing::default() }
}

/// A process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_kernel_holds_the_limits_up_to_their_extremes() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let table = [
        (
            limits(1500, true, 64 << 20, 32),
            ["1536", "150000", "32", ""],
            ["59", "150000 100000", "32", "1"],
        ),
        (limits(0, false, 4096, 2), ["2", "-1", "2", ""], ["1", "max 100000", "2", "1"]),
        (
            limits(u64::MAX, true, 1 << 62, u64::MAX),
            ["262144", "8796093022208", "max", ""],
            ["10000", "8796093022208 100000", "max", "1"],
        ),
    ];
    for (limits, v1, v2) in table {
        let group = TaskCgroup::create(&hierarchy, &name(&tasks, "limits"), &limits).unwrap();
        assert_eq!(held(&group), if is_v2() { v2 } else { v1 }, "{limits:?}");
        assert_eq!(group.memory_limit_bytes().unwrap(), limits.memory_bytes);
    }
}

#[test]
fn a_group_of_the_same_name_is_emptied_first() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let (small, name) = (limits(100, false, 8 << 20, 8), name(&tasks, "again"));
    let first = TaskCgroup::create(&hierarchy, &name, &small).unwrap();
    let nested = TaskCgroup::create(&hierarchy, &format!("{name}/task"), &small).unwrap();
    let mut sleeper = Sleeper::new();
    nested.add_process(sleeper.pid()).unwrap();
    let second = TaskCgroup::create(&hierarchy, &name, &small).unwrap();
    assert!(!sleeper.0.wait().unwrap().success());
    assert!(!nested.exists() && first.exists());
    assert_eq!(second.oom_kills().unwrap(), 0);
}

#[test]
fn an_alloc_bounds_its_tasks_together_and_loses_only_one() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let alloc_limits = limits(1000, false, 48 << 20, 64);
    let alloc = TaskCgroup::create(&hierarchy, &name(&tasks, "alloc"), &alloc_limits).unwrap();
    let start = |last: &str, script: &str| {
        let mut launch = tasks.script(last, script);
        launch.cgroup = format!("{}/{last}", alloc.name());
        launch.in_alloc = true;
        tasks.start(last, &launch)
    };
    let quiet = start("quiet", "sleep 1000");
    quiet.wait_ready();
    // The limits of an alloc with tasks can be changed like those of an empty one.
    alloc.set_limits(&alloc_limits).unwrap();
    let glutton = start("glutton", "x=0123456789abcdef; while :; do x=$x$x; done");
    // Its own limit is 64 MiB, which it never reaches.
    let ExitReason::OutOfMemory { peak_bytes, .. } = glutton.wait_end().reason else {
        panic!("it must end")
    };
    // The kernel counts a little before it asks the parent cgroup.
    assert!(peak_bytes < 56 << 20, "{peak_bytes}");
    let state = quiet.directory.inspect().unwrap();
    assert!(matches!(state, Inspection::Running(_)), "{state:?}");
    assert!(alloc.usage().unwrap().memory_peak_bytes > peak_bytes / 2);
    alloc.kill_all().unwrap();
    assert_eq!(quiet.wait_end().reason, ExitReason::Signalled { signal: 9 });
    alloc.remove().unwrap();
    assert!(!alloc.exists());
}

#[test]
fn memory_below_what_is_used_is_refused_and_nobody_is_killed() {
    let tasks = Tasks::new();
    // Files in memory cannot be reclaimed, so the kernel has no other choice.
    let mut launch =
        tasks.script("shrink", "head -c 40000000 /dev/zero > /tmp/x; echo up; sleep 1000");
    launch.tmp_bytes_max = 64 << 20;
    let task = tasks.start("shrink", &launch);
    task.wait_output("up");
    launch.limits.memory_bytes = 16 << 20;
    launch.limits.cpu_milli = 2000;
    let error = task.cgroup.set_limits(&launch.limits).unwrap_err();
    let CgroupError::MemoryInUse { limit_bytes, used_bytes, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*limit_bytes, 16 << 20);
    assert!(*used_bytes >= 40_000_000, "{error}");
    assert_eq!(task.cgroup.memory_limit_bytes().unwrap(), 64 << 20);
    assert_eq!(held(&task.cgroup)[0], if is_v2() { "79" } else { "2048" }, "the rest is done");
    assert_eq!(task.cgroup.oom_kills().unwrap(), 0);
    assert!(matches!(task.directory.inspect().unwrap(), Inspection::Running(_)));
}

#[test]
fn a_v2_group_with_processes_has_no_groups_below_it() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let small = limits(100, false, 8 << 20, 8);
    let busy = TaskCgroup::create(&hierarchy, &name(&tasks, "busy"), &small).unwrap();
    let sleeper = Sleeper::new();
    busy.add_process(sleeper.pid()).unwrap();
    let below = TaskCgroup::create(&hierarchy, &name(&tasks, "busy/below"), &small);
    if is_v2() {
        let error = below.unwrap_err();
        assert!(matches!(error, CgroupError::NotDelegated { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("/busy cannot delegate `+cpu +memory +pids`"), "{text}");
        assert!(text.contains("must hold no processes"), "{text}");
        assert_eq!(held(&busy)[3], "1", "nothing about it has changed");
    } else {
        assert!(below.unwrap().exists());
    }
}
