//! Machines that can run no tasks: they take none, and say why.

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;
use crate::pages::{Of, page};

const NOEXEC: &str =
    "mkdir -p cell/borglet-2 && mount -t tmpfs -o noexec,size=400m none cell/borglet-2";

/// The state of each machine, by name.
fn states(cell: &Cell) -> Vec<(String, String)> {
    let said = cell.ok("bourg machines -o json");
    let machines: Vec<Value> = serde_json::from_str(&said).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    machines.iter().map(|machine| (text(&machine["name"]), text(&machine["state"]))).collect()
}

/// Runs a command with the mounts of the cell.
#[track_caller]
fn within(cell: &mut Cell, command: &str) {
    let pid = cell.dev().pid();
    cell.ok(&format!("nsenter --mount=/proc/{pid}/ns/mnt --wd=. {command}"));
}

#[test]
fn a_machine_that_can_run_no_tasks_takes_none_until_it_can() {
    let mut cell = Cell::start_after(NOEXEC, &["--machines", "3"]);
    let of_state = |cell: &Cell, wanted: &str| -> Vec<String> {
        let found = states(cell).into_iter().filter(|(_, state)| state == wanted);
        found.map(|(name, _)| name).collect()
    };
    let not_ready = of_state(&cell, "not-ready");
    assert_eq!(not_ready.len(), 1, "{:?}", states(&cell));
    let name = &not_ready[0];
    // Each job would fail at its first task.
    for number in 1..=4 {
        let text = format!(
            "(import 'borg.libsonnet').batch('j{number}', tasks=3, cmd=['true'])
               {{ cpu: 0.05, ram: '16 MiB', restart: 'never' }}"
        );
        cell.write(&format!("j{number}.bcl"), text);
        cell.ok(&format!("bourg run --wait j{number}.bcl"));
    }
    let table = cell.ok("bourg machines");
    assert!(table.lines().any(|line| line.contains(name) && line.contains("not")), "{table}");
    let shown = cell.ok(&format!("bourg machine show {name}"));
    assert!(shown.contains("Permission denied") && shown.contains("gets no tasks"), "{shown}");
    let events = cell.ok(&format!("bourg events --machine {name}"));
    assert!(events.contains("NOT_READY"), "{events}");
    let (_, metrics) = page(&cell, Of::Master, "/metrics");
    assert!(metrics.contains("bourg_machines{state=\"not-ready\"} 1"), "{metrics}");

    let spread = "(import 'borg.libsonnet').service('spread', tasks=3, cmd=['sleep', '1000'])
                    { ram: '16 MiB', maxPerMachine: { tasks: 1, hard: true } }";
    cell.write("spread.bcl", spread);
    cell.ok("bourg run --detach spread.bcl");
    until("two of them run", || cell.status("spread")["counts"]["running"] == 2);
    let why = cell.ok("bourg why spread");
    assert!(why.contains("1 is not ready"), "{why}");

    within(&mut cell, "mount -o remount,exec none cell/borglet-2");
    until("it takes tasks again", || cell.status("spread")["counts"]["running"] == 3);
    assert!(of_state(&cell, "not-ready").is_empty());
    assert!(cell.ok(&format!("bourg events --machine {name}")).contains("READY"));
    let (_, metrics) = page(&cell, Of::Borglet, "/metrics");
    assert!(metrics.contains("bourg_borglet_ready 1"), "{metrics}");
    cell.stop();
}

#[test]
fn a_dev_cell_without_a_working_machine_ends_with_one_error() {
    let small = "mkdir -p cell/borglet && mount -t tmpfs -o size=2m none cell/borglet";
    let read_only = "for tree in $(findmnt -nro TARGET -t cgroup,cgroup2); do
                       mount -o remount,bind,ro $tree || exit 1
                     done";
    let noexec = "mkdir -p cell/borglet && mount -t tmpfs -o noexec,size=400m none cell/borglet";
    for (line, expected) in [
        (noexec, "this machine can run no tasks: "),
        (read_only, "is read-only here, and tasks need cgroups of their own"),
        (small, "cell/borglet/bin/"),
    ] {
        let ended = Cell::fails_after(line, &[]);
        assert_ne!(ended.code, 0, "{line}");
        assert!(ended.stderr.contains(expected), "{line}: {}", ended.stderr);
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: "), "{line}: {}", ended.stderr);
    }
}
