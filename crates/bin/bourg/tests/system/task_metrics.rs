//! The metrics of tasks: one task's page, and all of them for a real Prometheus.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;
use crate::monitoring::Monitoring;
use crate::pages::{Of, page};
use crate::tools::needs;

/// The Python in a task's jail.
const PYTHON: &str = "/usr/bin/python3";

/// Runs the example service with the page that it serves.
fn run_hello(cell: &Cell) {
    cell.write(
        "hello.bcl",
        "(import 'borg.libsonnet').service('hello', tasks=3, cmd=[
           'bourg', 'example-server', '--port', (import 'borg.libsonnet').port('http')
         ]) { metrics: { port: 'http' } }",
    );
    cell.ok("bourg run hello.bcl");
}

#[test]
fn the_metrics_page_of_a_task_needs_permission_for_its_logs() {
    let cell = Cell::start();
    run_hello(&cell);
    for task in 0..3 {
        let page = cell.ok(&format!("bourg metrics root/hello/{task}"));
        assert!(page.starts_with("# HELP example_requests_total "), "{page}");
    }
    let said = cell.fails(2, "bourg metrics hello");
    assert!(said.contains("name one task of hello"), "{said}");
    let said = cell.fails(2, "bourg metrics hello/7");
    assert!(said.contains("root/hello has tasks 0 to 2 only"), "{said}");
    cell.ok("bourg user add ben");
    let said = cell.fails(3, "bourg --cell ben metrics root/hello/1");
    assert!(said.contains("ben may not read the metrics of root/hello"), "{said}");
    cell.ok("bourg capability grant ben administer-jobs");
    cell.ok("bourg --cell ben metrics root/hello/1");
    assert!(cell.ok("bourg events hello").contains("administer-jobs"));
    // A page that moves restarts nothing.
    cell.ok("sed -i s/\"port: 'http' }\"/\"port: 'http', path: '\\/m' }\"/ hello.bcl");
    cell.ok("bourg run hello.bcl");
    let said = cell.fails(1, "bourg metrics hello/1");
    assert!(said.contains("cannot fetch the metrics of root/hello/1: GET /m → HTTP 404"), "{said}");
    assert_eq!(cell.status("hello")["tasks"][1]["generation"], 1);
}

/// Serves one kind of bad page, which its argument names.
const BAD_SERVER: &str = "
import os, socket, sys, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('0.0.0.0', int(os.environ['PORT'])))
server.listen()
while True:
    peer, _ = server.accept()
    if os.fork() > 0:
        peer.close()
        continue
    peer.recv(4096)
    kind = sys.argv[1]
    try:
        if kind == 'huge':
            peer.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100000000\\r\\n\\r\\n')
            for _ in range(100): peer.sendall(b'x' * 1000000)
        elif kind == 'endless':
            peer.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')
            while True: peer.sendall(b'x' * 1000000)
        elif kind == 'slow':
            peer.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')
            while True:
                peer.sendall(b'x 1\\n')
                time.sleep(0.1)
        elif kind == 'silent':
            time.sleep(1000)
        elif kind == 'noise':
            peer.sendall(b'no HTTP at all\\r\\n\\r\\n')
        elif kind == 'cut':
            peer.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\nx 1')
    finally:
        os._exit(0)
";

#[test]
fn an_endless_or_oversized_metrics_page_is_a_harmless_error() {
    needs(PYTHON, "python3");
    let cell = Cell::start();
    run_hello(&cell);
    let run = |name: &str, cmd: &str| {
        let more = "ports: ['http'], metrics: { port: 'http' }";
        let job = format!("(import 'borg.libsonnet').batch('{name}', cmd={cmd}) {{ {more} }}");
        cell.write(&format!("{name}.bcl"), job);
        cell.ok(&format!("bourg run --detach {name}.bcl"));
    };
    let kinds = ["huge", "endless", "slow", "silent", "noise", "cut"];
    for kind in kinds {
        let check = "healthCheck: { tcp: 'http' }, ports: ['http'], metrics: { port: 'http' }";
        let cmd = format!("['{PYTHON}', '-c', {BAD_SERVER:?}, '{kind}']");
        let job = format!("(import 'borg.libsonnet').batch('{kind}', cmd={cmd}) {{ {check} }}");
        cell.write(&format!("{kind}.bcl"), job);
        cell.ok(&format!("bourg run {kind}.bcl"));
    }
    run("mute", "['sleep', '1000']");
    run("over", "['true']");
    cell.job("over", "has ended", |job| job["state"] == "finished");
    cell.job("mute", "runs", |job| job["counts"]["running"] == 1);
    let why = |job: &str, code: i32| {
        let (begun, said) =
            (Instant::now(), cell.fails(code, &format!("bourg metrics {job} > page")));
        let printed = std::fs::read(cell.path("page")).unwrap_or_default();
        assert!(printed.is_empty(), "{job}: {} bytes of half a page", printed.len());
        assert!(begun.elapsed() < Duration::from_secs(25), "{job} took {:?}", begun.elapsed());
        said
    };
    for (job, says) in [
        ("huge", "cannot fetch the metrics of root/huge/0: the page has more than 8 MiB"),
        ("endless", "cannot fetch the metrics of root/endless/0: the page has more than 8 MiB"),
        ("slow", "cannot fetch the metrics of root/slow/0: the page did not end within 10 s"),
        ("silent", "cannot fetch the metrics of root/silent/0: the page did not end within 10 s"),
        ("noise", "cannot fetch the metrics of root/noise/0: port "),
        ("cut", "cannot fetch the metrics of root/cut/0: port "),
        ("mute", "cannot fetch the metrics of root/mute/0: cannot connect to port "),
    ] {
        let said = why(job, 1);
        assert!(said.contains(says), "{job}: {said}");
    }
    assert!(why("over", 3).contains("root/over/0 does not run: bourg status root/over"));
    cell.ok("sed s/hello/plain/ $EXAMPLES/hello.bcl > plain.bcl; bourg run plain.bcl");
    assert!(why("plain/0", 3).contains("root/plain names no page with metrics"));
    for task in 0..3 {
        cell.ok(&format!("bourg metrics hello/{task}"));
    }
    let hello = cell.status("hello");
    let unharmed = |task: &Value| task["generation"] == 1 && task["health"] == "HEALTHY";
    assert!(hello["tasks"].as_array().expect("tasks").iter().all(unharmed), "{hello:#}");
}

