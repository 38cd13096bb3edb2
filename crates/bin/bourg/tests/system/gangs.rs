//! Gangs: real programs of several tasks that find each other, and start again together.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;
use crate::tools::needs;

/// The example, with more rounds and a pause after each, so that it can be disturbed.
fn description() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let example = std::fs::read_to_string(root.join("gang.bcl")).expect("the example");
    let longer = example.replace("ROUNDS: '10', PAUSE: '0'", "ROUNDS: '200', PAUSE: '0.05'");
    assert_ne!(longer, example);
    longer
}

/// The programs of the gang on all machines: pid by index.
fn tasks(cell: &Cell, machines: usize) -> BTreeMap<u32, i32> {
    let directory = |number: usize| match number {
        1 => cell.directory().join("borglet"),
        number => cell.directory().join(format!("borglet-{number}")),
    };
    let parents = (1..=machines).map(|number| linux::cgroup::parent_name(&directory(number)));
    parents.flat_map(|parent| processes::tasks(&parent, "allreduce")).collect()
}

fn generations(status: &Value) -> Vec<u64> {
    let tasks = status["tasks"].as_array().into_iter().flatten();
    tasks.filter_map(|task| task["generation"].as_u64()).collect()
}

#[test]
fn a_gang_computes_together_and_starts_again_when_one_is_killed() {
    needs("/usr/bin/python3", "python3");
    let cell = Cell::start_with(&["--machines", "3"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/gang");
    std::fs::create_dir(cell.path("gang")).expect("a directory");
    cell.write("gang.bcl", description());
    let program = std::fs::read_to_string(script.join("allreduce.py")).expect("the program");
    cell.write("gang/allreduce.py", program);
    cell.ok("bourg run --detach gang.bcl");
    until("all tasks compute", || {
        (0..4).all(|task| {
            cell.types(&format!("bourg logs allreduce/{task}"))
                .stdout
                .contains("round 5: the sum is right")
        })
    });
    let before = cell.status("allreduce");
    assert_eq!(generations(&before), [1, 1, 1, 1], "{before:#}");
    let killed = *tasks(&cell, 3).get(&2).expect("task 2 runs");
    processes::signal(killed, Signal::SIGKILL);
    cell.job("allreduce", "starts again as a whole", |job| {
        let all = generations(job);
        all.len() == 4
            && all.iter().all(|generation| *generation == 2)
            && job["counts"]["running"] == 4
    });
    let events = cell.ok("bourg events allreduce");
    assert!(events.contains("its gang starts again because of task 2"), "{events}");
    cell.job("allreduce", "is finished", |job| job["state"] == "finished");
    for task in 0..4 {
        let said = cell.ok(&format!("bourg logs allreduce/{task}"));
        assert!(said.contains("round 200: the sum is right, and begins with 2000"), "{said}");
        assert_eq!(
            said.matches("begins\n").count(),
            1,
            "the logs are those of the last run: {said}"
        );
    }
}

#[test]
fn a_gang_that_no_machines_could_hold_is_told_so() {
    let cell = Cell::start();
    cell.write(
        "large.bcl",
        "(import 'borg.libsonnet').batch('large', tasks=3, cmd=['true']) {
           gang: true, ram: '4 MiB', cpu: 0.01, maxPerMachine: { tasks: 2, hard: true },
         }",
    );
    let said = cell.fails(3, "bourg run large.bcl");
    assert!(said.contains("the gang has 3 tasks of"), "{said}");
    assert!(said.contains("1 machine that suits it holds 2 in all"), "{said}");
}
