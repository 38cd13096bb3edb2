//! What a task sees and may do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Tasks, UID};
use linux::logs::Stream;
use linux::record::{Bind, ExitReason, SecretVariable};

/// Runs a script that prints lines of `name=value`; returns the value of `name`.
fn value<'a>(output: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    output.lines().find_map(value).unwrap_or_else(|| panic!("no {name} in:\n{output}"))
}

#[test]
fn the_hosts_files_are_out_of_sight_and_the_system_read_only() {
    let tasks = Tasks::new();
    fs::write(tasks.base.path().join("secret"), "s").unwrap();
    let base = tasks.base.path().display();
    let (reason, output) = tasks.output(
        "sight",
        &format!(
            "echo root=$(ls / | tr '\\n' ' ')
             ls -d /root /home/task/../../root {base} /work 2>/dev/null && echo seen
             for d in / /etc /usr /usr/bin /dev /run /proc /proc/sys/kernel; do
               (echo x > $d/new) 2>/dev/null && echo \"written: $d\"
             done
             echo home=$(ls /home) cwd=$PWD
             touch mine /var/tmp/mine /dev/shm/mine && test -e /tmp/mine && echo own=$(stat -c %u mine)
             (head -c 2000000 /dev/zero > /tmp/big) 2>/dev/null || echo tmp=bounded
             head -c 3 /dev/urandom > /dev/null && echo dev=works
             grep -c . /etc/passwd /etc/resolv.conf > /dev/null && echo user=$(id -un)
             ls /etc/ssl/private 2>/dev/null && echo keys
             echo end=1"
        ),
    );
    assert_eq!(reason, ExitReason::Exited { code: 0 }, "{output}");
    assert!(
        !output.contains("seen") && !output.contains("written") && !output.contains("keys"),
        "{output}"
    );
    let root = value(&output, "root");
    for name in root.split(' ').filter(|name| !name.is_empty()) {
        let expected = [
            "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys",
            "tmp", "usr", "var",
        ];
        assert!(expected.contains(&name), "unexpected /{name}");
    }
    assert_eq!(value(&output, "home"), "task cwd=/home/task");
    assert_eq!(value(&output, "own"), UID.to_string());
    assert_eq!(value(&output, "tmp"), "bounded");
    assert_eq!(value(&output, "dev"), "works");
    assert_eq!(value(&output, "user"), "task");
    assert!(tasks.base.path().join("sight/home/mine").exists(), "its files are in its directory");
    let leftovers = fs::read_dir(tasks.base.path().join("sight/root")).unwrap().count();
    assert_eq!(leftovers, 0, "the jail was never visible on the host");
}

#[test]
fn the_task_is_nobody_special() {
    let tasks = Tasks::new();
    let (reason, output) = tasks.output(
        "nobody",
        "echo uid=$(id -u) gid=$(id -g) groups=$(id -G)
         sed -n 's/^\\(Cap[A-Za-z]*\\|NoNewPrivs\\|Seccomp\\):[[:space:]]*/\\1=/p' /proc/self/status
         echo hostname=$(hostname) name=$HOSTNAME
         echo init=$(tr '\\0' ' ' < /proc/1/cmdline)
         echo pid=$$ pids=$(ls /proc | grep -c '^[0-9]')
         echo cgroup=$(cut -d: -f3 /proc/self/cgroup | sort -u | tr '\\n' ' ')
         echo session=$(cut -d' ' -f6 /proc/$$/stat) umask=$(umask)
         echo stdin=$(readlink /proc/$$/fd/0)
         echo oom=$(cat /proc/self/oom_score_adj)
         unshare -U true 2>/dev/null && echo userns
         unshare -m true 2>/dev/null && echo mountns
         true",
    );
    assert_eq!(reason, ExitReason::Exited { code: 0 }, "{output}");
    assert_eq!(value(&output, "uid"), format!("{UID} gid={UID} groups={UID}"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(value(&output, set), "0000000000000000", "{set}");
    }
    assert_eq!(value(&output, "NoNewPrivs"), "1");
    assert_eq!(value(&output, "Seccomp"), "2");
    assert_eq!(value(&output, "hostname"), "nobody-0 name=nobody-0");
    assert_eq!(value(&output, "init"), "bourg-init", "init is pid 1 and tells nothing of the host");
    assert_eq!(value(&output, "pid").split(' ').next(), Some("2"));
    assert_eq!(value(&output, "session"), "2 umask=0022");
    assert_eq!(value(&output, "stdin"), "/dev/null");
    assert_eq!(value(&output, "oom"), "0");
    assert!(!output.contains("userns") && !output.contains("mountns"), "{output}");
    let groups = value(&output, "cgroup");
    assert!(!groups.contains("bourg"), "the cgroup namespace hides the path: {groups}");
}

/// In its program and in those that it starts, and nothing else.
#[test]
fn a_task_keeps_the_capabilities_that_it_is_given() {
    let tasks = Tasks::new();
    let script = "sed -n 's/^\\(Cap[A-Za-z]*\\|NoNewPrivs\\|Seccomp\\):[[:space:]]*/\\1=/p' \
                  /proc/self/status; echo uid=$(id -u)";
    let mut launch = tasks.script("given", script);
    // NET_BIND_SERVICE and PERFMON.
    launch.capabilities = vec![10, 38];
    let task = tasks.start("given", &launch);
    task.wait_end();
    let output = task.log(Stream::Stdout);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(value(&output, set), "0000004000000400", "{set}");
    }
    assert_eq!(value(&output, "NoNewPrivs"), "1");
    assert_eq!(value(&output, "Seccomp"), "2");
    assert_eq!(value(&output, "uid"), UID.to_string());
}