#[test]
fn every_master_lists_the_running_tasks_that_serve_metrics_for_prometheus() {
    let cell = Cell::start();
    run_hello(&cell);
    cell.ok("sed s/hello/plain/ $EXAMPLES/hello.bcl > plain.bcl; bourg run plain.bcl");
    let list = |query: &str| {
        let (code, text) = page(&cell, Of::Master, &format!("/sd/tasks{query}"));
        assert_eq!(code, 200, "{text}");
        serde_json::from_str::<Vec<Value>>(&text).expect("JSON")
    };
    let all = list("");
    assert_eq!(all.len(), 3, "{all:?}");
    let status = cell.status("hello");
    for (group, task) in all.iter().zip(status["tasks"].as_array().expect("tasks")) {
        let address =
            format!("{}:{}", task["host"].as_str().expect("a host"), task["ports"][0]["port"]);
        assert_eq!(group["targets"], serde_json::json!([address]));
        let labels = serde_json::json!({
            "cell": "dev", "user": "root", "job": "hello", "task": task["index"].to_string(),
            "machine": task["machine"], "__metrics_path__": "/metrics",
        });
        assert_eq!(group["labels"], labels);
    }
    assert_eq!(list("?user=root&job=hello").len(), 3);
    assert_eq!(list("?job=other"), [Value::Null; 0]);
    let (code, text) = page(&cell, Of::Master, "/sd/tasks?task=3");
    assert_eq!(
        (code, text.as_str()),
        (400, "'task=3' is no parameter: there are user=NAME and job=NAME\n")
    );
    cell.ok("bourg kill hello");
    assert_eq!(list(""), [Value::Null; 0]);
}

#[test]
fn a_prometheus_with_a_certificate_of_the_cell_scrapes_every_task() {
    let cell = Cell::start();
    run_hello(&cell);
    let monitoring = Monitoring::start(&cell);
    let asks = |query: &str| monitoring.asks(query);
    let up = |job: &str| asks(&format!("up{{user=\"root\",job=\"{job}\"}} == 1")).lines().count();
    until("every task is up", || up("hello") == 3);
    until("the master is up", || asks("up{job=\"bourg-master\"}").contains("=> 1 @"));
    until("the machine is up", || asks("up{job=\"bourg-machine\"}").contains("=> 1 @"));
    let of_one = asks("example_requests_total{cell=\"dev\",task=\"2\"}");
    assert!(of_one.contains("machine=\""), "{of_one}{}", monitoring.said());
    until("the rules are evaluated", || asks("bourg:tasks_up:ratio_avg1h").contains("=> 1 @"));
    // A task that comes later is found, and one that is gone is forgotten.
    cell.ok("bourg resize hello 4");
    until("the new task is up", || up("hello") == 4);
    cell.ok("bourg resize hello 1");
    until("the others are gone", || asks("up{job=\"hello\"}").lines().count() == 1);
}

#[test]
fn promtool_accepts_the_example_alerts_and_their_tests_pass() {
    needs("promtool", "prometheus");
    let cell = Cell::start();
    let checked = cell.ok("promtool check rules $EXAMPLES/monitoring/alerts.yml");
    assert!(checked.contains("SUCCESS: 28 rules found"), "{checked}");
    let tested = cell.ok("promtool test rules $EXAMPLES/monitoring/alerts-test.yml");
    assert!(tested.contains("SUCCESS"), "{tested}");
}

/// The guide lists the alerts, each alert has a case, and all of them and the board use metrics that the guide has.
#[test]
fn alerts_and_the_board_use_metrics_that_exist() {
    let guide = include_str!("../../../../../docs/metrics.md");
    let alerts = include_str!("../../../../../examples/monitoring/alerts.yml");
    let cases = include_str!("../../../../../examples/monitoring/alerts-test.yml");
    let board = include_str!("../../../../../examples/monitoring/dashboard.json");
    let names: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let (_, table) = guide.split_once("| alert | when |").expect("the guide has its table");
    let table = table.split("\n\n").next().unwrap_or_default();
    for name in &names {
        assert!(table.contains(&format!("| `{name}` |")), "the guide has no row for {name}");
        let fires = format!("alertname: {name}\n        exp_alerts:\n");
        assert!(cases.contains(&fires), "alerts-test.yml has no case in which {name} fires");
    }
    assert_eq!(table.matches("| `").count(), names.len(), "the guide has other alerts");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for text in [alerts, board] {
        for word in text.split(|c| !is_name(c)).filter(|word| word.starts_with("bourg_")) {
            let ends = ["_bucket", "_count", "_sum"];
            let metric = ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            assert!(guide.contains(&format!("| `{metric}` |")), "the guide has no {metric}");
        }
    }
    let board: Value = serde_json::from_str(board).expect("the board is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    assert!(panels.iter().all(|panel| panel["targets"][0]["expr"].is_string()), "{board}");
}
