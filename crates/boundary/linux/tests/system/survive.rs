//! Deaths of other processes: of the Borglet and of its server of shims, which a task survives, and
//! of its shim, which it does not.

use std::fs;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use crate::support::{Tasks, executable, wait_readable, wait_until};
use linux::logs::Stream;
use linux::record::{ExitReason, Running};
use linux::task::{Delivery, Inspection, LostReason, ShimServer, TaskDirectory};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn a_task_dies_with_its_shim_and_is_lost() {
    let tasks = Tasks::new();
    let task = tasks.run("orphan", "(setsid sleep 1000 &); echo up; sleep 1000");
    task.wait_output("up");
    let Some(running) = Running::read(task.directory.path()).unwrap() else { panic!("it runs") };
    kill(Pid::from_raw(task.shim.shim_pid), Signal::SIGKILL).unwrap();
    wait_readable(&task.shim.shim);
    wait_until("the init to be gone", || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.init_pid));
        status.map_or(true, |status| status.contains("State:\tZ"))
    });
    let lost = Inspection::Lost { reason: LostReason::ShimDied };
    assert_eq!(task.directory.inspect().unwrap(), lost);
    assert!(task.directory.watch().unwrap().is_none());
    assert!(task.cgroup.exists());
    task.directory.kill().unwrap();
    assert!(!task.cgroup.exists());
    assert_eq!(task.directory.inspect().unwrap(), lost);
    task.directory.remove().unwrap();
}

#[test]
fn another_boot_means_lost() {
    let tasks = Tasks::new();
    let task = tasks.run("boot", "sleep 1000");
    let Some(mut running) = Running::read(task.directory.path()).unwrap() else {
        panic!("it runs")
    };
    kill(Pid::from_raw(task.shim.shim_pid), Signal::SIGKILL).unwrap();
    wait_readable(&task.shim.shim);
    running.boot_id = "another".to_owned();
    // The init's pid belongs to another process now, which started as long after its boot.
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    running.init_pid = i32::try_from(other.id()).unwrap();
    running.init_start_ticks = start_ticks(running.init_pid);
    running.write(task.directory.path()).unwrap();
    let lost = Inspection::Lost { reason: LostReason::Rebooted };
    assert_eq!(task.directory.inspect().unwrap(), lost);
    assert_eq!(task.directory.terminate().unwrap(), Delivery::Gone);
    assert_eq!(task.directory.kill().unwrap(), Delivery::Gone);
    assert!(!task.cgroup.exists(), "what the old boot left is gone");
    assert!(other.try_wait().unwrap().is_none(), "a stranger was signalled");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// When a process started, in clock ticks since the boot of the machine.
fn start_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(22 - 3).unwrap().parse().unwrap()
}

#[test]
fn a_task_survives_its_starter_and_can_be_adopted() {
    let tasks = Tasks::new();
    let script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done";
    let directory = TaskDirectory::create(tasks.base.path(), "adopted").unwrap();
    tasks.script("adopted", script).write(directory.path()).unwrap();
    // A shell stands in for the Borglet: it starts the shim, and its whole session is then killed.
    let mut borglet = Command::new("setsid")
        .args(["sh", "-c", "\"$0\" shim \"$1\" < /dev/null; echo started; kill -KILL -$$"])
        .args([executable().as_os_str(), directory.path().as_os_str()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    borglet.wait().unwrap();
    wait_until("the task to run", || {
        matches!(directory.inspect().unwrap(), Inspection::Running(_))
    });
    let shim = directory.watch().unwrap().expect("a shim looks after it");
    let pid = directory.shim_pid().unwrap().expect("a shim looks after it");
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        kill(Pid::from_raw(pid), signal).unwrap();
    }
    let logs = directory.path().join("logs");
    let log = || crate::support::read_log(&logs, Stream::Stdout, linux::logs::Start::Beginning);
    wait_until("its trap", || log().contains("up"));
    directory.terminate().unwrap();
    wait_readable(&shim.as_fd());
    let Inspection::Ended(exit) = directory.inspect().unwrap() else { panic!("it has ended") };
    assert_eq!(exit.reason, ExitReason::Exited { code: 9 });
}

#[test]
fn shims_are_cheap_and_leave_no_zombies() {
    let tasks = Tasks::new();
    let task = tasks.run("cheap", "exec sleep 1000");
    let pid = task.shim.shim_pid;
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let dirty = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    let kib: u64 = dirty.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 1024, "{kib} KiB of private dirty memory");
    let parent = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = parent.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned();
    assert_ne!(parent, std::process::id().to_string(), "not ours to reap");
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(fds < 16, "{fds} open files");
}

