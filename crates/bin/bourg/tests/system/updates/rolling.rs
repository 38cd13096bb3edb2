//! Updates that succeed, and undos.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use super::{WEB, change, each, json, says, settled, told, versions, write_web};
use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

#[test]
fn an_update_rolls_through_all_tasks_and_can_be_undone_until_closed() {
    let cell = Cell::start();
    write_web(&cell, 3, "");
    cell.ok("bourg run web.bcl");
    let before = cell.tasks(WEB);
    assert_eq!(versions(&cell), [1, 1, 1]);

    let said = says(&cell, "bourg update env.bcl --healthy-for 1s");
    assert!(said.starts_with("root/web: update to version 2\n~ env.MODE\n"), "{said}");
    assert!(said.contains("\nupdated: 3/3 tasks on version 2 in "), "{said}");
    let status = cell.status(WEB);
    assert_eq!(each(&status, "version"), [2, 2, 2]);
    assert_eq!(each(&status, "lastVersion"), [1, 1, 1]);
    assert_eq!(each(&status, "generation"), [2, 2, 2]);
    assert_eq!(each(&status, "failures"), [0, 0, 0], "an update is no failure");
    let after = cell.tasks(WEB);
    assert!(before.values().all(|pid| !after.values().any(|now| now == pid)));
    assert_eq!(told(&cell, "UPDATE_OPEN"), ["version 1 → 2: env.MODE, by root"]);
    assert_eq!(told(&cell, "UPDATE_SUCCEED"), ["version 2, by master"]);
    let update = json(&cell.types("bourg update status web -o json"));
    let fields = ["from", "to", "state", "done", "tasks", "disruptions", "openedBy"];
    let shown: BTreeMap<&str, String> =
        fields.iter().map(|field| (*field, update[*field].to_string())).collect();
    let expected = ["1", "2", "\"succeeded\"", "3", "3", "3", "\"root\""];
    assert_eq!(shown, fields.into_iter().zip(expected.map(str::to_owned)).collect(), "{update:#}");
    assert!(update["closes"].as_str().is_some_and(|at| at != "0"), "{update:#}");

    // Each task was healthy for a second before the next was touched.
    let text = cell.ok("bourg update status web");
    assert!(text.contains("  update from version 1 to 2  succeeded for "), "{text}");
    assert!(text.contains("(bourg update undo root/web)\n"), "{text}");

    let said = says(&cell, "bourg update undo web");
    assert!(said.starts_with("root/web: update to version 2 is being undone\n"), "{said}");
    assert!(said.contains("\nundone: 3/3 tasks back on version 1 in "), "{said}");
    assert_eq!(versions(&cell), [1, 1, 1]);
    assert!(cell.status(WEB)["spec"]["env"].is_null(), "the old description");
    assert_eq!(told(&cell, "UPDATE_UNDO"), ["version 2, by root"]);
    assert_eq!(told(&cell, "UPDATE_UNDONE").len(), 1);

    // A second over an open one continues from it; an undo goes back to what succeeded last.
    change(&cell, "ram", "ram: '48 MiB', env: { MODE: 'new' }");
    cell.ok("bourg update env.bcl --healthy-for 100ms");
    let said = says(&cell, "bourg update ram.bcl --healthy-for 100ms");
    assert!(said.starts_with("root/web: update to version 4\n~ ram 32 MiB → 48 MiB\n"), "{said}");
    assert_eq!(versions(&cell), [4, 4, 4]);
    assert_eq!(each(&cell.status(WEB), "generation"), [4, 4, 4], "the second is in place");
    assert_eq!(cell.ok("bourg update status web -o from"), "3\n");
    cell.ok("bourg update undo web");
    assert_eq!(versions(&cell), [3, 3, 3]);
    assert_eq!(cell.ok("bourg status web -o spec.ramBytes"), "33554432\n");

    // Closed, it is what later undos go back to.
    cell.ok("bourg update ram.bcl --healthy-for 100ms");
    assert_eq!(says(&cell, "bourg update close web"), "root/web: update to version 5 closed\n");
    let said = cell.fails(3, "bourg update undo web");
    assert!(said.contains("it is closed; open another update with the old description"), "{said}");
    cell.ok("bourg update web.bcl --healthy-for 100ms && bourg update undo web");
    assert_eq!(versions(&cell), [5, 5, 5]);
    cell.ok("bourg update web.bcl --healthy-for 100ms --close-after 0s");
    let said = cell.fails(3, "bourg update undo web");
    assert!(said.contains("it is closed"), "{said}");
    assert_eq!(told(&cell, "UPDATE_CLOSE").len(), 2);
}

