//! Tasks of a user who is not root, in user namespaces: the same jail and the same records, no
//! limits.
//!
//! Root drops its privileges: each test runs itself again as a user without any.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use linux::Isolation;
use linux::enter::Terminal;
use linux::logs::{Start, Stream};
use linux::machine::{MachineResources, preflight};
use linux::record::{ExitReason, Launch, Running};
use linux::session::spawn;
use linux::task::{Delivery, Inspection, LostReason, Resized, TaskDirectory};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::support::{
    EXECUTABLE_VARIABLE, Tasks, UID, executable, read_log, wait_readable, wait_until,
};

/// The user who runs the tests here.
const CALLER: &str = "61235";

/// Runs the body of the test `name`, which is of this module or has another in its name, as a user who
/// is not root.
pub(crate) fn unprivileged(name: &str, body: impl FnOnce()) {
    if !geteuid().is_root() {
        return body();
    }
    let name = if name.contains("::") { name.to_owned() } else { format!("rootless::{name}") };
    // Copies, because the user may not be able to read the build directory.
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = base.path().join(name);
        fs::copy(from, &to).unwrap();
        to
    };
    let test = copy(&std::env::current_exe().unwrap(), "test");
    let shim = copy(&executable(), "bare-shim");
    let output = Command::new("setpriv")
        .args(["--reuid", CALLER, "--regid", CALLER, "--clear-groups"])
        .arg(test)
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(EXECUTABLE_VARIABLE, shim)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("setpriv, of util-linux");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as uid {CALLER}:\n{said}\n{complained}");
    assert!(said.contains("1 passed"), "{name} is not the name of this test: {said}");
}

#[test]
fn the_machine_says_so() {
    unprivileged("the_machine_says_so", || {
        assert_eq!(preflight().unwrap(), Isolation::Rootless);
        let machine = MachineResources::discover(Path::new("/tmp"), Isolation::Rootless).unwrap();
        assert_eq!(machine.attributes["isolation"], "rootless");
        assert_eq!(machine.attributes.get("cgroup"), None, "tasks are in none of ours");
        assert!(machine.cpu_milli >= 100 && machine.memory_bytes > 1 << 20, "{machine:?}");
    });
}

#[test]
fn a_refusal_says_what_to_do() {
    // In its own user namespace the test may forbid further ones.
    let output = Command::new("unshare")
        .args(["--user", "--map-user", CALLER, "--map-group", CALLER, "--keep-caps", "sh", "-c"])
        .arg("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" preflight")
        .arg(executable())
        .output()
        .expect("unshare, of util-linux");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        format!(
            "running tasks needs root or user namespaces, but this is uid {CALLER}, and user \
             namespaces are switched off: start it with sudo, or allow them with `sudo sysctl \
             user.max_user_namespaces=15000`\n"
        )
    );
}

#[test]
fn an_alloc_is_a_directory_alone() {
    let test = crate::allocs::without_groups_it_is_the_directory_alone;
    unprivileged("an_alloc_is_a_directory_alone", test);
}

#[test]
fn exit_statuses_and_output_arrive_and_nothing_is_made_up() {
    unprivileged("exit_statuses_and_output_arrive_and_nothing_is_made_up", || {
        let tasks = Tasks::new();
        let table = [
            ("seven", "echo seven; exit 7", ExitReason::Exited { code: 7 }),
            ("killed", "echo killed; kill -KILL $$", ExitReason::Signalled { signal: 9 }),
        ];
        for (name, script, expected) in table {
            let task = tasks.start(name, &tasks.script(name, script));
            let exit = task.wait_end();
            assert_eq!(exit.reason, expected, "{}", task.shim_log());
            assert_eq!(task.log(Stream::Stdout), format!("{name}\n"));
            assert_eq!((exit.cpu_ns, exit.memory_peak_bytes), (None, None));
            assert!(task.directory.cgroup().unwrap().is_none());
            assert_eq!(task.shim_log(), "");
        }
        let task = tasks.start("none", &tasks.launch("none", &["frobnicate"]));
        let reason = "no such file: frobnicate (not in the directories of PATH)";
        assert_eq!(task.wait_end().reason, ExitReason::NotStarted { reason: reason.to_owned() });
    });
}

