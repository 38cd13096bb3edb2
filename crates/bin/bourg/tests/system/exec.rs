//! Commands inside tasks: what they see, who may, what is recorded, and what ends with them.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::emulator::Emulator;
use crate::eventually::until;
use crate::processes;
use crate::replicas::Three;

/// Runs a job of idle tasks.
fn run_idle(cell: &Cell) {
    cell.write(
        "idle.bcl",
        "(import 'borg.libsonnet').service('idle', tasks=2, cmd=['sleep', '100000']) {
           env: { COLOUR: 'green' },
         }",
    );
    cell.ok("bourg run idle.bcl");
}

/// The processes of a job's task, without its init.
fn inside(cell: &Cell, index: u32) -> Vec<i32> {
    let pid = cell.tasks("idle")[&index];
    processes::of_instance(cell.cgroup(), &cell.instance_of(pid))
}

/// Waits until only the task itself and its init are left.
fn is_alone(cell: &Cell, index: u32) {
    until("nothing else runs in the task", || inside(cell, index).len() == 2);
}

/// Starts a command with pipes.
fn piped(cell: &Cell, words: &[&str]) -> Child {
    let mut command = cell.program("bourg");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it can be started")
}

#[test]
fn exec_runs_inside_the_task_and_returns_streams_and_status() {
    let cell = Cell::start();
    run_idle(&cell);
    let task = cell.tasks("idle")[&1];
    let own = |name: &str| {
        let link = std::fs::read_link(format!("/proc/{task}/ns/{name}")).expect("a namespace");
        link.to_string_lossy().into_owned()
    };
    for name in ["mnt", "pid", "ipc", "uts", "cgroup"] {
        let seen = cell.ok(&format!("bourg exec idle/1 -- readlink /proc/self/ns/{name}"));
        assert_eq!(seen.trim(), own(name), "{name}");
    }
    let seen = cell.ok("bourg exec idle/1 -- sh -c 'id -u; pwd; echo $COLOUR'");
    assert_eq!(seen, format!("{}\n/home/task\ngreen\n", processes::uid(task)));
    let seen =
        cell.ok("bourg exec idle/1 -- grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status");
    let words = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words, "CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2");

    let ended = cell.types("bourg exec idle/1 -- sh -c 'echo out; echo err >&2; exit 7'");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (7, "out\n", "err\n"));
    assert_eq!(cell.types("bourg exec idle/1 -- sh -c 'kill -TERM $$'").code, 143);
    let said = cell.fails(127, "bourg exec idle/1 -- frobnicate");
    assert!(said.contains("no such file: frobnicate"), "{said}");
    assert_eq!(cell.ok("bourg exec idle/0 -- cat"), "", "without -i the input is empty");
    assert_eq!(cell.ok("echo echo hello | bourg exec -i idle/0"), "hello\n", "a shell");

    // Everything passes, whatever its bytes, and ends with the input.
    let bytes: Vec<u8> =
        (0..6_000_003_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    cell.write("sent", &bytes);
    cell.ok("bourg exec -i idle/1 -- cat < sent > received");
    assert!(std::fs::read(cell.path("received")).expect("it was written") == bytes);
    // What the command leaves unread does not keep it.
    assert_eq!(cell.ok("bourg exec -i idle/1 -- head -c 3 < sent | wc -c").trim(), "3");

    // What it leaves behind is killed.
    let begun = Instant::now();
    cell.ok("bourg exec idle/1 -- sh -c 'sleep 4321 & setsid sh -c \"sleep 4322 & sleep 4323\" & exit 0'");
    assert!(begun.elapsed() < Duration::from_secs(10));
    is_alone(&cell, 1);
    assert_eq!(cell.tasks("idle")[&1], task, "the task itself runs on");
}