#[test]
fn no_file_of_the_shims_is_inherited() {
    let tasks = Tasks::new();
    let task = tasks.start("files", &tasks.launch("files", &["ls", "/proc/self/fd"]));
    task.wait_end();
    // The last one is the directory that is being listed.
    assert_eq!(task.log(Stream::Stdout), "0\n1\n2\n3\n");
}

#[test]
fn no_signal_is_blocked_or_ignored() {
    let tasks = Tasks::new();
    let argv = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"];
    let task = tasks.start("signals", &tasks.launch("signals", &argv));
    task.wait_end();
    let none = "0000000000000000";
    assert_eq!(task.log(Stream::Stdout), format!("SigBlk:\t{none}\nSigIgn:\t{none}\n"));
}

#[test]
fn bourg_is_there() {
    let tasks = Tasks::new();
    let script = "ls -l /usr/bin/bourg /usr/bin/ls > /dev/null && command -v bourg; bourg 2>&1";
    let (reason, output) = tasks.output("there", script);
    assert_eq!(reason, ExitReason::Exited { code: 2 }, "{output}");
    assert!(output.starts_with("/usr/bin/bourg\nusage: bare-shim"), "{output}");
}

/// Tells the test below that it runs on a host with its own `bourg`.
const STRANGER_VARIABLE: &str = "BOURG_TEST_STRANGER";

