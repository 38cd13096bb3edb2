//! Services: one name for the tasks of several jobs, in BNS, DNS, discovery and a balancer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::pages::{Of, page, post};
use crate::processes;
use crate::terminal::Background;
use crate::tools::needs;

/// The Python in a task's jail.
const PYTHON: &str = "/usr/bin/python3";

/// Answers each line with the name of its task. After SIGTERM it accepts connections for another second,
/// as clients may not know yet, and ends when the last connection has.
const SERVER: &str = "
import os, signal, socket, threading, time
listener = socket.create_server(('0.0.0.0', int(os.environ['PORT'])), backlog=256)
name = (os.environ['BORG_JOB'] + '/' + os.environ['BORG_TASK'] + ' ').encode()
open_ones = []
def serve(peer):
    try:
        for line in peer.makefile('rb'):
            peer.sendall(name + line)
    except OSError:
        pass
    peer.close()
def accept():
    while True:
        peer, _ = listener.accept()
        thread = threading.Thread(target=serve, args=(peer,))
        open_ones.append(thread)
        thread.start()
threading.Thread(target=accept, daemon=True).start()
signal.sigwait({signal.SIGTERM})
time.sleep(1)
for thread in open_ones:
    thread.join()
os._exit(0)
";

/// Writes the description of a job with label app=web.
fn describe(cell: &Cell, job: &str, tasks: u32, more: &str) {
    let options = format!(
        "ports: ['http'], healthCheck: {{ tcp: 'http' }}, notice: '60s', cpu: 0.02, \
         ram: '64 MiB', labels: {{ app: 'web' }}, {more}"
    );
    let cmd = format!(
        "['{PYTHON}', '-c', {}]",
        Value::from(format!(
            "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}}){SERVER}"
        ))
    );
    let job_text = format!(
        "(import 'borg.libsonnet').service('{job}', tasks={tasks}, cmd={cmd}) {{ {options} }}"
    );
    cell.write(&format!("{job}.bcl"), job_text);
}

/// For users without quota.
const FREE: &str = "priority: 'free'";

/// A proxy that runs in the background, and its two addresses.
pub(crate) fn proxy(cell: &Cell, service: &str, more: &[&str]) -> (Background, String, String) {
    let fixed = ["proxy", service, "--status", "127.0.0.1:0"];
    let running = cell.start("bourg", &[&fixed, more].concat());
    let (listens, status) = eventually("the proxy listens", || {
        let said = running.stdout();
        let listens = said.split("listens at ").nth(1)?.lines().next()?.to_owned();
        let status = said.split("status at http://").nth(1)?.split('/').next()?.to_owned();
        Some((listens, status))
    });
    (running, listens, status)
}

/// A connection that stays open.
struct Open {
    reader: BufReader<TcpStream>,
}

