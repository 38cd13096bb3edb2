//! Enforcement of limits: memory, processes, CPU.

use crate::support::{Tasks, wait_until};
use linux::logs::Stream;
use linux::record::ExitReason;

/// Fills memory with a string that doubles.
const GLUTTON: &str = "x=0123456789abcdef; while :; do x=$x$x; done";

#[test]
fn too_much_memory_ends_the_task_with_the_numbers() {
    let tasks = Tasks::new();
    let exit = tasks.start("glutton", &tasks.script("glutton", GLUTTON)).wait_end();
    let ExitReason::OutOfMemory { limit_bytes, peak_bytes } = exit.reason else {
        panic!("{exit:?}")
    };
    assert_eq!(limit_bytes, 64 << 20);
    assert!((32 << 20..=64 << 20).contains(&peak_bytes), "{peak_bytes}");
}

#[test]
fn a_child_out_of_memory_ends_the_whole_task() {
    let tasks = Tasks::new();
    // The main process would run forever.
    let script = format!("sh -c '{GLUTTON}'; sleep 1000");
    let exit = tasks.start("parent", &tasks.script("parent", &script)).wait_end();
    assert!(matches!(exit.reason, ExitReason::OutOfMemory { .. }), "{exit:?}");
}

#[test]
fn tmp_counts_as_memory() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("tmp", "head -c 100000000 /dev/zero > /tmp/x; sleep 1000");
    launch.tmp_bytes_max = 200 << 20;
    let exit = tasks.start("tmp", &launch).wait_end();
    assert!(matches!(exit.reason, ExitReason::OutOfMemory { .. }), "{exit:?}");
}

#[test]
fn too_many_processes_are_refused() {
    let tasks = Tasks::new();
    let mut launch = tasks.script(
        "many",
        "i=0; while [ $i -lt 30 ]; do sleep 1000 & i=$((i+1)); done; echo not reached",
    );
    launch.limits.pids_max = 10;
    let task = tasks.start("many", &launch);
    assert!(matches!(task.wait_end().reason, ExitReason::Exited { code } if code != 0));
    assert!(task.log(Stream::Stderr).contains("fork"), "{}", task.log(Stream::Stderr));
}

#[test]
fn a_hard_cap_holds_on_an_idle_machine() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("cap", "while :; do :; done");
    launch.limits.cpu_milli = 100;
    launch.limits.cpu_hard_cap = true;
    let task = tasks.start("cap", &launch);
    task.wait_ready();
    let mut reader = task.cgroup.usage_reader().unwrap();
    let (begin, first) = (std::time::Instant::now(), reader.read().unwrap());
    let used =
        |reader: &mut linux::cgroup::UsageReader| reader.read().unwrap().cpu_ns - first.cpu_ns;
    wait_until("100 ms of CPU", || used(&mut reader) > 100_000_000);
    // At a tenth of a core that takes a second, less the quota of a period or two.
    assert!(begin.elapsed().as_millis() >= 600, "{:?}", begin.elapsed());
}
