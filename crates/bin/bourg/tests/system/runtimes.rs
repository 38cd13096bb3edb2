//! How long tasks may run, and jobs that run after the ends of others.

use crate::cell::{Cell, Role};
use crate::eventually::until;

/// Goes on until it is told to stop, says why it is, and exits with 0.
const HEEDS: &str = "trap 'grep -o over-runtime $BOURG_NOTICE; exit 0' TERM; echo ready; while :; do sleep 0.1; done";

fn write(cell: &Cell, name: &str, program: &str, more: &str) -> String {
    let file = format!("{name}.bcl");
    cell.write(
        &file,
        format!(
            "local borg = import 'borg.libsonnet'; local program = \"{program}\";\n\
             borg.batch('{name}', cmd=['sh', '-c', program]) {{ {more} }}"
        ),
    );
    file
}

#[test]
fn a_task_over_its_maximum_is_told_killed_and_has_failed_for_good() {
    let cell = Cell::start();
    let heeds = write(&cell, "heeds", HEEDS, "maxRuntime: '2s', notice: '1s'");
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let deaf = write(&cell, "deaf", deaf, "maxRuntime: '2s', notice: '1s'");
    cell.ok(&format!("bourg run --detach {heeds} {deaf}"));
    for name in ["heeds", "deaf"] {
        let job = cell.job(name, "has failed", |job| job["state"] == "failed");
        let task = &job["tasks"][0];
        assert_eq!(task["lastEndText"], "it ran longer than maxRuntime (2 s)", "{task}");
        assert_eq!((&task["failures"], &task["generation"]), (&1.into(), &1.into()), "{task}");
        let events = cell.ok(&format!("bourg events {name}/0"));
        assert!(events.contains("it ran longer than maxRuntime (2 s)"), "{events}");
    }
    let said = cell.ok("bourg logs heeds/0");
    // The shell tells of the child that was stopped, too.
    assert!(said.starts_with("ready\n") && said.contains("over-runtime\n"), "{said}");
}

#[test]
fn an_update_moves_the_end_of_a_task_that_runs_and_a_new_borglet_keeps_it() {
    let cell = Cell::start();
    let file = write(&cell, "long", HEEDS, "maxRuntime: '1h', notice: '1s'");
    cell.ok(&format!("bourg run {file}"));
    let status = cell.ok("bourg status long/0");
    let left =
        status.contains("task 0 has 59 m ") && status.contains(" left until maxRuntime ends it\n");
    assert!(left, "{status}");
    assert!(cell.ok("bourg status long -o wide").contains("TIME LEFT"));
    cell.kill(Role::Borglet);
    let file = write(&cell, "long", HEEDS, "maxRuntime: '3s', notice: '1s'");
    cell.ok(&format!("bourg run --detach {file}"));
    let job = cell.job("long", "has failed", |job| job["state"] == "failed");
    let task = &job["tasks"][0];
    assert_eq!(task["lastEndText"], "it ran longer than maxRuntime (3 s)", "{task}");
    assert_eq!(task["generation"], 1, "it was the same incarnation: {task}");
}

#[test]
fn jobs_wait_for_ends_of_every_kind() {
    let cell = Cell::start();
    let fails = write(&cell, "extract", "sleep 1; exit 3", "restart: 'never'");
    let waits = [
        write(&cell, "report", "true", "after: [{ job: 'extract', when: 'ended' }]"),
        write(&cell, "clean", "true", "after: ['extract:failed']"),
        write(&cell, "load", "true", "after: ['extract']"),
    ];
    cell.ok(&format!("bourg run --detach {fails} {}", waits.join(" ")));
    for name in ["report", "clean"] {
        cell.job(name, "is finished", |job| job["state"] == "finished");
    }
    let load = cell.job("load", "is killed", |job| job["state"] == "killed");
    assert_eq!(load["reason"], "root/extract, which it was to run after, did not finish");
    let rescue = write(&cell, "rescue", "true", "after: ['report:failed']");
    let said = cell.fails(3, &format!("bourg run {rescue}"));
    assert!(said.contains("waits for root/report to fail, and it has finished"), "{said}");
}

#[test]
fn tasks_wait_for_tasks_one_by_one() {
    let cell = Cell::start();
    let program = "while [ ! -e $HOME/end ]; do sleep 0.1; done; exit $(cat $HOME/end)";
    let rows = write(&cell, "rows", program, "tasks: 3, restart: 'never'");
    let load = "tasks: 3, after: [{ job: 'rows', eachTask: true }]";
    let load = write(&cell, "load", "true", load);
    cell.ok(&format!("bourg run --detach {rows} {load}"));
    cell.job("rows", "runs", |job| job["counts"]["running"] == 3);
    let why = cell.ok("bourg why load");
    let until_rows = "3 tasks queued until the same task of root/rows has finished";
    assert!(why.contains(until_rows), "{why}");
    let end = |index: u32, code: u32| {
        // Its end may be sooner than that of the shell.
        cell.types(&format!("bourg exec rows/{index} -- sh -c 'echo {code} > $HOME/end'"));
    };
    let state = |index: usize| cell.status("load")["tasks"][index]["state"].clone();
    end(1, 0);
    until("its counterpart starts", || state(1) == "finished");
    assert_eq!((state(0), state(2)), ("queued".into(), "queued".into()));
    end(0, 1);
    until("its counterpart is killed", || state(0) == "killed");
    let reason = cell.status("load")["tasks"][0]["reason"].clone();
    assert_eq!(reason, "root/rows/0, which it was to run after, did not finish");
    assert_eq!(cell.status("load")["tasks"][2]["reason"], "waits for root/rows/2");
    end(2, 0);
    cell.job("load", "is killed, as its worst task", |job| job["state"] == "killed");
    assert_eq!(state(2), "finished");

    let other = write(&cell, "other", "true", "tasks: 2, after: ['rows:each-task']");
    let said = cell.fails(3, &format!("bourg run {other}"));
    assert!(said.contains("which has 3 tasks, and this job has 2"), "{said}");
}