impl Open {
    fn to(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// The task that answers a line.
    fn ask(&mut self) -> std::io::Result<String> {
        self.reader.get_mut().write_all(b"hello\n")?;
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let task = line.strip_suffix(" hello\n").map(str::to_owned);
        task.ok_or_else(|| std::io::Error::other(format!("answered {line:?}")))
    }
}

#[test]
fn a_service_is_found_in_bns_dns_and_discovery() {
    needs("dig", "bind9-dnsutils");
    needs(PYTHON, "python3");
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    cell.ok("bourg user add bob");
    let ana = |line: &str| cell.ok(&format!("bourg --cell ./ana {line}"));
    for job in ["blue", "green"] {
        describe(&cell, job, 1, FREE);
        ana(&format!("run {job}.bcl"));
    }
    let endpoints = |version: &str, name: &str| {
        let body = serde_json::json!({ "version_info": version, "resource_names": [name] });
        post(&cell, "/v3/discovery:endpoints", &body.to_string())
    };
    let assigned = |name: &str| {
        let (code, text) = endpoints("", name);
        assert_eq!(code, 200, "{text}");
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    assert_eq!(assigned("ana/web")["resources"][0]["endpoints"], serde_json::json!([]));
    let said = ana("service set web --port http -l app=web");
    assert_eq!(said, "service ana/web created\n");
    assert_eq!(ana("service set web --port http -l app=web"), "service ana/web is unchanged\n");

    // A name is a job or a service.
    let said = cell.fails(3, "bourg --cell ./ana service set blue --port http -l app=web");
    assert!(said.contains("ana/blue is a job"), "{said}");
    describe(&cell, "web", 1, FREE);
    let said = cell.fails(3, "bourg --cell ./ana run web.bcl");
    assert!(said.contains("ana/web is a service"), "{said}");
    let said = cell.fails(3, "bourg --cell ./bob service set ana/web --port http -l app=web");
    assert!(said.contains("bob may not set service ana/web"), "{said}");
    cell.fails(2, "bourg --cell ./ana service set web --port http -l ''");
    cell.fails(2, "bourg --cell ./ana service show nothing");

    // BNS.
    let names = ana("bns get web -o name");
    assert_eq!(names.lines().count(), 2, "{names}");
    let listed = ana("bns list");
    assert!(listed.contains("ana/web") && listed.contains("service"), "{listed}");
    let watcher = cell.start("bourg", &["--cell", "./ana", "bns", "watch", "web"]);
    until("the watch has both tasks", || {
        let said = watcher.stdout();
        said.contains("ana/web  ana/blue/0") && said.contains("ana/web  ana/green/0")
    });

    // DNS at a replica, and in a task.
    let said = cell.said();
    let line = said.lines().find(|line| line.starts_with("cell ")).expect("its first line");
    let (host, port) =
        line.rsplit_once("DNS ").and_then(|it| it.1.trim().rsplit_once(':')).expect("an address");
    let dig =
        |rest: &str| cell.ok(&format!("dig +tries=2 +time=5 +short @{host} -p {port} {rest}"));
    assert_eq!(dig("web.ana.dev.borg."), "127.0.0.1\n", "one record for one machine");
    let records = dig("SRV _http._tcp.web.ana.dev.borg.");
    assert!(
        records.contains("0.blue.ana.dev.borg.") && records.contains("0.green.ana.dev.borg."),
        "{records}"
    );
    assert_eq!(dig("0.web.ana.dev.borg."), "");
    cell.write(
        "idle.bcl",
        "(import 'borg.libsonnet').service('idle', cmd=['sleep', '100000'])
           { priority: 'free', cpu: 0.02 }",
    );
    ana("run idle.bcl");
    let found = ana("exec idle/0 -- getent ahostsv4 web.ana");
    assert!(found.starts_with("127.0.0.1"), "{found}");

    // Bob's job is behind it when the service names him.
    describe(&cell, "teal", 1, FREE);
    cell.ok("bourg --cell ./bob run teal.bcl");
    let shown = ana("service show web");
    assert!(shown.contains("no: the service does not name user bob"), "{shown}");
    assert_eq!(ana("bns get web -o name").lines().count(), 2);
    let said = ana("service set web --port http -l app=web --user bob");
    assert_eq!(said, "service ana/web replaced: users none → bob\n");
    assert_eq!(ana("bns get web -o name").lines().count(), 3);
    until("the watch has bob's", || watcher.stdout().contains("+ ana/web  bob/teal/0"));
    // Each user has services of their own.
    cell.ok("bourg --cell ./bob service set web --port http -l app=web");
    assert_eq!(cell.ok("bourg --cell ./bob bns get web -o name").lines().count(), 1);
    assert_eq!(cell.ok("bourg service list -o name").lines().count(), 2);

    // Discovery.
    let answer = assigned("ana/web");
    let tasks = answer["resources"][0]["endpoints"][0]["lb_endpoints"].as_array().expect("tasks");
    assert_eq!(tasks.len(), 3, "{answer:#}");
    assert!(tasks.iter().all(|task| task["health_status"] == "HEALTHY"), "{answer:#}");
    let version = answer["version_info"].as_str().expect("a version").to_owned();
    assert_eq!(endpoints(&version, "ana/web").0, 304);
    let (code, text) = post(&cell, "/v3/discovery:endpoints", "{");
    assert_eq!(code, 400, "{text}");
    let (code, text) = page(&cell, Of::Master, "/sd/services/ana/web");
    assert_eq!(code, 200, "{text}");
    let targets: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(targets.len(), 3, "{text}");
    assert_eq!(page(&cell, Of::Master, "/sd/services/ana/nothing").0, 404);

    ana("kill blue");
    until("blue is gone", || ana("bns get web -o name").lines().count() == 2);
    until("the watch has lost it", || watcher.stdout().contains("- ana/web  ana/blue/0"));
    assert_eq!(endpoints(&version, "ana/web").0, 200, "the version is another one");
    ana("service delete web");
    assert!(dig("web.ana.dev.borg.").is_empty());
    ana("run web.bcl");
    assert_eq!(ana("bns get web -o name").lines().count(), 1);
    let events = cell.ok("bourg events");
    assert!(events.contains("SET_SERVICE") && events.contains("DELETE_SERVICE"), "{events}");
    processes::signal(watcher.pid(), Signal::SIGKILL);
}

#[test]
fn a_proxy_follows_updates_and_drains_without_a_failed_connection() {
    needs(PYTHON, "python3");
    needs("curl", "curl");
    let cell = Cell::start_with(&["--machines", "2"]);
    for (job, tasks) in [("blue", 2), ("green", 1)] {
        describe(&cell, job, tasks, "");
        cell.ok(&format!("bourg run {job}.bcl"));
    }
    cell.ok("bourg service set web --port http -l app=web");
    let (running, address, status) = proxy(&cell, "web", &[]);

    // Connections without end, from two clients.
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = |_| {
        let (address, stop, done) = (address.clone(), Arc::clone(&stop), Arc::clone(&done));
        std::thread::spawn(move || {
            let mut failed = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                match Open::to(&address).and_then(|mut open| open.ask()) {
                    Ok(_) => drop(done.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => failed.push(error.to_string()),
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            failed
        })
    };
    let clients: Vec<_> = (0..2).map(load).collect();
    let more = |what: &str| {
        let from = done.load(Ordering::Relaxed);
        until(what, || done.load(Ordering::Relaxed) > from + 100);
    };
    more("connections are answered");

    // One that stays open on a task of blue.
    let (mut lasting, task) = eventually("a connection to blue", || {
        let mut open = Open::to(&address).expect("accepted");
        let task = open.ask().expect("answered");
        task.starts_with("blue/").then_some((open, task))
    });
    describe(&cell, "blue", 2, "env: { VERSION: '2' }");
    cell.ok("bourg update --detach blue.bcl");
    let index = task.rsplit_once('/').expect("an index").1.to_owned();
    until("its task is stopping", || {
        let shown = cell.ok("bourg service show web");
        shown
            .lines()
            .any(|line| line.contains(&format!("blue/{index} ")) && line.contains("stopping"))
    });
    for _ in 0..20 {
        assert_eq!(lasting.ask().expect("it goes on"), task);
    }
    more("the others are answered meanwhile");
    drop(lasting);
    cell.job("blue", "is updated", |job| {
        let is_new = |task: &Value| task["version"] == 2 && task["health"] == "HEALTHY";
        job["tasks"].as_array().is_some_and(|tasks| tasks.iter().all(is_new))
    });
    more("connections are answered after the update");

    // The tasks of a machine move.
    let machine = cell.ok("bourg machines -o name").lines().next().expect("a machine").to_owned();
    cell.ok(&format!("bourg drain {machine}"));
    more("connections are answered after the drain");
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert_eq!(client.join().expect("it ended"), Vec::<String>::new());
    }
    let metrics = cell.ok(&format!("curl -fsS http://{status}/metrics"));
    assert!(metrics.contains("bourg_proxy_unserved_connections_total 0"), "{metrics}");
    assert!(metrics.contains("bourg_proxy_refused_connections_total 0"), "{metrics}");
    assert!(cell.ok(&format!("curl -fsS http://{status}/healthz")).starts_with("ok"));

    // The known tasks are used while no master answers.
    cell.kill(crate::cell::Role::Master);
    Open::to(&address).and_then(|mut open| open.ask()).expect("the last known tasks are used");

    // It stops listening, and lets an open connection end.
    let mut open = Open::to(&address).expect("accepted");
    open.ask().expect("answered");
    processes::signal(running.pid(), Signal::SIGTERM);
    until("it listens no more", || TcpStream::connect(&address).is_err());
    open.ask().expect("an open connection goes on");
    drop(open);
    assert_eq!(running.ends().code, 0);
}

#[test]
fn a_proxy_is_bounded_and_says_what_it_cannot_serve() {
    needs(PYTHON, "python3");
    needs("curl", "curl");
    let cell = Cell::start();
    let said = cell.fails(2, "bourg proxy web");
    assert!(said.contains("there is no service root/web"), "{said}");
    cell.ok("bourg service set web --port http -l app=web");
    let options = ["--connections", "2", "--drain", "100ms"];
    let (running, address, status) = proxy(&cell, "web", &options);
    let code =
        cell.types(&format!("curl -sS -o /dev/null -w '%{{http_code}}' http://{status}/healthz"));
    assert_eq!(code.stdout, "503");
    assert!(Open::to(&address).and_then(|mut open| open.ask()).is_err(), "no task serves");
    describe(&cell, "blue", 1, "");
    cell.ok("bourg run blue.bcl");
    let mut first = eventually("it serves", || {
        let mut open = Open::to(&address).ok()?;
        open.ask().ok().map(|_| open)
    });
    let mut second = Open::to(&address).expect("accepted");
    second.ask().expect("answered");
    assert!(Open::to(&address).and_then(|mut open| open.ask()).is_err(), "there are two already");
    let metrics = cell.ok(&format!("curl -fsS http://{status}/metrics"));
    for line in [
        "bourg_proxy_open_connections 2",
        "bourg_proxy_refused_connections_total 1",
        "bourg_proxy_task_open_connections{task=\"root/blue/0\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // Of those that are open after --drain, it says how many they were.
    first.ask().expect("it goes on");
    processes::signal(running.pid(), Signal::SIGTERM);
    let ended = running.ends();
    assert_eq!(ended.code, 0);
    assert!(ended.stdout.contains("2 connections were open after --drain"), "{}", ended.stdout);
}
