//! Jobs that change while they run: plans, rolling updates, undos, sizes, budgets, drains.

mod drains;
mod fail_over;
mod failing;
mod load;
mod plans;
mod refused;
mod rolling;
mod sizes;
mod undo;

use std::collections::{BTreeMap, BTreeSet};

use linux::cgroup::{Hierarchy, TaskCgroup};
use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;
use crate::terminal::Ended;

/// The memory limit in MiB that the kernel enforces for the first task of a job.
fn memory_mib(cell: &Cell, job: &str) -> u64 {
    let cgroup = cell.cgroup_of(cell.tasks(job)[&0]);
    let hierarchy = Hierarchy::detect().expect("cgroups");
    let cgroup = TaskCgroup::open(&hierarchy, &cgroup);
    cgroup.expect("a name").memory_limit_bytes().expect("the group is there") >> 20
}

/// Writes `web.bcl`: a service of example servers that are healthy soon and end at once on SIGTERM,
/// and `env.bcl`, by which each of its tasks is restarted. Unless `fields` say otherwise, one of its tasks
/// may be down, so that an update starts no further one.
fn write_web(cell: &Cell, tasks: u32, fields: &str) {
    let budget = if fields.contains("disruptions") { "" } else { "disruptions: { atOnce: 1 }," };
    cell.write(
        "web.bcl",
        format!(
            "local borg = import 'borg.libsonnet';
             borg.service('web', tasks={tasks}, cmd=['bourg', 'example-server', '--port', borg.port('http'), '--quiet']) {{
               cpu: 0.1, ram: '32 MiB', healthCheck+: {{ interval: '100ms' }}, {budget} {fields}
             }}"
        ),
    );
    change(cell, "env", "env: { MODE: 'new' }");
}

/// Writes a changed `web.bcl` with another name.
fn change(cell: &Cell, name: &str, fields: &str) {
    cell.write(&format!("{name}.bcl"), format!("(import 'web.bcl') + {{ {fields} }}"));
}

/// The name of the only job that most tests have.
const WEB: &str = "web";

/// Types a line that succeeds; returns its stderr.
#[track_caller]
fn says(cell: &Cell, line: &str) -> String {
    let ended = cell.types(line);
    assert_eq!(ended.code, 0, "$ {line}\n{}{}", ended.stdout, ended.stderr);
    ended.stderr
}

/// The output as JSON.
#[track_caller]
fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("not JSON: {ended:?}"))
}

/// A field of each task of a job, in their order.
fn each(status: &Value, field: &str) -> Vec<u64> {
    let tasks = status["tasks"].as_array().into_iter().flatten();
    tasks.map(|task| task[field].as_u64().unwrap_or_default()).collect()
}

/// The versions of the tasks.
fn versions(cell: &Cell) -> Vec<u64> {
    each(&cell.status(WEB), "version")
}

/// The events of the job, each as its name, the index of its task if it is one's, and its text.
fn events(cell: &Cell) -> Vec<(String, Option<u32>, String)> {
    let text = cell.ok(&format!("bourg events {WEB} -n 10000"));
    let event = |line: &str| {
        // Date, time, subject, name, text.
        let mut words = line.split_whitespace();
        let (subject, name) = (words.nth(2)?, words.next()?.to_owned());
        let index = subject.strip_prefix(&format!("root/{WEB}/")).and_then(|i| i.parse().ok());
        Some((name, index, words.collect::<Vec<_>>().join(" ")))
    };
    text.lines().filter_map(event).collect()
}

/// The texts of the job's events of a name.
fn told(cell: &Cell, name: &str) -> Vec<String> {
    let all = events(cell).into_iter().filter(|(of, ..)| of == name);
    all.map(|(.., text)| text).collect()
}

/// The least number of healthy tasks since there were `tasks` of them, from the events.
fn least_healthy(cell: &Cell, tasks: usize) -> usize {
    let (mut healthy, mut least) = (BTreeSet::new(), None);
    for (name, index, _) in events(cell) {
        let Some(index) = index else { continue };
        match name.as_str() {
            "HEALTHY" => _ = healthy.insert(index),
            "UNHEALTHY" | "STOP" | "EVICT" | "FAIL" | "KILL" | "LOST" => _ = healthy.remove(&index),
            _ => {}
        }
        if healthy.len() >= tasks {
            least.get_or_insert(tasks);
        }
        least = least.map(|least: usize| least.min(healthy.len()));
    }
    least.expect("all were healthy once")
}

/// Waits until the job has so many tasks, all healthy: also none in addition, which is only there
/// while others leave.
#[track_caller]
fn settled(cell: &Cell, tasks: usize) -> Value {
    cell.job(WEB, &format!("has {tasks} healthy tasks"), |job| {
        let all = job["tasks"].as_array().map_or(0, Vec::len);
        all == tasks && job["counts"]["healthy"] == tasks
    })
}

/// The number of tasks of the job on each machine that has some.
fn places(cell: &Cell) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for task in cell.status(WEB)["tasks"].as_array().into_iter().flatten() {
        let machine = task["machine"].as_str().unwrap_or_default().to_owned();
        *places.entry(machine).or_default() += 1;
    }
    places
}

/// The names of the machines.
fn machines(cell: &Cell) -> Vec<String> {
    cell.ok("bourg machines -o name").lines().map(str::to_owned).collect()
}

#[test]
fn limits_change_while_the_task_runs() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let pids = cell.tasks("hello");
    assert_eq!(memory_mib(&cell, "hello"), 64);
    cell.ok("cp $EXAMPLES/hello.bcl .");
    let change = |what: &str| {
        let short = "update: { healthyFor: '100ms' }";
        cell.write("new.bcl", format!("(import 'hello.bcl') + {{ {what}, {short} }}"));
    };

    change("ram: '96 MiB', labels: { team: 'search' }");
    let updated = cell.types("bourg run new.bcl");
    assert_eq!(updated.code, 0, "{}", updated.stderr);
    let says =
        "  updated: labels.team + search, update.healthyFor 5 s → 100 ms, ram 64 MiB → 96 MiB\n";
    assert!(updated.stderr.contains(says), "{updated:?}");
    until("the kernel knows", || memory_mib(&cell, "hello") == 96);
    assert_eq!(cell.tasks("hello"), pids, "nothing was restarted");
    assert_eq!(cell.ok("bourg status -l team=search -o spec.ramBytes"), "100663296\n");
    assert_eq!(cell.ok("bourg machines -o taken.ramBytes"), "301989888\n", "3 × 96 MiB");
    assert!(cell.ok("bourg events hello").contains("  UPDATE_RUNNING "));
    let again = cell.types("bourg run new.bcl");
    assert!(again.stderr.contains("  unchanged\n"), "{}", again.stderr);

    // Lower limits take something away: they roll.
    change("ram: '48 MiB'");
    cell.ok("bourg run new.bcl");
    until("the kernel knows", || memory_mib(&cell, "hello") == 48);
    assert_eq!(cell.tasks("hello"), pids, "nothing was restarted");
}