#[test]
fn only_those_who_may_run_commands_and_both_ends_are_events() {
    let cell = Cell::start();
    run_idle(&cell);
    cell.ok("bourg user add ben");
    let said = cell.fails(3, "bourg --cell ben exec root/idle/0 -- touch /home/task/mark");
    let who = "root, an administrator or a user with the capability exec-tasks may";
    assert!(said.contains("ben may not run commands in tasks of root/idle"), "{said}");
    assert!(said.contains(who), "{said}");
    assert_eq!(cell.types("bourg exec idle/0 -- test -e /home/task/mark").code, 1);
    assert!(!cell.ok("bourg events idle").contains("by ben"));

    cell.ok("bourg capability grant ben exec-tasks");
    let ended = cell.types("bourg --cell ben exec root/idle/0 -- sh -c 'sleep 0.2; exit 3'");
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let line = |events: &str, word: &str| {
        let mut lines = events
            .lines()
            .filter(|line| line.contains(&format!(" {word} ")) && line.ends_with("by ben"));
        let line = lines.next().map(str::to_owned);
        assert_eq!(lines.next(), None, "{events}");
        line
    };
    until("the end is recorded", || line(&cell.ok("bourg events idle"), "EXEC_END").is_some());
    let events = cell.ok("bourg events idle");
    let (start, end) = (line(&events, "EXEC"), line(&events, "EXEC_END"));
    let (start, end) = (start.expect("the start"), end.expect("the end"));
    for line in [&start, &end] {
        assert!(
            line.contains("root/idle/0") && line.contains("sh -c 'sleep 0.2; exit 3'"),
            "{line}"
        );
    }
    assert!(end.contains("exit status 3 after "), "{end}");
    let seen = cell.ok("bourg events idle -o json");
    let ended = seen.lines().find(|line| line.contains("execEnded") && line.contains("\"ben\""));
    let ended: serde_json::Value =
        serde_json::from_str(ended.unwrap_or_else(|| panic!("{seen}"))).expect("an event");
    let text = ended.to_string();
    assert!(text.contains("\"status\":3"), "{text}");
    cell.ok("bourg capability revoke ben exec-tasks");
    cell.fails(3, "bourg --cell ben exec root/idle/0 -- true");
}

#[test]
fn a_terminal_in_the_task_gets_the_callers_size_and_keys() {
    let cell = Cell::start();
    run_idle(&cell);
    let shown = |screen: &str, text: &str| screen.lines().any(|line| line.trim() == text);
    let mut shell = Emulator::start(&cell, "bourg exec -it idle/0 -- sh", (80, 24));
    // Keys that are typed before would be echoed twice.
    shell.has("$");
    shell.types("PS1='ready> '\r");
    shell.shows("a prompt", |screen| screen.lines().any(|line| line.starts_with("ready>")));
    shell.types("tty; stty size; echo $TERM\r");
    shell.shows("the size", |screen| {
        shown(screen, "24 80") && screen.contains("/dev/pts/") && shown(screen, "xterm")
    });
    shell.types("ls -l $(tty) && echo found\r");
    shell.shows("the terminal by its name", |screen| shown(screen, "found"));
    shell.resize((100, 30));
    until("the new size has arrived", || {
        shell.types("stty size\r");
        shown(&shell.screen(), "30 100")
    });
    shell.types("sleep 5432; echo status $?\r");
    until("it sleeps", || {
        inside(&cell, 0).iter().any(|pid| processes::command(*pid).contains(&"5432".to_owned()))
    });
    shell.types("\x03");
    shell.shows("the end by Ctrl-C", |screen| {
        screen.contains("status 130")
            || screen.lines().filter(|line| line.starts_with("ready>")).count() > 4
    });
    shell.types("exit 9\r");
    assert_eq!(shell.ends().0, 9);
    is_alone(&cell, 0);
    // A signal ends the session, and the terminal is restored.
    let shell =
        Emulator::start(&cell, "bourg exec -it idle/0 -- sh -c 'echo up; exec sleep 99'", (80, 24));
    shell.has("up");
    shell.signal(Signal::SIGTERM);
    assert_eq!(shell.ends().0, 143);
    is_alone(&cell, 0);
    let said = cell.fails(2, "bourg exec -it idle/0");
    assert!(said.contains("-t needs a terminal"), "{said}");
}