#[test]
fn a_paused_update_changes_nothing_until_it_is_resumed() {
    let cell = Cell::start();
    write_web(&cell, 3, "");
    cell.ok("bourg run web.bcl");
    // The first task is never through.
    let opened = says(&cell, "bourg update env.bcl --healthy-for 5m --detach");
    assert_eq!(opened, "root/web: update to version 2\n~ env.MODE\n");
    let changed = cell.job(WEB, "has one task of the new version", |job| {
        each(job, "version") == [2, 1, 1] && job["counts"]["healthy"] == 3
    });
    assert_eq!(each(&changed, "generation"), [2, 1, 1]);
    let mut follows = cell.start("bourg", &["update", "status", "web", "--watch"]);
    until("it says what it waits for", || follows.stderr().contains("task 0 healthy for "));
    assert_eq!(follows.code(), None);
    assert_eq!(says(&cell, "bourg update pause web"), "root/web: update to version 2 paused\n");
    let ended = follows.ends();
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(ended.stderr.contains("error: root/web: the update was paused by root\n"), "{ended:?}");
    assert!(
        ended.stderr.contains("next: bourg update resume root/web · bourg update undo root/web")
    );
    let said = cell.fails(3, "bourg update pause web");
    assert!(said.contains("it was paused already by root"), "{said}");
    assert_eq!(cell.ok("bourg update status web -o stateBy"), "root\n");
    assert_eq!(told(&cell, "UPDATE_PAUSE"), ["version 2, by root"]);

    assert_eq!(says(&cell, "bourg update resume web"), "root/web: update to version 2 goes on\n");
    assert_eq!(cell.ok("bourg update status web -o state"), "rolling\n");
    // An undo touches only what was changed.
    cell.ok("bourg update undo web");
    let status = cell.status(WEB);
    assert_eq!(each(&status, "version"), [1, 1, 1]);
    assert_eq!(each(&status, "generation"), [3, 1, 1]);
}

#[test]
fn only_some_tasks_can_be_changed_first_and_then_the_others() {
    let cell = Cell::start();
    write_web(&cell, 3, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    let said = says(&cell, "bourg update env.bcl --tasks 1");
    assert!(said.contains("updated: 1/1 tasks on version 2 in "), "{said}");
    assert_eq!(versions(&cell), [1, 2, 1]);
    // The new one did well.
    let said = says(&cell, "bourg update env.bcl");
    assert!(!said.contains("unchanged"), "two tasks have the old version: {said}");
    let now = versions(&cell);
    assert!(now.iter().all(|version| *version > 1), "{now:?}");
    assert_eq!(each(&cell.status(WEB), "generation"), [2, 2, 2], "none was restarted twice");
    cell.ok("bourg update undo web");
    assert_eq!(versions(&cell), [1, 1, 1]);
}

#[test]
fn tasks_that_may_not_be_disrupted_are_skipped_and_listed() {
    let cell = Cell::start();
    write_web(&cell, 3, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    let said = says(&cell, "bourg update env.bcl --disruptions 1");
    assert!(said.contains(", 2 skipped (bourg update status root/web)\n"), "{said}");
    assert_eq!(versions(&cell), [2, 1, 1]);
    let why = "the update may cause no further disruption";
    assert_eq!(
        told(&cell, "UPDATE_SKIP"),
        [(); 2].map(|()| format!("version 2: {why}, by master"))
    );
    let text = cell.ok("bourg update status web");
    for task in [1, 2] {
        assert!(text.contains(&format!("skipped     task {task}: {why}\n")), "{text}");
    }
    // A skip does not become a change later by itself: not when the task is restarted, not when the
    // job grows.
    processes::signal(cell.tasks(WEB)[&1], Signal::SIGKILL);
    cell.job(WEB, "runs again", |job| {
        job["tasks"][1]["generation"] == 2 && job["counts"]["healthy"] == 3
    });
    cell.ok("bourg resize web 4");
    let now = versions(&cell);
    assert_eq!((now[1], now[2]), (1, 1), "{now:?}");
    // The next update includes them.
    let said = says(&cell, "bourg resize web 3 && bourg update env.bcl");
    let status = settled(&cell, 3);
    assert!(each(&status, "version").iter().all(|version| *version > 1), "{said}{status:#}");
    assert_eq!(each(&status, "generation"), [2, 3, 2]);
}

/// What runs well at first may fail once by chance, and twice it is the new version.
#[test]
fn a_task_that_was_healthy_and_fails_twice_fails_the_update() {
    let cell = Cell::start();
    write_web(&cell, 2, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    // The second is never through.
    let never = "['sh', '-c', 'sleep 1d #' + (import 'borg.libsonnet').port('http')]";
    let fields = format!(
        "env: {{ MODE: 'new' }}, healthCheck+: {{ startGrace: '10m' }},
         overrides: {{ '1': {{ cmd: {never} }} }}"
    );
    change(&cell, "env", &fields);
    let follows = cell.start("bourg", &["update", "env.bcl"]);
    for generation in [2, 3] {
        cell.job(WEB, "has passed the first task", |job| {
            job["tasks"][0]["generation"] == generation
                && job["tasks"][0]["health"] == "HEALTHY"
                && job["tasks"][1]["generation"] == 2
                && job["tasks"][1]["state"] == "running"
                && job["update"]["done"] == 1
                && job["update"]["changing"][0]["index"] == 1
        });
        processes::signal(cell.tasks(WEB)[&0], Signal::SIGKILL);
    }
    let ended = follows.ends();
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.stderr.contains(" ✗ task 0: "), "{ended:?}");
    assert!(ended.stderr.contains("\nundone: 2/2 tasks back on version 1 in "), "{ended:?}");
    let status = settled(&cell, 2);
    assert_eq!((each(&status, "version"), each(&status, "generation")), (vec![1; 2], vec![4, 3]));
}

#[test]
fn an_update_begins_at_once_and_waits_between_two_batches() {
    let cell = Cell::start();
    write_web(&cell, 2, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    cell.ok("bourg update env.bcl --wait 5m --detach");
    let status = cell.job(WEB, "has passed the first task", |job| {
        job["update"]["done"] == 1 && job["update"]["changing"][0].is_null()
    });
    assert_eq!(each(&status, "generation"), [2, 1]);
    assert_eq!(status["update"]["state"], "rolling");
    cell.ok("bourg update undo web");
    assert_eq!(each(&settled(&cell, 2), "generation"), [3, 1]);
}
