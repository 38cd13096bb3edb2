//! Jobs and alloc sets that grow and shrink, and tasks that no longer fit where they run.

use nix::sys::signal::Signal;

use super::{
    WEB, change, each, least_healthy, machines, places, says, settled, told, versions, write_web,
};
use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

#[test]
fn a_job_grows_and_shrinks_and_an_undo_restores_removed_tasks() {
    let cell = Cell::start();
    write_web(&cell, 3, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    let before = cell.tasks(WEB);
    let said = says(&cell, "bourg resize web 5");
    assert!(said.starts_with("root/web: update to version 2\n~ tasks 3 → 5\n"), "{said}");
    assert!(said.contains(" tasks on version 2 in "), "{said}");
    assert_eq!(cell.tasks(WEB).keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let said = says(&cell, "bourg resize web 2");
    assert!(said.starts_with("root/web: update to version 3\n~ tasks 5 → 2\n"), "{said}");
    settled(&cell, 2);
    assert_eq!(cell.tasks(WEB).len(), 2, "three have ended");

    cell.ok("bourg update undo web");
    let status = settled(&cell, 5);
    assert_eq!(each(&status, "version"), [2; 5], "{status:#}");
    let now = cell.tasks(WEB);
    assert_eq!((now[&0], now[&1]), (before[&0], before[&1]), "those that stayed were not touched");
    cell.ok("bourg resize web 3");
    settled(&cell, 3);

    // A changed file does the same, with other changes.
    change(&cell, "new", "tasks: 4, env: { MODE: 'new' }");
    cell.ok("bourg run new.bcl");
    assert_eq!(versions(&cell), [5, 5, 5, 5]);
    assert_eq!(
        told(&cell, "UPDATE_OPEN").last().map(String::as_str),
        Some("version 4 → 5: tasks 3 → 4, env.MODE, by root")
    );
    assert!(least_healthy(&cell, 3) >= 2);
    // Of tasks that are added and not healthy.
    change(&cell, "new", "tasks: 5, env: { MODE: 'new' }, overrides: { '4': { cmd: ['false'] } }");
    cell.ok("bourg update close web");
    let said = cell.fails(5, "bourg update new.bcl");
    assert!(said.contains(" ✗ task 4: "), "{said}");
    let status = settled(&cell, 4);
    assert_eq!(each(&status, "version"), [5, 5, 5, 5], "{status:#}");
}

/// Tasks that are to be removed are wanted again while they are still stopping.
#[test]
fn a_task_under_removal_comes_back_when_wanted_again() {
    let cell = Cell::start();
    cell.write(
        "web.bcl",
        r"(import 'borg.libsonnet').service('web', tasks=2, cmd=[
            'sh', '-c', 'trap \'echo stays\' TERM; echo ready; while :; do sleep 0.1; done'
          ]) { notice: '5m', update: { healthyFor: '100ms' } }",
    );
    cell.ok("bourg run web.bcl");
    for again in ["bourg update undo web --detach", "bourg resize web 2 --detach"] {
        until("both listen to signals", || {
            let last = |task: u32| cell.types(&format!("bourg logs web/{task}")).stdout;
            last(0).ends_with("ready\n") && last(1).ends_with("ready\n")
        });
        cell.ok("bourg resize web 1 --detach");
        cell.job(WEB, "is told to end", |job| job["tasks"][1]["state"] == "stopping");
        cell.ok(again);
        let deaf = cell.tasks(WEB)[&1];
        let goes_on = cell.status(WEB)["tasks"][1]["state"] == "running";
        if !goes_on {
            processes::signal(deaf, Signal::SIGKILL);
            until("it has ended", || cell.status(WEB)["tasks"][1]["state"] != "stopping");
        }
        let status = cell.status(WEB);
        let state = status["tasks"][1]["state"].as_str();
        let lives = state.is_some_and(|state| ["pending", "starting", "running"].contains(&state));
        assert!(lives, "after `{again}` task 1 is not there again: {status:#}");
        settled(&cell, 2);
    }
}