#[test]
fn commands_of_a_lost_client_are_killed_and_sessions_are_bounded() {
    let cell = Cell::start();
    run_idle(&cell);
    let line = "trap '' TERM INT HUP; sleep 777 & setsid sleep 778 & echo up; wait; sleep 779";
    let up = |session: &mut Child| {
        let mut text = [0; 3];
        session.stdout.as_mut().expect("a pipe").read_exact(&mut text).expect("it is up");
    };
    let mut sessions: Vec<Child> =
        (0..8).map(|_| piped(&cell, &["exec", "idle/0", "--", "sh", "-c", line])).collect();
    sessions.iter_mut().for_each(up);
    let said = cell.fails(3, "bourg exec idle/0 -- true");
    assert!(said.contains("8 commands run inside this task already"), "{said}");
    cell.ok("bourg exec idle/1 -- true");
    assert!(inside(&cell, 0).len() > 24);
    for session in &mut sessions {
        session.kill().expect("it runs");
        session.wait().expect("it is a child");
    }
    is_alone(&cell, 0);
    until("there is room again", || cell.types("bourg exec idle/0 -- true").code == 0);
    until("all ends are recorded", || {
        let events = cell.ok("bourg events idle");
        // Also those that were rejected have both.
        events.lines().filter(|line| line.contains(" disconnected after ")).count() > 8
    });
    // A signal is the command's, and the third one ends the session.
    let line = "trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.05; done";
    let mut session = piped(&cell, &["exec", "idle/0", "--", "sh", "-c", line]);
    up(&mut session);
    processes::signal(i32::try_from(session.id()).expect("a pid"), Signal::SIGTERM);
    let output = session.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "caught\n");
    // The Borglet is killed: nothing goes on without it.
    let mut session = piped(&cell, &["exec", "idle/0", "--", "sh", "-c", "echo up; sleep 888"]);
    up(&mut session);
    cell.kill(crate::cell::Role::Borglet);
    assert_eq!(session.wait().expect("it ends").code(), Some(1));
    is_alone(&cell, 0);
}

#[test]
fn a_task_that_does_not_run_is_an_error_with_its_state() {
    let cell = Cell::start();
    run_idle(&cell);
    let mut session = piped(&cell, &["exec", "idle/0", "--", "sh", "-c", "echo up; sleep 999"]);
    let mut text = [0; 3];
    session.stdout.as_mut().expect("a pipe").read_exact(&mut text).expect("it is up");
    cell.ok("bourg kill idle");
    assert_eq!(session.wait().expect("it ends with the task").code(), Some(137));
    let said = cell.fails(3, "bourg exec idle/0 -- true");
    assert!(
        said.contains("root/idle/0 does not run, it has ended: bourg status root/idle"),
        "{said}"
    );
    let said = cell.fails(2, "bourg exec nowhere/0 -- true");
    assert!(said.contains("nowhere"), "{said}");
    cell.write(
        "huge.bcl",
        "(import 'borg.libsonnet').service('huge', tasks=2, cmd=['true'])
           { priority: 'free', cpu: 900 }",
    );
    cell.ok("bourg run --detach huge.bcl");
    let said = cell.fails(3, "bourg exec huge/1 -- true");
    assert!(said.contains("root/huge/1 does not run, it is pending"), "{said}");
    let said = cell.fails(2, "bourg exec huge -- true");
    assert!(said.contains("name one task of huge"), "{said}");
}

/// The resident memory of a process in MiB.
fn resident(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("KiB");
    kib >> 10
}

