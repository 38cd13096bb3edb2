//! Limits that change while a task runs.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Task, Tasks, held, is_v2, wait_until};
use linux::cgroup::{Hierarchy, Limits, Sharing, TaskCgroup, parent_name};
use linux::record::{ExitReason, Launch};
use linux::task::{Resized, TaskDirectory, TaskError};

/// Performs each step when the file with its number exists, and reports it.
const STEPS: &str = "
    step() { while ! [ -e $1 ]; do sleep 0.02; done; }
    echo up
    step 1; head -c 90000000 /dev/zero > /tmp/x; echo 1 done
    step 2; cat /dev/null > /tmp/x; echo 2 done
    step 3; head -c 90000000 /dev/zero > /tmp/x; echo not reached; sleep 1000";

/// Lets the task perform a step, and waits until it has.
fn step(task: &Task, number: u32) {
    begin(task, number);
    task.wait_output(&format!("{number} done"));
}

fn begin(task: &Task, number: u32) {
    fs::write(task.directory.path().join("home").join(number.to_string()), "").unwrap();
}

fn limits(cpu_milli: u64, memory_mib: u64) -> Limits {
    Limits {
        cpu_milli,
        cpu_hard_cap: true,
        memory_bytes: memory_mib << 20,
        pids_max: 64,
        sharing: Sharing::default(),
    }
}

/// The limits in its record and in the kernel: CPU in milli-cores, memory in MiB.
fn present(task: &Task) -> [(u64, u64); 2] {
    let record = Launch::read(task.directory.path()).unwrap().expect("it was launched").limits;
    let [_, cap, ..] = held(&task.cgroup);
    let quota_us: u64 = cap.split(' ').next().unwrap().parse().unwrap();
    let memory_bytes = task.cgroup.memory_limit_bytes().unwrap();
    [(record.cpu_milli, record.memory_bytes), (quota_us / 100, memory_bytes)]
        .map(|(cpu, memory)| (cpu, memory >> 20))
}

#[test]
fn a_running_task_is_resized_and_ends_at_its_new_limit() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("steps", STEPS);
    (launch.limits, launch.tmp_bytes_max) = (limits(500, 64), 1 << 30);
    let task = tasks.start("steps", &launch);
    task.wait_output("up");
    // More than its limit would allow.
    assert_eq!(task.directory.resize(&limits(2000, 160)).unwrap(), Resized::Done);
    assert_eq!(present(&task), [(2000, 160); 2]);
    step(&task, 1);
    // Less than it uses, which the kernel cannot reclaim.
    let refused = Resized::Refused { memory_bytes: 160 << 20 };
    for _ in 0..2 {
        assert_eq!(task.directory.resize(&limits(300, 32)).unwrap(), refused);
        assert_eq!(present(&task), [(300, 160); 2], "memory as it was, the rest as asked");
    }
    // Between its usage and its limit.
    assert_eq!(task.directory.resize(&limits(300, 120)).unwrap(), Resized::Done);
    assert_eq!(present(&task), [(300, 120); 2]);
    step(&task, 2);
    assert_eq!(task.directory.resize(&limits(1000, 32)).unwrap(), Resized::Done);
    assert_eq!(present(&task), [(1000, 32); 2]);
    begin(&task, 3);
    let ExitReason::OutOfMemory { limit_bytes, peak_bytes } = task.wait_end().reason else {
        panic!("it has less than it needs: {}", task.shim_log())
    };
    assert_eq!(limit_bytes, 32 << 20, "the limit that it met, not one that it had before");
    assert!(peak_bytes >= 90_000_000, "the most that it had in all its time: {peak_bytes}");
    assert_eq!(task.directory.resize(&limits(1000, 64)).unwrap(), Resized::Gone);
    assert_eq!(task.shim_log(), "");
}

/// Tells a second process of a test which one it is.
const SECOND: &str = "BOURG_TEST_SECOND";

#[test]
fn memory_that_the_kernel_can_take_back_is_no_obstacle() {
    if std::env::var_os(SECOND).is_some() {
        return have_memory_to_take_back();
    }
    let tasks = Tasks::new();
    let name = format!("{}/lazy", parent_name(tasks.base.path()));
    let group = TaskCgroup::create(&Hierarchy::detect().unwrap(), &name, &limits(500, 64)).unwrap();
    let own = "resize::memory_that_the_kernel_can_take_back_is_no_obstacle";
    let mut second = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", own, "--nocapture", "--test-threads=1"])
        .env(SECOND, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    group.add_process(second.id().cast_signed()).unwrap();
    let mut input = second.stdin.take().unwrap();
    writeln!(input, "go").unwrap();
    let mut said = BufReader::new(second.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("it is there")));
    let before = group.usage().unwrap().memory_bytes;
    assert!(before > 40_000_000, "{before}");
    group.set_limits(&limits(500, 16)).unwrap();
    let after = group.usage().unwrap().memory_bytes;
    assert!(after <= 16 << 20, "{after}");
    assert_eq!(group.oom_kills().unwrap(), 0);
    drop(input);
    assert!(second.wait().unwrap().success(), "and it lives on");
    group.remove().unwrap();
}

/// Fills memory that it then no longer needs, without freeing it.
#[expect(unsafe_code, reason = "a hint to the kernel without a safe wrapper")]
fn have_memory_to_take_back() {
    let mut lines = std::io::stdin().lines();
    assert_eq!(lines.next().unwrap().unwrap(), "go");
    let mut memory = vec![1_u8; 40 << 20];
    let start = memory.as_ptr().align_offset(4096);
    let pages = &mut memory[start..][..39 << 20];
    // SAFETY: whole pages that nothing else uses; their bytes become 0, or stay.
    let hinted = unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len(), libc::MADV_FREE) };
    assert_eq!(hinted, 0);
    println!("it is there");
    assert!(lines.next().is_none());
    assert_eq!(memory.last(), Some(&1));
}

#[test]
fn more_cpu_is_had_at_once() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("busy", "while :; do :; done");
    // At a hundredth of a core it takes 30 seconds for what is waited for below.
    launch.limits = limits(10, 64);
    let task = tasks.start("busy", &launch);
    task.wait_ready();
    let mut reader = task.cgroup.usage_reader().unwrap();
    let first = reader.read().unwrap().cpu_ns;
    let begin = Instant::now();
    assert_eq!(task.directory.resize(&limits(1000, 64)).unwrap(), Resized::Done);
    wait_until("300 ms of CPU", || reader.read().unwrap().cpu_ns > first + 300_000_000);
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
}

#[test]
fn only_what_runs_is_resized_and_only_to_what_makes_sense() {
    let tasks = Tasks::new();
    let never = TaskDirectory::create(tasks.base.path(), "never").unwrap();
    assert_eq!(never.resize(&limits(100, 64)).unwrap(), Resized::Gone);
    let task = tasks.run("task", "exec sleep 1000");
    let error = task.directory.resize(&limits(100, 0)).unwrap_err();
    assert!(matches!(error, TaskError::Invalid { .. }), "{error}");
    // While the record does not exist.
    let running = task.directory.path().join("running.json");
    let hidden = task.directory.path().join("hidden");
    fs::rename(&running, &hidden).unwrap();
    assert_eq!(task.directory.resize(&limits(100, 32)).unwrap(), Resized::StillStarting);
    assert_eq!(task.cgroup.memory_limit_bytes().unwrap(), 64 << 20);
    fs::rename(&hidden, &running).unwrap();
    assert_eq!(task.directory.resize(&limits(100, 32)).unwrap(), Resized::Done);
    assert_eq!(held(&task.cgroup)[0], if is_v2() { "4" } else { "102" });
}