#[test]
fn tasks_that_no_longer_fit_their_machine_move_within_the_budget() {
    let cell = Cell::start_with(&["--machines", "2"]);
    let names = machines(&cell);
    let cores = cell.ok(&format!("bourg machine show {} -o capacity.cpuMilli", names[0]));
    let cores: u64 = cores.trim().parse().expect("a number");
    let cpu = |percent: u64| {
        format!("cpu: {}.{:03}", cores * percent / 100_000, cores * percent / 100 % 1_000)
    };
    cell.ok(&format!("bourg quota meter off; bourg drain {}", names[1]));
    write_web(&cell, 2, &format!("update: {{ healthyFor: '100ms' }}, {}", cpu(40)));
    cell.write(
        "web.bcl",
        std::fs::read_to_string(cell.path("web.bcl"))
            .expect("it is there")
            .replace("cpu: 0.1, ", ""),
    );
    cell.ok("bourg run web.bcl");
    cell.ok(&format!("bourg undrain {}", names[1]));
    assert_eq!(places(&cell), [(names[0].clone(), 2)].into());
    change(&cell, "large", &cpu(70));
    let plan = cell.ok("bourg plan large.bcl");
    assert!(plan.contains("  move       2 tasks: 0-1\n"), "neither fits beside the other: {plan}");
    cell.ok("bourg update large.bcl");
    let status = cell.is_healthy(WEB);
    assert_eq!(each(&status, "version"), [2, 2]);
    assert_eq!(places(&cell).len(), 2, "{status:#}");
    assert_eq!(
        each(&status, "generation").iter().sum::<u64>(),
        3,
        "the second fits then: {status:#}"
    );
    assert_eq!(least_healthy(&cell, 2), 1);
}

#[test]
fn an_alloc_set_grows_and_shrinks_and_a_killed_alloc_comes_back() {
    let cell = Cell::start();
    let room = |allocs: u32, ram: u32| {
        cell.write(
            "room.bcl",
            format!(
                "(import 'borg.libsonnet').allocSet('room', allocs={allocs})
                   {{ cpu: 0.1, ram: '{ram} MiB', update: {{ healthyFor: '100ms' }} }}"
            ),
        );
    };
    room(2, 128);
    cell.write(
        "web.bcl",
        "(import 'borg.libsonnet').service('web', tasks=2, cmd=['sleep', '1d'])
           { allocSet: 'room', cpu: 0.05, ram: '96 MiB' }",
    );
    cell.ok("bourg run room.bcl && bourg run web.bcl");
    let before = cell.tasks(WEB);
    // Not below what its jobs use, and nothing changes.
    room(2, 64);
    for line in ["bourg update room.bcl", "bourg run room.bcl", "bourg plan room.bcl"] {
        let said = cell.fails(3, line);
        let why = "alloc root/room/0 would have 64 MiB of RAM, and the tasks in it take 96 MiB; \
                   nothing was changed";
        assert!(said.contains(why), "{line}: {said}");
    }
    assert_eq!(cell.ok("bourg status room -o spec.ramBytes"), "134217728\n");
    room(3, 160);
    cell.ok("bourg update room.bcl");
    assert_eq!(cell.tasks(WEB), before, "in place");
    assert_eq!(cell.ok("bourg status room -o counts.healthy"), "3\n");
    let said = cell.ok("bourg status room");
    assert!(said.contains(" of 0.1 cores, 160 MiB"), "{said}");

    cell.ok("bourg kill room/1");
    cell.job("room", "has lost an alloc", |job| job["tasks"][1]["state"] == "killed");
    let said = says(&cell, "bourg update room.bcl");
    assert!(said.contains("updated: "), "{said}");
    assert_eq!(cell.ok("bourg status room -o counts.healthy"), "3\n");
    cell.is_healthy(WEB);
    room(1, 160);
    let plan = cell.ok("bourg plan room.bcl");
    assert!(plan.contains("evicts 1 task:\n  root/web/"), "{plan}");
    cell.ok("bourg resize room 1");
    cell.job(WEB, "has one place", |job| job["counts"]["pending"] == 1);
    cell.ok("bourg update undo room");
    cell.job("room", "is whole", |job| job["counts"]["healthy"] == 3);
    cell.is_healthy(WEB);
}