#[test]
pub(crate) fn the_jail_is_the_same() {
    unprivileged("the_jail_is_the_same", || {
        let tasks = Tasks::new();
        fs::write(tasks.base.path().join("secret"), "s").unwrap();
        let base = tasks.base.path().display();
        let (reason, output) = tasks.output(
            "sight",
            &format!(
                "echo root=$(ls /)
                 ls -d /root {base} /work /var/* /tmp/* 2>/dev/null && echo seen
                 for d in / /etc /usr /usr/bin /dev /run /proc /proc/sys/kernel; do
                   (echo x > $d/new) 2>/dev/null && echo \"written: $d\"
                 done
                 for f in 0 root cwd exe; do readlink /proc/1/$f /proc/1/fd/$f && echo seen; done
                 cat /proc/1/environ /proc/1/maps 2>/dev/null && echo seen
                 (echo x > /proc/sys/kernel/hostname) 2>/dev/null && echo written
                 echo home=$(ls /home) cwd=$PWD
                 touch mine /tmp/mine /dev/shm/mine && echo own=$(stat -c %u:%g mine)
                 (head -c 2000000 /dev/zero > /tmp/big) 2>/dev/null || echo tmp=bounded
                 head -c 3 /dev/urandom > /dev/null && echo dev=works
                 echo bourg=$(command -v bourg) $(bourg 2>&1 | cut -c 1-16) ls=$(command -v ls)"
            ),
        );
        assert_eq!(reason, ExitReason::Exited { code: 0 }, "{output}");
        assert!(!output.contains("seen") && !output.contains("written"), "{output}");
        for line in [
            "home=task cwd=/home/task",
            &format!("own={UID}:{UID}"),
            "tmp=bounded",
            "dev=works",
            "bourg=/usr/bin/bourg usage: bare-shim ls=/usr/bin/ls",
        ] {
            assert!(output.lines().any(|is| is == line), "no {line} in\n{output}");
        }
        let root = output.lines().find_map(|line| line.strip_prefix("root=")).unwrap();
        for hidden in ["root", "work", "boot", "mnt", "opt", "srv"] {
            assert!(!root.split(' ').any(|name| name == hidden), "/{hidden} in {root}");
        }
        assert!(tasks.base.path().join("sight/home/mine").exists());
        let leftovers = fs::read_dir(tasks.base.path().join("sight/root")).unwrap().count();
        assert_eq!(leftovers, 0, "the jail was never visible on the host");
    });
}

#[test]
fn the_task_has_no_powers_even_in_its_own_namespace() {
    unprivileged("the_task_has_no_powers_even_in_its_own_namespace", || {
        let tasks = Tasks::new();
        let (reason, output) = tasks.output(
            "nobody",
            "echo uid=$(id -u) gid=$(id -g) user=$(id -un)
             grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'
             echo hostname=$(hostname) init=$(tr '\\0' ' ' < /proc/1/cmdline) pid=$$
             cut -d: -f3 /proc/self/cgroup | sort -u
             kill -KILL 1; kill -INT 1
             unshare -U true 2>/dev/null && echo userns
             unshare -m true 2>/dev/null && echo mountns
             exit 5",
        );
        assert_eq!(reason, ExitReason::Exited { code: 5 }, "{output}");
        let none = "0000000000000000";
        let expected = format!(
            "uid={UID} gid={UID} user=task\n\
             CapInh:{none}\nCapPrm:{none}\nCapEff:{none}\nCapBnd:{none}\nCapAmb:{none}\n\
             NoNewPrivs:1\nSeccomp:2\nhostname=nobody-0 init=bourg-init pid=2\n/\n"
        );
        assert_eq!(output, expected);
    });
}

#[test]
fn kill_takes_everything() {
    unprivileged("kill_takes_everything", || {
        let tasks = Tasks::new();
        // A unique name, by which its processes are found on the host.
        let mark = format!("{}.{}", 1_000_000, std::process::id());
        let script = format!("(setsid sleep {mark} &); (sleep {mark} &); echo up; sleep {mark}");
        let task = tasks.run("all", &script);
        task.wait_output("up");
        wait_until("three sleepers", || processes_with(&mark) == 3);
        task.directory.kill().unwrap();
        assert_eq!(task.wait_end().reason, ExitReason::Signalled { signal: 9 });
        assert_eq!(processes_with(&mark), 0);

        let task = tasks.run("young", "exec sleep 1000");
        // While the record does not exist.
        fs::remove_file(task.directory.path().join("running.json")).unwrap();
        assert_eq!(task.directory.kill().unwrap(), Delivery::StillStarting);
        assert_eq!(task.wait_end().reason, ExitReason::Signalled { signal: 9 });

        let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done";
        let task = tasks.run("polite", script);
        task.wait_output("up");
        task.directory.terminate().unwrap();
        assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 3 });
        assert!(task.log(Stream::Stdout).ends_with("bye\n"));
    });
}

/// The number of `sleep` processes of the host that were told to sleep for `mark`.
fn processes_with(mark: &str) -> usize {
    let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let wanted = format!("sleep\0{mark}\0");
    fs::read_dir("/proc").unwrap().flatten().map(of).filter(|is| *is == wanted.as_bytes()).count()
}

#[test]
fn a_task_survives_its_starter_and_dies_with_its_shim() {
    unprivileged("a_task_survives_its_starter_and_dies_with_its_shim", || {
        let tasks = Tasks::new();
        let directory = TaskDirectory::create(tasks.base.path(), "adopted").unwrap();
        let script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done";
        tasks.script("adopted", script).write(directory.path()).unwrap();
        // A shell stands in for the Borglet: it starts the shim, and its whole session is then
        // killed.
        let mut borglet = Command::new("setsid")
            .args(["sh", "-c", "\"$0\" shim \"$1\" < /dev/null; kill -KILL -$$"])
            .args([executable().as_os_str(), directory.path().as_os_str()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        borglet.wait().unwrap();
        let logs = directory.path().join("logs");
        wait_until("its trap", || {
            logs.is_dir() && read_log(&logs, Stream::Stdout, Start::Beginning).contains("up")
        });
        let shim = directory.watch().unwrap().expect("a shim looks after it");
        directory.terminate().unwrap();
        wait_readable(&shim);
        let Inspection::Ended(exit) = directory.inspect().unwrap() else { panic!("it has ended") };
        assert_eq!(exit.reason, ExitReason::Exited { code: 9 });

        let task = tasks.run("orphan", "(setsid sleep 1000 &); echo up; sleep 1000");
        task.wait_output("up");
        let running = Running::read(task.directory.path()).unwrap().expect("it runs");
        kill(Pid::from_raw(task.shim.shim_pid), Signal::SIGKILL).unwrap();
        wait_readable(&task.shim.shim);
        wait_until("the init to be gone", || {
            let status = fs::read_to_string(format!("/proc/{}/status", running.init_pid));
            status.map_or(true, |status| status.contains("State:\tZ"))
        });
        let lost = Inspection::Lost { reason: LostReason::ShimDied };
        assert_eq!(task.directory.inspect().unwrap(), lost);
        task.directory.kill().unwrap();
        task.directory.remove().unwrap();
    });
}

#[test]
fn a_program_joins_the_task() {
    unprivileged("a_program_joins_the_task", || {
        let tasks = Tasks::new();
        let task = tasks.run("host", "echo hi > file; echo up; exec sleep 1000");
        task.wait_output("up");
        let script = "echo $(id -u) $PWD $(cat file) $(cat /proc/1/comm)
            grep CapEff /proc/self/status; exit 4";
        let argv = ["sh", "-c", script].map(str::to_owned);
        let session = spawn(&executable(), task.directory.path(), &argv, &Terminal::Pipes).unwrap();
        let output = session.child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let expected = format!("{UID} /home/task hi bourg-init\nCapEff:\t0000000000000000\n");
        assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(4));
    });
}

#[test]
fn a_rootless_task_is_held_to_no_limits() {
    unprivileged("a_rootless_task_is_held_to_no_limits", || {
        let tasks = Tasks::new();
        let task = tasks.run("free", "exec sleep 1000");
        let mut limits = tasks.script("free", "").limits;
        limits.memory_bytes = 4096;
        assert_eq!(task.directory.resize(&limits).unwrap(), Resized::Done);
        let record = Launch::read(task.directory.path()).unwrap().expect("it was launched");
        assert_eq!(record.limits, limits);
        assert!(matches!(task.directory.inspect().unwrap(), Inspection::Running(_)));
    });
}

#[test]
fn unreadable_directories_of_a_task_can_be_removed() {
    unprivileged("unreadable_directories_of_a_task_can_be_removed", || {
        let tasks = Tasks::new();
        let script = "mkdir -p a/b/c; touch a/b/file; chmod 000 a/b/c a/b; chmod 500 a";
        let task = tasks.start("closed", &tasks.script("closed", script));
        assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 0 });
        task.directory.remove().unwrap();
        assert_eq!(fs::read_dir(tasks.base.path()).unwrap().count(), 0);
    });
}
