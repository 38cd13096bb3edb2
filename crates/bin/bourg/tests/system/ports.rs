//! Ports of a machine's range that are used by something that they are not allocated to.

use std::net::TcpListener;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::Terminal;
use crate::tools::needs;

/// The Python in a task's jail; another one may come first in the test's own search path.
const PYTHON: &str = "/usr/bin/python3";

/// A cell whose kernel lets tasks bind every port, so that its Borglet has to find out who does.
fn watched() -> Cell {
    let mut terminal = Terminal::new();
    terminal.set("BOURG_PORT_ISOLATION", "watched".into());
    let directory = terminal.path("cell");
    let cell = Cell::start_in(terminal, &directory, &[]);
    assert_eq!(port_isolation(&cell), "watched");
    cell
}

/// How the machine of a cell keeps tasks from other ports.
fn port_isolation(cell: &Cell) -> String {
    machine(cell)["report"]["attributes"]["port-isolation"].as_str().unwrap_or_default().to_owned()
}

/// The machine of a cell, as it is shown.
fn machine(cell: &Cell) -> Value {
    let machines: Value = serde_json::from_str(&cell.ok("bourg machines -o json")).expect("JSON");
    machines[0].clone()
}

/// The first and the last port of its range.
fn range(cell: &Cell) -> (u16, u16) {
    let report = machine(cell)["report"].clone();
    let port = |name: &str| report[name].as_u64().and_then(|port| u16::try_from(port).ok());
    (port("firstPort").expect("a port"), port("lastPort").expect("a port"))
}