#[test]
fn endless_output_waits_for_its_reader_and_signals_overtake_unread_input() {
    let cell = Cell::start();
    run_idle(&cell);
    let roles = [crate::cell::Role::Master, crate::cell::Role::Borglet];
    let memory = || roles.map(|role| resident(cell.pid(role).expect("it runs")));
    let mut session = piped(&cell, &["exec", "idle/0", "--", "sh", "-c", "echo up; exec yes"]);
    let mut text = [0; 3];
    session.stdout.as_mut().expect("a pipe").read_exact(&mut text).expect("it is up");
    let before = memory();
    // Nobody reads on: the command stops writing.
    let written = || {
        let pids = inside(&cell, 0);
        let yes = pids.iter().find(|pid| processes::command(**pid)[0] == "yes");
        let io = yes.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/io")).ok());
        let io = io.unwrap_or_default();
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or_default()
    };
    let mut last = (0, Instant::now());
    until("it does not write any more", || {
        let now = written();
        if now != last.0 {
            last = (now, Instant::now());
        }
        now > 0 && last.1.elapsed() > Duration::from_secs(1)
    });
    assert!(last.0 < 16 << 20, "{} bytes are under way", last.0);
    for (before, after) in before.into_iter().zip(memory()) {
        assert!(after < before + 32, "from {before} to {after} MiB");
    }
    session.kill().expect("it runs");
    session.wait().expect("it is a child");
    is_alone(&cell, 0);
    // Input without a reader is granted no further, and delays no signal.
    let mut session =
        piped(&cell, &["exec", "-i", "idle/0", "--", "sh", "-c", "echo up; exec sleep 666"]);
    session.stdout.as_mut().expect("a pipe").read_exact(&mut text).expect("it is up");
    let mut stdin = session.stdin.take().expect("a pipe");
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let writer = std::thread::spawn(move || {
        while stdin.write_all(&[b'x'; 4_096]).is_ok() {
            counted.fetch_add(4_096, Ordering::Relaxed);
        }
    });
    let pid = i32::try_from(session.id()).expect("a pid");
    // Its reader waits for credit when the pipe of 64 KiB is full.
    until("the input is full", || !writer.is_finished() && is_blocked(pid));
    // After the command's end its input is taken, and goes nowhere.
    assert!(sent.load(Ordering::Relaxed) < 2 << 20);
    processes::signal(pid, Signal::SIGINT);
    assert_eq!(session.wait().expect("it ends").code(), Some(130));
    writer.join().expect("it ends");
}

/// Whether the pipe that a process reads as its standard input is full.
fn is_blocked(pid: i32) -> bool {
    let file = std::fs::File::options()
        .write(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/{pid}/fd/0"));
    let Ok(file) = file else { return false };
    let mut fds =
        [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&file), nix::poll::PollFlags::POLLOUT)];
    nix::poll::poll(&mut fds, nix::poll::PollTimeout::ZERO) == Ok(0)
}

#[test]
fn every_replica_relays_and_a_session_outlives_the_leader() {
    let cell = Three::start();
    run_idle(&cell);
    for replica in 1..=3 {
        let only = cell.only(replica);
        let said =
            cell.ok(&format!("bourg --cell {} exec idle/0 -- echo {replica}", only.display()));
        assert_eq!(said.trim(), replica.to_string());
    }
    let leader = cell.leader();
    let other = cell.only(leader % 3 + 1);
    let mut session = piped_by(&cell, &other, &["exec", "-i", "idle/0", "--", "cat"]);
    let mut echo = |text: &[u8]| {
        let mut back = vec![0; text.len()];
        session.stdin.as_mut().expect("a pipe").write_all(text).expect("it reads");
        session.stdout.as_mut().expect("a pipe").read_exact(&mut back).expect("it answers");
        assert_eq!(back, text);
    };
    echo(b"before");
    processes::signal(cell.pid(leader), Signal::SIGKILL);
    echo(b"without a leader");
    // Some replica leads again, which may be the same one, once it has been restarted.
    cell.write("by.bcl", "(import 'borg.libsonnet').batch('by', cmd=['true'])");
    cell.ok("bourg run --detach by.bcl");
    echo(b"after");
    drop(session.stdin.take());
    assert_eq!(session.wait().expect("it ends").code(), Some(0));
    until("its end is recorded", || {
        let events = cell.types("bourg events idle").stdout;
        events.lines().any(|line| line.contains(" EXEC_END ") && line.contains(": cat"))
    });
}

/// The same as [`piped`] with another client directory.
fn piped_by(cell: &Cell, client: &Path, words: &[&str]) -> Child {
    let client = client.to_string_lossy();
    piped(cell, &[&["--cell", &client], words].concat())
}
