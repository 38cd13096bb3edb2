//! Tasks that run and end: exit statuses, output, records, usage, and missing programs.

use std::fs;

use crate::support::{Tasks, executable, wait_until};
use linux::logs::Stream;
use linux::record::{ExitReason, Running};
use linux::task::{Inspection, LostReason, ShimServer, TaskDirectory, TaskError, scan};

#[test]
fn exit_statuses_arrive_exactly() {
    let tasks = Tasks::new();
    let table = [
        ("zero", "exit 0", ExitReason::Exited { code: 0 }),
        ("seven", "exit 7", ExitReason::Exited { code: 7 }),
        ("term", "kill -TERM $$", ExitReason::Signalled { signal: 15 }),
        ("realtime", "kill -40 $$", ExitReason::Signalled { signal: 40 }),
    ];
    for (name, script, expected) in table {
        let task = tasks.start(name, &tasks.script(name, script));
        let exit = task.wait_end();
        assert_eq!(exit.reason, expected, "{name}: {}", task.shim_log());
        assert!(!task.cgroup.exists(), "{name}: the cgroup is gone with the task");
        assert_eq!(task.shim_log(), "");
    }
    assert_eq!(scan(tasks.base.path()).unwrap(), ["realtime", "seven", "term", "zero"]);
}

#[test]
fn output_is_kept_and_streams_are_apart() {
    let tasks = Tasks::new();
    let task = tasks.start("out", &tasks.script("out", "echo to out; echo to err >&2; printf end"));
    task.wait_end();
    assert_eq!(task.log(Stream::Stdout), "to out\nend");
    assert_eq!(task.log(Stream::Stderr), "to err\n");
}

#[test]
fn output_of_a_sudden_end_is_complete() {
    let tasks = Tasks::new();
    let script = "head -c 300000 /dev/zero | tr '\\0' x; kill -KILL $$";
    let (reason, output) = tasks.output("sudden", script);
    assert_eq!(reason, ExitReason::Signalled { signal: 9 });
    assert_eq!(output.len(), 300_000);
}

#[test]
fn a_failed_start_says_why() {
    let tasks = Tasks::new();
    let home = |name: &str, file: &str, content: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let directory = TaskDirectory::create(tasks.base.path(), name).unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        let path = directory.path().join("home").join(file);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        directory
    };
    let reason = |directory: TaskDirectory, name: &str, argv: &[&str]| {
        let child = directory.start(&tasks.shims, &tasks.launch(name, argv)).unwrap();
        crate::support::wait_readable(&child.shim);
        match directory.inspect().unwrap() {
            Inspection::Ended(exit) => match exit.reason {
                ExitReason::NotStarted { reason } => reason,
                reason => panic!("{reason:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let plain = |name: &str| TaskDirectory::create(tasks.base.path(), name).unwrap();
    assert_eq!(
        reason(plain("a"), "a", &["frobnicate"]),
        "no such file: frobnicate (not in the directories of PATH)"
    );
    assert_eq!(reason(plain("b"), "b", &["/no/such"]), "no such file: /no/such");
    assert_eq!(reason(plain("c"), "c", &["/usr/bin"]), "/usr/bin is a directory, not a program");
    assert_eq!(
        reason(home("d", "x", "hello", 0o644), "d", &["./x"]),
        "permission denied: ./x is not executable for the task's user"
    );
    assert_eq!(
        reason(home("e", "x", "hello", 0o755), "e", &["./x"]),
        "./x is neither a program for this machine nor a script with a #! line"
    );
    assert_eq!(
        reason(home("f", "x", "#!/no/such\n", 0o755), "f", &["./x"]),
        "./x exists, but its interpreter or dynamic loader does not: /no/such"
    );
}

#[test]
fn an_impossible_launch_is_refused_before_any_effect() {
    let tasks = Tasks::new();
    let directory = TaskDirectory::create(tasks.base.path(), "bad").unwrap();
    let mut launch = tasks.script("bad", "exit 0");
    launch.uid = 0;
    let error = directory.start(&tasks.shims, &launch).unwrap_err();
    assert!(matches!(error, TaskError::Invalid { .. }), "{error}");
    let lost = Inspection::Lost { reason: LostReason::NeverStarted };
    assert_eq!(directory.inspect().unwrap(), lost);
    launch.uid = crate::support::UID;
    let error = directory.start(&ShimServer::new("/no/such/bourg".as_ref()), &launch).unwrap_err();
    assert!(error.to_string().contains("/no/such/bourg: No such file"), "{error}");
    assert!(TaskDirectory::create(tasks.base.path(), "bad").is_err(), "directories are used once");
    for name in ["", ".", "..", ".x", "a/b", "a\0b"] {
        assert!(TaskDirectory::open(tasks.base.path(), name).is_err(), "{name:?}");
    }
}

#[test]
fn a_directory_is_used_once_and_by_one_shim() {
    let tasks = Tasks::new();
    let task = tasks.run("once", "read never < /dev/zero; exec sleep 1000");
    let launch = tasks.script("once", "exit 0");
    let error = task.directory.start(&tasks.shims, &launch).unwrap_err();
    assert!(matches!(error, TaskError::InUse { shim_pid, .. } if shim_pid == task.shim.shim_pid));
    assert!(matches!(task.directory.remove(), Err(TaskError::InUse { .. })));
    // A second shim started by hand also refuses, and leaves the task alone.
    let second = std::process::Command::new(executable())
        .arg("shim")
        .arg(task.directory.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(second.stdout).unwrap();
    assert!(said.starts_with("error another shim, process"), "{said}");
    assert!(matches!(task.directory.inspect().unwrap(), Inspection::Running(_)));
    task.directory.kill().unwrap();
    task.wait_end();
    let error = task.directory.start(&tasks.shims, &launch).unwrap_err();
    assert!(error.to_string().contains("has ended already"), "{error}");
    task.directory.remove().unwrap();
    assert!(!task.directory.path().exists());
    task.directory.remove().unwrap();
}

#[test]
fn running_names_the_init_and_usage_grows() {
    let tasks = Tasks::new();
    let task = tasks.run("busy", "while :; do :; done");
    let Inspection::Running(running) = task.directory.inspect().unwrap() else {
        panic!("it runs");
    };
    assert_eq!(Running::read(task.directory.path()).unwrap(), Some(running.clone()));
    let name = fs::read_to_string(format!("/proc/{}/comm", running.init_pid)).unwrap();
    assert_eq!(name, "bourg-init\n");
    let mut reader = task.cgroup.usage_reader().unwrap();
    let first = reader.read().unwrap();
    assert!(first.memory_bytes > 0 && first.memory_peak_bytes >= first.memory_bytes);
    wait_until("CPU time to grow by 50 ms", || {
        reader.read().unwrap().cpu_ns > first.cpu_ns + 50_000_000
    });
    task.directory.kill().unwrap();
    let exit = task.wait_end();
    assert_eq!(exit.reason, ExitReason::Signalled { signal: 9 });
    assert!(exit.cpu_ns > Some(50_000_000) && exit.memory_peak_bytes > Some(0), "{exit:?}");
    assert!(reader.read().is_err(), "the group is gone");
}
