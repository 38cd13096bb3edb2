//! Jobs with one task on every machine, with real machines and a real exporter.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::until;
use crate::monitoring::Monitoring;
use crate::tools::needs;

/// An exporter on every machine.
const AGENT: &str = "local borg = import 'borg.libsonnet';
    borg.service('agent', tasks='every-machine', cmd=['bourg', 'example-server', '--port', borg.port('http')]) {
      cpu: 0.05, ram: '32 MiB',
    }";

/// The machines on which tasks of a job are healthy.
fn healthy_on(cell: &Cell, job: &str) -> BTreeSet<String> {
    let status = cell.status(job);
    let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
    let healthy = tasks.iter().filter(|task| task["health"] == "HEALTHY");
    healthy.filter_map(|task| task["machine"].as_str().map(str::to_owned)).collect()
}

fn machines(cell: &Cell) -> BTreeSet<String> {
    cell.ok("bourg machines -o name").lines().map(str::to_owned).collect()
}

#[test]
fn an_exporter_runs_on_every_machine() {
    let cell = Cell::start_with(&["--machines", "3"]);
    cell.write("agent.bcl", AGENT);
    let plan = cell.types("bourg plan agent.bcl").stdout;
    assert!(plan.contains("1 task on each of 3 matching machines"), "{plan}");
    cell.ok("bourg run agent.bcl");
    until("it runs on all three", || healthy_on(&cell, "agent") == machines(&cell));

    // A machine that joins has its task at once.
    let fourth = Machine::start(&cell, "m4");
    let up = Instant::now();
    until("it runs on the fourth", || !fourth.tasks("agent").is_empty());
    let took = up.elapsed();
    println!("a machine that joins has its task after {} ms", took.as_millis());
    assert!(took < Duration::from_secs(2), "{took:?}");
    until("it runs on all four", || healthy_on(&cell, "agent") == machines(&cell));

    // What the cell decides cannot be asked for.
    let said = cell.fails(3, "bourg resize agent 7");
    assert!(said.contains("one task on every machine"), "{said}");
    cell.write("other.bcl", AGENT.replace("'every-machine'", "2"));
    let said = cell.fails(3, "bourg update other.bcl");
    assert!(said.contains("everyMachine"), "{said}");

    // Its task waits for a drained machine, and comes back to it.
    cell.ok("bourg machine drain m4 --by 30s --force");
    let why = cell.ok("bourg why agent");
    assert!(why.contains("its machine m4 is draining"), "{why}");
    cell.ok("bourg machine undrain m4");
    until("it is back", || healthy_on(&cell, "agent").contains("m4"));

    // A machine that is removed takes its task with it.
    cell.ok("bourg machine drain m4 --by 30s --force");
    cell.ok("bourg machine remove m4");
    let killed = |status: &Value| {
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().any(|task| task["state"] == "killed")
    };
    until("the task has ended", || killed(&cell.status("agent")));
    let events = cell.ok("bourg events agent");
    assert!(events.contains("its machine m4 was removed or no longer matches"), "{events}");
    until("the others run", || healthy_on(&cell, "agent") == machines(&cell));
}

#[test]
fn its_task_leaves_a_drained_machine_last() {
    let cell = Cell::start_with(&["--machines", "3"]);
    cell.write("agent.bcl", AGENT);
    cell.write(
        "web.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('web', tasks=2, cmd=['sh', '-c', 'trap \"sleep 2; exit\" TERM; while :; do sleep 0.1; done']) {
           cpu: 0.05, ram: '32 MiB', notice: '10s', maxPerMachine: { tasks: 1, hard: true },
         }",
    );
    cell.ok("bourg run agent.bcl web.bcl");
    cell.is_healthy("web");
    until("it runs on all three", || healthy_on(&cell, "agent") == machines(&cell));
    let status = cell.status("web");
    let machine = status["tasks"][0]["machine"].as_str().expect("a machine").to_owned();
    cell.ok(&format!("bourg machine drain {machine} --by 1m"));
    let left = |job: &str| {
        let events = cell.ok(&format!("bourg events {job}"));
        events.lines().filter(|line| line.contains("EVICT")).count()
    };
    until("both have left", || left("web") > 0 && left("agent") > 0);
    let all = cell.ok("bourg events");
    let place =
        |job: &str| all.lines().position(|line| line.contains(job) && line.contains("EVICT"));
    assert!(place("web/0").is_some() && place("web/0") < place("agent/"), "{all}");
}

#[test]
fn prometheus_scrapes_a_node_exporter_on_every_machine() {
    needs("prometheus-node-exporter", "prometheus-node-exporter");
    let cell = Cell::start_with(&["--machines", "3"]);
    cell.write(
        "exporter.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('exporter', tasks='every-machine', cmd=[
           'prometheus-node-exporter', '--web.listen-address=:' + borg.port('http'),
           '--collector.disable-defaults', '--collector.loadavg',
         ]) { cpu: 0.05, ram: '64 MiB', metrics: { port: 'http' } }",
    );
    cell.ok("bourg run exporter.bcl");
    until("it runs on all three", || healthy_on(&cell, "exporter").len() == 3);
    let monitoring = Monitoring::start(&cell);
    let asks = |query: &str| monitoring.asks(query);
    until("every machine's exporter is up", || {
        asks("up{job=\"exporter\"} == 1").lines().count() == 3
    });
    until("each has a load", || asks("node_load1").lines().count() == 3);
    let loads = asks("node_load1");
    for machine in machines(&cell) {
        assert!(loads.contains(&format!("machine=\"{machine}\"")), "{loads}{}", monitoring.said());
    }
}