/// The parent of a process, which is the server of shims for the shims of this test.
fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_task_survives_the_server_of_shims_and_another_starts_the_next() {
    let tasks = Tasks::new();
    let first = tasks.run("first", "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done");
    first.wait_output("up");
    let server = parent(first.shim.shim_pid);
    let same = tasks.run("same", "exec sleep 1000");
    assert_eq!(parent(same.shim.shim_pid), server, "one server forks them all");
    kill(Pid::from_raw(server), Signal::SIGTERM).unwrap();
    let again = tasks.run("again", "exec sleep 1000");
    assert_eq!(parent(again.shim.shim_pid), server, "only its client ends it");

    // Stopped first, so that the request is in its queue when it dies.
    kill(Pid::from_raw(server), Signal::SIGSTOP).unwrap();
    let next = std::thread::scope(|scope| {
        let next = scope.spawn(|| tasks.run("next", "exec sleep 1000"));
        let directory = tasks.base.path().join("next");
        wait_until("the log of the shim", || directory.join("shim.log").exists());
        kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
        next.join().unwrap()
    });
    assert_ne!(parent(next.shim.shim_pid), server);
    assert_ne!(parent(first.shim.shim_pid), server, "it has another parent");
    for task in [&first, &same, &again, &next] {
        assert!(matches!(task.directory.inspect().unwrap(), Inspection::Running(_)));
    }
    first.directory.terminate().unwrap();
    assert_eq!(first.wait_end().reason, ExitReason::Exited { code: 9 });
}

#[test]
fn the_server_of_shims_ends_with_its_client_and_its_shims_stay() {
    let mut tasks = Tasks::new();
    let task = tasks.run("stays", "echo up; exec sleep 1000");
    task.wait_output("up");
    let server = parent(task.shim.shim_pid);
    drop(std::mem::replace(&mut tasks.shims, ShimServer::new(&executable())));
    wait_until("the end of the server", || !fs::exists(format!("/proc/{server}")).unwrap());
    assert_ne!(parent(task.shim.shim_pid), server);
    assert!(matches!(task.directory.inspect().unwrap(), Inspection::Running(_)));
    let next = parent(tasks.run("next", "exec sleep 1000").shim.shim_pid);
    tasks.shims.stop();
    assert!(!fs::exists(format!("/proc/{next}")).unwrap(), "it is gone at once");
}

#[test]
fn a_shim_is_found_by_its_command_line() {
    let tasks = Tasks::new();
    let task = tasks.run("shown", "exec sleep 1000");
    let line = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let (program, dir) = (executable(), task.directory.path().to_owned());
    let expected = format!("{}\0shim\0{}", program.display(), dir.display());
    assert_eq!(line(task.shim.shim_pid).trim_end_matches('\0'), expected);
    let server = line(parent(task.shim.shim_pid));
    assert_eq!(server.trim_end_matches('\0'), format!("{}\0shims", program.display()));
}

#[test]
fn a_lock_held_by_shims_is_released_with_the_last_task() {
    let mut tasks = Tasks::new();
    let path = tasks.base.path().join("ports.lock");
    let lock = fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    tasks.shims = ShimServer::new(&executable()).holding(lock.into());
    let (first, second) =
        (tasks.run("first", "exec sleep 1000"), tasks.run("second", "sleep 1000"));
    let is_free = || fs::File::open(&path).unwrap().try_lock().is_ok();
    drop(std::mem::replace(&mut tasks.shims, ShimServer::new(&executable())));
    assert!(!is_free(), "two tasks run");
    first.directory.terminate().unwrap();
    first.wait_end();
    assert!(!is_free(), "one task runs");
    second.directory.kill().unwrap();
    second.wait_end();
    wait_until("the lock is released", is_free);
}
