//! The usage of tasks, against what the kernel counts elsewhere.

use linux::cgroup::Hierarchy;
use linux::logs::Stream;
use linux::usage::{MachineReader, TaskReader, TaskUsage};

use crate::support::{Task, Tasks, is_v2, wait_until};

fn reader(task: &Task) -> TaskReader {
    let hierarchy = Hierarchy::detect().unwrap();
    TaskReader::open(&task.directory, Some(&hierarchy)).unwrap().expect("it runs")
}

/// The CPU time that the shell's `times` has printed: of itself and of its children, in seconds.
fn seconds(times: &str) -> f64 {
    let of_one = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').expect("0m0.00s");
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    times.split_ascii_whitespace().map(of_one).sum()
}

#[test]
fn cpu_time_is_what_the_shell_counted_for_itself() {
    let tasks = Tasks::new();
    let script = "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done; times; exec sleep 1000";
    let task = tasks.run("busy", script);
    let mut usage = reader(&task);
    // Two lines of two times each.
    wait_until("the times", || task.log(Stream::Stdout).matches('s').count() == 4);
    let own = seconds(&task.log(Stream::Stdout));
    let counted = usage.read().unwrap().cpu_ns.expect("a cgroup counts it") as f64 / 1e9;
    // The init ran there before, and `sleep` after.
    assert!((own * 0.98 - 0.02..own * 1.02 + 0.05).contains(&counted), "{counted} s of {own} s");
}

#[test]
fn memory_and_page_cache_are_those_of_the_task() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("memory", "head -c 8000000 /dev/zero > /tmp/x; echo; sleep 1000");
    launch.tmp_bytes_max = 16 << 20;
    let task = tasks.start("memory", &launch);
    task.wait_output("\n");
    let TaskUsage { memory_bytes, memory_peak_bytes, details, .. } = reader(&task).read().unwrap();
    assert!((Some(8_000_000)..Some(32 << 20)).contains(&memory_bytes), "{memory_bytes:?}");
    assert!(memory_peak_bytes >= memory_bytes, "{memory_peak_bytes:?} {memory_bytes:?}");
    assert_eq!(details.memory_limit_bytes, Some(64 << 20));
    let cache = details.page_cache_bytes;
    assert!((Some(7_900_000)..memory_bytes).contains(&cache), "{cache:?} {memory_bytes:?}");
}

#[test]
fn a_capped_task_is_throttled() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("cap", "while :; do :; done");
    launch.limits.cpu_milli = 100;
    launch.limits.cpu_hard_cap = true;
    let task = tasks.start("cap", &launch);
    task.wait_ready();
    let mut usage = reader(&task);
    wait_until("half a second of throttling", || {
        usage.read().unwrap().details.throttled_ns.expect("it is counted") > 500_000_000
    });
    if is_v2() {
        let stalls = usage.read().unwrap().details.stalls;
        assert!(stalls.memory_us.is_some(), "Debian's kernel has pressure files: {stalls:?}");
    }
}

#[test]
fn a_missing_cgroup_is_an_error_and_ended_tasks_have_no_reader() {
    let tasks = Tasks::new();
    let task = tasks.run("brief", "sleep 1000");
    let mut usage = reader(&task);
    assert!(usage.read().is_ok());
    task.directory.kill().unwrap();
    task.wait_end();
    assert!(usage.read().is_err());
    let hierarchy = Hierarchy::detect().unwrap();
    assert!(TaskReader::open(&task.directory, Some(&hierarchy)).unwrap().is_none());
}

#[test]
fn the_machine_uses_at_least_what_its_tasks_use() {
    let tasks = Tasks::new();
    let mut machine = MachineReader::open(tasks.base.path());
    let before = machine.read().cpu_ns.expect("it is counted");
    let task =
        tasks.run("busy", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; sleep 1000");
    task.wait_output("\n");
    let of_task = reader(&task).read().unwrap().cpu_ns.expect("a cgroup counts it");
    let of_machine = machine.read().cpu_ns.expect("it is counted") - before;
    // A tick on each side.
    assert!(of_machine + 40_000_000 >= of_task, "{of_machine} ns, the task alone {of_task} ns");
    let all = machine.read();
    assert!(all.memory_bytes > all.page_cache_bytes && all.page_cache_bytes.is_some(), "{all:?}");
}
