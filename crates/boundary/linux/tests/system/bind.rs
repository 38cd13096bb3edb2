//! Which ports tasks can bind, on the real kernel.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;

use crate::support::{Task, Tasks, executable, is_emulated, is_v2};
use linux::bind::{BindError, probe};
use linux::cgroup::{Hierarchy, TaskCgroup, parent_name};
use linux::enter::Terminal;
use linux::logs::Stream;
use linux::record::{BindablePorts, ExitReason, Launch};
use linux::session::spawn;
use linux::task::Inspection;

const DENIED: &str = "Operation not permitted (os error 1)";
const RESERVED: &str = "Permission denied (os error 13)";

/// A port that is free over TCP and UDP, below the kernel's range for outgoing connections. Another
/// test may look at the same time, so each process begins elsewhere.
fn free_port() -> u16 {
    let first = 31_000 + u16::try_from(std::process::id() % 800).unwrap();
    let is_free = |port: &u16| {
        let everywhere = (Ipv4Addr::UNSPECIFIED, *port);
        TcpListener::bind(everywhere).is_ok() && UdpSocket::bind(everywhere).is_ok()
    };
    (first..first + 900).find(is_free).expect("one of 900 ports is free")
}

/// A record that runs a script with ports of its own.
fn script(tasks: &Tasks, name: &str, given: &[u16], script: &str) -> Launch {
    let mut launch = tasks.script(name, script);
    launch.bindable_ports = BindablePorts::Only(given.to_vec());
    launch
}