/// Submits a task in the free band that runs a Python program with `first` and `last`.
fn run(cell: &Cell, name: &str, program: &str, more: &str) {
    needs(PYTHON, "python3");
    let (first, last) = range(cell);
    let program = format!(
        "import os, socket, time\nfirst, last = {first}, {last}\nheld = []\n{program}\ntime.sleep(1000)\n"
    );
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "(import 'borg.libsonnet').batch('{name}', cmd=['{PYTHON}', '-c', {program:?}])
             {{ priority: 'free', {more} }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
}

/// How the last incarnation of a job's first task ended.
fn last_end(cell: &Cell, job: &str) -> String {
    cell.status(job)["tasks"][0]["lastEndText"].as_str().unwrap_or_default().to_owned()
}

const ONCE: &str = "restart: { failures: 0 }";
const FOR_EVER: &str = "restart: { failures: 'unlimited', delay: 0 }";

/// Programs that use every port of the range, in different ways.
const TAKES_ALL: [(&str, &str); 3] = [
    ("listens", "s = socket.socket(); s.bind(('0.0.0.0', port)); s.listen()"),
    ("binds", "s = socket.socket(); s.bind(('127.0.0.1', port))"),
    (
        "connects",
        "s = socket.socket(); s.bind(('127.0.0.1', port)); s.connect(('127.0.0.1', home))",
    ),
];

/// A program that does so with every free port, and continues with those that become free.
fn takes_all(how: &str) -> String {
    format!(
        "server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(1000)
home = server.getsockname()[1]
while True:
  for port in range(first, last + 1):
    try:
      {how}
      held.append(s)
    except OSError: pass
  print('holds', len(held), flush=True)
  time.sleep(0.05)"
    )
}

#[test]
fn a_task_that_takes_every_port_is_ended_and_says_why() {
    let cell = watched();
    let (name, how) = TAKES_ALL[0];
    run(&cell, name, &takes_all(how), ONCE);
    cell.job(name, "is ended", |job| job["state"] == "failed");
    let end = last_end(&cell, name);
    let rule = "a task may hold only ports assigned to it";
    assert!(end.starts_with("ended by rule: it held port ") && end.ends_with(rule), "{end}");
    // The number depends on how far it had come.
    assert!(end.contains("which is not assigned to it, and "), "{end}");
    let events = cell.ok(&format!("bourg events {name}"));
    assert!(events.contains(&end), "{end} is not in\n{events}");
    assert_eq!(cell.ok(&format!("bourg status {name} -o tasks.0.failures")), "1\n");
}

#[test]
fn services_start_beside_tasks_that_take_every_port_again_and_again() {
    let cell = watched();
    for (name, how) in &TAKES_ALL {
        run(&cell, name, &takes_all(how), FOR_EVER);
    }
    cell.job("listens", "has taken them", |job| job["tasks"][0]["generation"].as_u64() > Some(1));
    for name in ["one", "two"] {
        cell.ok(&format!("sed s/hello/{name}/ $EXAMPLES/hello.bcl > {name}.bcl"));
        cell.ok(&format!("bourg run --detach {name}.bcl"));
        cell.is_healthy(name);
    }
    let connects = "connects";
    run(&cell, "late", &takes_all(TAKES_ALL[2].1), ONCE);
    until("whoever holds them by connections is found by the starts that fail", || {
        cell.ok("sed s/hello/more/ $EXAMPLES/hello.bcl > more.bcl; bourg run --detach more.bcl");
        cell.is_healthy("more");
        cell.ok("bourg kill more");
        let ended = |job: &str| last_end(&cell, job).starts_with("ended by rule: it held port ");
        ended("late") || ended(connects)
    });
}

#[test]
fn a_task_that_takes_a_port_of_another_is_ended_alone() {
    let cell = watched();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let status = cell.is_healthy("hello");
    let port = status["tasks"][0]["ports"][0]["port"].as_u64().expect("a port");
    let beside = format!(
        "s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.bind(('::1', {port})); s.listen()"
    );
    run(&cell, "beside", &beside, ONCE);
    cell.job("beside", "is ended", |job| job["state"] == "failed");
    let expected = format!("it held port {port}, which is assigned to root/hello/0: ");
    assert!(last_end(&cell, "beside").contains(&expected), "{}", last_end(&cell, "beside"));
    let hello = cell.status("hello");
    assert!((0..3).all(|task| hello["tasks"][task]["generation"] == 1), "{hello:#}");
}

#[test]
fn ports_held_by_a_host_program_are_avoided_and_attributed() {
    let cell = Cell::start();
    let (first, last) = range(&cell);
    // All except four, of which a service needs three.
    let listen = |port| TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
    let held: Vec<TcpListener> = (first..=last - 4).map(listen).collect();
    let known = eventually("the machine says so", || {
        let held = machine(&cell)["report"]["heldPorts"].clone();
        (held[0]["last"].as_u64() == Some(u64::from(last - 4))).then_some(held)
    });
    let own = std::fs::read_to_string("/proc/self/comm").expect("/proc is mounted");
    let by = known[0]["by"].as_str().expect("a name");
    assert!(by.ends_with(&format!("({})", own.trim_end())), "{by}");
    assert_eq!((known[0]["first"].as_u64(), known[1].as_object()), (Some(u64::from(first)), None));
    let shown =
        cell.ok(&format!("bourg machine show {}", cell.ok("bourg machines -o name").trim()));
    assert!(shown.contains(&format!("{first}-{} by {by}", last - 4)), "{shown}");

    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let hello = cell.is_healthy("hello");
    assert!(
        (0..3).all(|task| hello["tasks"][task]["generation"] == 1),
        "no incarnation lost: {hello:#}"
    );
    cell.ok("sed s/hello/again/ $EXAMPLES/hello.bcl > again.bcl; bourg run --detach again.bcl");
    until("one of them is placed", || cell.status("again")["counts"]["pending"] == 2);
    let why = cell.ok("bourg why again");
    let count = held.len();
    assert!(
        why.contains(&format!("0 free, {count} held by others: {first}-{}", last - 4)),
        "{why}"
    );
    assert!(why.contains(by), "{why}");

    drop(held);
    cell.is_healthy("again");
}

/// A program that tries the whole range in every way, again and again, and says what came of it.
const TRIES_ALL: &str = "took, refused, own = 0, 0, int(os.environ['PORT'])
for family, address in (socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::1'):
  s = socket.socket(family); s.bind((address, own)); held.append(s)
  s = socket.socket(family); s.bind((address, 0)); held.append(s)
while True:
  for port in [80, *range(first, last + 1)]:
    for family, address in (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::'):
      for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        if port == own: continue
        s = socket.socket(family, kind)
        try:
          s.bind((address, port))
          took += 1
          held.append(s)
        except PermissionError: refused += 1
        except OSError: s.close()
  print('took', took, 'refused', refused, flush=True)
  time.sleep(0.05)";

/// How often the thief was refused a port; it must never have got one.
fn refused(cell: &Cell, job: &str) -> u64 {
    let said = cell.ok(&format!("bourg logs {job}/0"));
    let Some(last) = said.lines().rfind(|line| line.starts_with("took ")) else { return 0 };
    let words: Vec<&str> = last.split(' ').collect();
    let (["took", took, "refused", refused], true) = (words.as_slice(), said.len() < 100_000)
    else {
        panic!("{said}")
    };
    assert_eq!(*took, "0", "{said}");
    refused.parse().expect("a number")
}

#[test]
fn a_task_cannot_bind_foreign_ports_and_other_tasks_start() {
    let cell = Cell::start();
    assert_eq!(port_isolation(&cell), "enforced", "{}", cell.said());
    let shown =
        cell.ok(&format!("bourg machine show {}", cell.ok("bourg machines -o name").trim()));
    assert!(shown.contains("port-isolation") && shown.contains("enforced"), "{shown}");
    // Another program of this host may have its port.
    let enforced = "(import 'borg.libsonnet').attribute('port-isolation').equal('enforced')";
    let more = format!("ports: ['http'], constraints: [{enforced}], {FOR_EVER}");
    run(&cell, "thief", TRIES_ALL, &more);
    cell.job("thief", "runs", |job| job["state"] == "running");
    let (first, last) = range(&cell);
    let each_time = u64::from(last - first) * 4;
    until("it has tried all", || refused(&cell, "thief") >= each_time);
    let program = cell.tasks("thief")[&0];
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let hello = cell.is_healthy("hello");
    assert!(
        (0..3).all(|task| hello["tasks"][task]["generation"] == 1),
        "no incarnation lost: {hello:#}"
    );

    // Commands in the task have the same rule.
    let bind = |port: &str| {
        let line = format!("import os, socket; socket.socket().bind((\"\", {port}))");
        cell.types(&format!("bourg exec thief/0 -- {PYTHON} -c '{line}'"))
    };
    let another = &hello["tasks"][0]["ports"][0]["port"];
    let thrown = bind(&another.to_string());
    assert!(thrown.stderr.contains("PermissionError: [Errno 1]"), "{}", thrown.stderr);
    assert_eq!(bind("0").code, 0);

    // The rule holds without the Borglet that made it.
    let borglet = cell.pid(Role::Borglet);
    cell.kill(Role::Borglet);
    until("another Borglet runs", || {
        cell.pid(Role::Borglet).is_some_and(|pid| Some(pid) != borglet)
    });
    let before = eventually("it shows the output", || {
        let logs = cell.types("bourg logs thief/0");
        (logs.code == 0).then(|| refused(&cell, "thief"))
    });
    until("it has tried all again", || refused(&cell, "thief") >= before + 2 * each_time);
    cell.job("thief", "runs", |job| job["state"] == "running");
    assert_eq!(cell.tasks("thief")[&0], program);
}

#[test]
fn a_killed_cell_keeps_its_ports_until_its_last_task_has_ended() {
    let mut cell = Cell::start();
    cell.write("stays.bcl", "{ name: 'stays', cmd: ['sleep', '1000'] }");
    cell.ok("bourg run stays.bcl");
    let task = cell.tasks("stays")[&0];
    let kept = range(&cell);
    let borglet = cell.pid(Role::Borglet).expect("it runs");
    // None of them can restart another, or stop the task, before it dies.
    let dev = cell.dev().pid();
    processes::signal(dev, Signal::SIGSTOP);
    processes::signal(borglet, Signal::SIGKILL);
    processes::signal(dev, Signal::SIGKILL);
    cell.stop_ended();
    until("only the task is left", || {
        let left = processes::left(cell.cgroup(), cell.directory());
        left.keys().all(|pid| !processes::command(*pid).iter().any(|word| word == "borglet"))
    });
    assert!(processes::is_there(task));
    let mut next = Cell::start();
    assert_ne!(range(&next), kept, "its task may use them");
    next.stop();
    processes::signal(task, Signal::SIGKILL);
    until("nothing is left", || processes::left(cell.cgroup(), cell.directory()).is_empty());
}