/// A host where an administrator has installed a `bourg` for all users, in its own mount namespace.
#[test]
fn a_bourg_of_the_hosts_own_is_out_of_sight() {
    if std::env::var_os(STRANGER_VARIABLE).is_some() {
        install_strangers();
        let tasks = Tasks::new();
        let script = "other; ls /usr/local/bin; command -v bourg; /usr/local/bin/bourg";
        let (reason, output) = tasks.output("stranger", script);
        assert_eq!(output, "other\nother\n/usr/bin/bourg\n", "the host's others stay");
        assert_eq!(reason, ExitReason::Exited { code: 127 });
        bourg_is_there();
        return crate::rootless::the_jail_is_the_same();
    }
    let name = "jail::a_bourg_of_the_hosts_own_is_out_of_sight";
    let output = Command::new("unshare")
        .arg("--mount")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(STRANGER_VARIABLE, "1")
        .output()
        .expect("unshare, of util-linux");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

/// Puts two programs that print their names into `/usr/local/bin`, as this process sees it.
fn install_strangers() {
    let (none, flags) = (None::<&str>, nix::mount::MsFlags::empty());
    fs::create_dir_all("/usr/local").unwrap();
    nix::mount::mount(Some("tmpfs"), "/usr/local", Some("tmpfs"), flags, none).unwrap();
    fs::create_dir("/usr/local/bin").unwrap();
    for name in ["bourg", "other"] {
        let program = format!("/usr/local/bin/{name}");
        fs::write(&program, format!("#!/bin/sh\necho {name}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn environment_is_the_launchs_and_nothing_else() {
    let tasks = Tasks::new();
    let mut launch = tasks.launch("env", &["env"]);
    launch.env = vec![("GREETING".to_owned(), "a=b c".to_owned())];
    let task = tasks.start("env", &launch);
    task.wait_end();
    let output = task.log(Stream::Stdout);
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "GREETING=a=b c",
            "HOME=/home/task",
            "HOSTNAME=env-0",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "USER=task"
        ]
    );
}

#[test]
fn further_directories_can_be_shown() {
    let tasks = Tasks::new();
    let shared = tempfile::tempdir().unwrap();
    fs::write(shared.path().join("hello"), "hello").unwrap();
    let mut launch = tasks
        .script("binds", "cat /packages/one/hello; touch /packages/one/x 2>/dev/null; echo $?");
    let bind = |target: &str| Bind {
        source: shared.path().to_owned(),
        target: target.into(),
        writable: false,
    };
    launch.jail.binds = vec![bind("/packages/one")];
    let task = tasks.start("binds", &launch);
    task.wait_end();
    assert_eq!(task.log(Stream::Stdout), "hello1\n");
    launch.cgroup.push('2');
    launch.jail.binds = vec![bind("/bin/x")];
    let task = tasks.start("refused", &launch);
    let exit = task.wait_end();
    let ExitReason::NotStarted { reason } = exit.reason else { panic!("{:?}", exit.reason) };
    assert!(reason.starts_with("the task cannot have a file at /bin/x: "), "{reason}");
}

/// Runtimes size themselves by these files.
#[test]
fn the_limits_of_a_task_are_where_runtimes_look() {
    let tasks = Tasks::new();
    let (_reason, output) = tasks.output(
        "limits",
        "cd /sys/fs/cgroup
         for file in memory.max memory/memory.limit_in_bytes; do
           test -e $file && echo memory=$(cat $file)
         done
         for file in pids.max pids/pids.max; do test -e $file && echo pids=$(cat $file); done
         for file in cpu.weight cpu/cpu.shares; do test -e $file && echo share=$file; done
         (echo max > pids.max || echo max > pids/pids.max) 2> /dev/null && echo written
         echo mine=$(cat cgroup.procs pids/cgroup.procs 2> /dev/null | grep -cx $$)
         echo others=$(find . -mindepth 2 -type d | grep -c .)
         echo at=$(cut -d : -f 3 /proc/self/cgroup | sort -u)",
    );
    assert_eq!(value(&output, "memory"), (64 << 20).to_string(), "{output}");
    assert_eq!(value(&output, "pids"), "64");
    assert!(value(&output, "share").starts_with("cpu"));
    assert_eq!(value(&output, "mine"), "1", "{output}");
    assert_eq!(value(&output, "others"), "0", "{output}");
    assert!(!output.contains("written"), "{output}");
    if crate::support::is_v2() {
        assert_eq!(value(&output, "at"), "/");
    }
}

/// A file at a path of the task's root, and a variable whose value is in no record.
#[test]
fn single_files_and_secret_variables_can_be_given() {
    let tasks = Tasks::new();
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = place.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        path
    };
    let script = "cat /etc/app/main.conf /srv/list; echo $PASSWORD; (echo x > /srv/list) 2>/dev/null || echo kept";
    let mut launch = tasks.script("files", script);
    for (name, target) in [("one", "/etc/app/main.conf"), ("two", "/srv/list")] {
        let source = file(name, &format!("{name}\n"));
        launch.jail.binds.push(Bind { source, target: target.into(), writable: false });
    }
    let source = file("password", "not in a record");
    launch.secret_env.push(SecretVariable { name: "PASSWORD".to_owned(), source });
    let task = tasks.start("files", &launch);
    assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 0 });
    assert_eq!(task.log(Stream::Stdout), "one\ntwo\nnot in a record\nkept\n");
    let record = fs::read_to_string(task.directory.path().join("launch.json")).unwrap();
    assert!(!record.contains("not in a record"), "{record}");
}