/// What a task's script says.
fn said(task: &Task) -> Vec<String> {
    assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 0 }, "{}", task.shim_log());
    task.log(Stream::Stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_task_binds_its_ports_and_no_others() {
    let (tasks, port) = (Tasks::new(), free_port());
    let (own, other) = (port.to_string(), (port + 1).to_string());
    let text = "bourg bind tcp 0.0.0.0:OWN [::]:OWN 127.0.0.1:OWN [::1]:OWN 0.0.0.0:0 [::]:0
                bourg bind udp 0.0.0.0:OWN [::1]:OWN 127.0.0.1:0 [::]:0 127.0.0.1:60999
                bourg bind tcp 0.0.0.0:OTHER [::]:OTHER 127.0.0.1:OTHER [::1]:OTHER 0.0.0.0:60999
                bourg bind tcp 0.0.0.0:80 [::]:80 0.0.0.0:1024 [::]:65535
                bourg bind udp 0.0.0.0:OTHER [::]:20000 127.0.0.1:53 0.0.0.0:5353
                setsid --wait bourg bind tcp 0.0.0.0:OTHER [::]:OTHER 0.0.0.0:OWN
                (exec bourg bind udp 0.0.0.0:OTHER)";
    let text = text.replace("OWN", &own).replace("OTHER", &other);
    let task = tasks.start("binds", &script(&tasks, "binds", &[port, 7, port + 9], &text));
    let allowed = [
        "tcp 0.0.0.0:OWN",
        "tcp [::]:OWN",
        "tcp 127.0.0.1:OWN",
        "tcp [::1]:OWN",
        "tcp 0.0.0.0:0",
        "tcp [::]:0",
        "udp 0.0.0.0:OWN",
        "udp [::1]:OWN",
        "udp 127.0.0.1:0",
        "udp [::]:0",
        "udp 127.0.0.1:60999",
    ];
    let denied = [
        "tcp 0.0.0.0:OTHER",
        "tcp [::]:OTHER",
        "tcp 127.0.0.1:OTHER",
        "tcp [::1]:OTHER",
        "tcp 0.0.0.0:60999",
        "tcp 0.0.0.0:80",
        "tcp [::]:80",
        "tcp 0.0.0.0:1024",
        "tcp [::]:65535",
        "udp 0.0.0.0:OTHER",
        "udp [::]:20000",
        "udp 127.0.0.1:53",
        "udp 0.0.0.0:5353",
        "tcp 0.0.0.0:OTHER",
        "tcp [::]:OTHER",
    ];
    let mut expected: Vec<String> = allowed.iter().map(|of| format!("{of}: bound")).collect();
    expected.extend(denied.iter().map(|of| format!("{of}: {DENIED}")));
    expected.extend(["tcp 0.0.0.0:OWN: bound".to_owned(), format!("udp 0.0.0.0:OTHER: {DENIED}")]);
    let expected: Vec<String> =
        expected.iter().map(|line| line.replace("OWN", &own).replace("OTHER", &other)).collect();
    assert_eq!(said(&task), expected);
}

/// Prints what comes of a few sockets, and of narrowing the range for port 0 to one port.
const SOCKETS: &str = r#"
    use Socket;
    for my $family (2, 10, 1, 40) {
        print "$family: ", (socket(my $socket, $family, 1, 0) ? "opened" : $!), "\n";
        next if $family != 2 && $family != 10;
        print "usual: ", (setsockopt($socket, 0, 2, pack("i", 64)) ? "set" : $!), "\n";
        print "range: ", (setsockopt($socket, 0, 51, pack("L", 50051 << 16 | 50051)) ? "set" : $!), "\n";
    }"#;

#[test]
fn a_task_cannot_open_foreign_sockets_or_narrow_its_port_range() {
    // That machine has no perl, and the filter is the same there.
    if is_emulated() {
        return;
    }
    let tasks = Tasks::new();
    let task =
        tasks.start("sockets", &script(&tasks, "sockets", &[], &format!("perl -e '{SOCKETS}'")));
    let unknown = "range: Protocol not available";
    let expected =
        ["2: opened", "usual: set", unknown, "10: opened", "usual: set", unknown, "1: opened"];
    let said = said(&task);
    assert_eq!(said[..7], expected);
    assert_eq!(said[7], "40: Operation not permitted");
}

#[test]
fn ports_below_1024_need_the_capability_and_then_follow_the_kernel() {
    let (tasks, port) = (Tasks::new(), free_port());
    let text = format!("bourg bind udp 127.0.0.1:998 127.0.0.1:1024 127.0.0.1:{port}");
    let mut launch = script(&tasks, "privileged", &[port], &text);
    launch.capabilities = vec![10];
    let lines = said(&tasks.start("privileged", &launch));
    let expected = ["127.0.0.1:998: bound".to_owned(), format!("127.0.0.1:1024: {DENIED}")];
    assert_eq!(lines[..2], expected.map(|line| format!("udp {line}")));
    assert_eq!(lines[2], format!("udp 127.0.0.1:{port}: bound"));
    // Without a rule the kernel's own remains.
    let launch = tasks.script("free", "bourg bind tcp 127.0.0.1:998 127.0.0.1:0");
    let lines = said(&tasks.start("free", &launch));
    assert_eq!(lines, [format!("tcp 127.0.0.1:998: {RESERVED}"), "tcp 127.0.0.1:0: bound".into()]);
}

#[test]
fn a_process_that_enters_a_task_obeys_its_port_rule() {
    let (tasks, port) = (Tasks::new(), free_port());
    let task = tasks.start("entered", &script(&tasks, "entered", &[port], "exec sleep 1000"));
    task.wait_ready();
    let words =
        ["bourg", "bind", "tcp", &format!("127.0.0.1:{port}"), "127.0.0.1:80", "[::]:20000"];
    let argv: Vec<String> = words.map(str::to_owned).into();
    let session = spawn(&executable(), task.directory.path(), &argv, &Terminal::Pipes).unwrap();
    let output = session.child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = format!(
        "tcp 127.0.0.1:{port}: bound\ntcp 127.0.0.1:80: {DENIED}\ntcp [::]:20000: {DENIED}\n"
    );
    assert_eq!(text, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(matches!(task.directory.inspect().unwrap(), Inspection::Running(_)), "it runs on");
}

#[test]
fn each_task_in_an_alloc_has_its_own_port_rule() {
    let (tasks, port) = (Tasks::new(), free_port());
    let hierarchy = Hierarchy::detect().unwrap();
    let name = format!("{}/alloc", parent_name(tasks.base.path()));
    let alloc = TaskCgroup::open(&hierarchy, &name).unwrap();
    alloc.make_parent(&tasks.script("limits", "true").limits).unwrap();
    let text = format!("bourg bind tcp 127.0.0.1:{port} 127.0.0.1:{}", port + 1);
    let outcomes = [port, port + 1].map(|given| {
        let name = format!("in-alloc-{given}");
        let mut launch = script(&tasks, &name, &[given], &text);
        (launch.cgroup, launch.in_alloc) = (format!("{}/{name}", alloc.name()), true);
        let lines = said(&tasks.start(&name, &launch));
        lines.iter().map(|line| line.ends_with(DENIED)).collect::<Vec<_>>()
    });
    assert_eq!(outcomes, [[false, true], [true, false]]);
    alloc.remove().unwrap();
}

/// The cgroup2 directories below a cgroup.
fn unified(name: &str) -> Option<PathBuf> {
    let tree = match Hierarchy::detect().unwrap() {
        Hierarchy::V1(mounts) => mounts.unified?,
        Hierarchy::V2 { root } => root,
    };
    Some(tree.join(name))
}

#[test]
fn a_probe_and_a_task_leave_no_cgroups_behind() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let parent = parent_name(tasks.base.path());
    probe(&hierarchy, &format!("{parent}/probe")).unwrap();
    let directory = unified(&parent).unwrap();
    let children = || {
        let entries = directory.read_dir().into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name())
            .collect::<Vec<_>>()
    };
    assert_eq!(children(), Vec::<std::ffi::OsString>::new());
    let task = tasks.start("ends", &script(&tasks, "ends", &[9], "exec sleep 1000"));
    task.wait_ready();
    assert_eq!(children(), ["ends"]);
    task.directory.kill().unwrap();
    task.wait_end();
    assert_eq!(children(), Vec::<std::ffi::OsString>::new());
}

/// Where the machine has no cgroup2 tree, it is said what to do; nothing remains.
#[test]
fn a_machine_without_a_tree_says_so() {
    let tasks = Tasks::new();
    let Hierarchy::V1(mut mounts) = Hierarchy::detect().unwrap() else { return };
    mounts.unified = None;
    let hierarchy = Hierarchy::V1(mounts);
    let name = format!("{}/probe", parent_name(tasks.base.path()));
    let error = probe(&hierarchy, &name).unwrap_err();
    assert!(matches!(error, BindError::NoTree), "{error}");
    assert!(error.to_string().contains("mount -t cgroup2"), "{error}");
    assert!(!TaskCgroup::open(&hierarchy, &name).unwrap().exists());
}

/// A program above that allows no other one below, as another manager of the machine may have.
#[test]
fn an_exclusive_bpf_program_above_is_reported_and_prevents_the_start() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let parent = parent_name(tasks.base.path());
    // A running task has such a program, and its cgroup can have others below on v1 alone.
    let outer = tasks.start("outer", &script(&tasks, "outer", &[9], "exec sleep 1000"));
    outer.wait_ready();
    let below = format!("{parent}/outer/below");
    match probe(&hierarchy, &below) {
        Err(BindError::Attach { path, source }) => {
            assert_eq!(Some(path), unified(&below));
            assert_eq!(source.raw_os_error(), Some(libc::EPERM));
        }
        Err(BindError::Cgroup(error)) if is_v2() => {
            assert!(error.to_string().contains("must hold no processes"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let mut launch = script(&tasks, "inner", &[], "true");
    launch.cgroup = format!("{parent}/outer/inner");
    let exit = tasks.start("inner", &launch).wait_end();
    let ExitReason::NotSetUp { reason } = exit.reason else { panic!("{exit:?}") };
    if !is_v2() {
        assert!(reason.contains("does not attach a BPF program to cgroup "), "{reason}");
    }
    assert!(!unified(&launch.cgroup).unwrap().exists());
}
