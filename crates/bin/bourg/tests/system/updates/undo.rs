//! Where an undo goes, what an update may not forget, and jobs that change while they are being killed.

use super::{WEB, each, least_healthy, machines, says, settled, told, versions};
use crate::cell::Cell;
use crate::eventually::until;

/// Writes `NAME.bcl`: a service of sleepers without a health check.
fn sleeps(cell: &Cell, name: &str, tasks: u32, cmd: &str, fields: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "(import 'borg.libsonnet').service('web', tasks={tasks}, cmd=['sh', '-c', '{cmd}']) {{
               cpu: 0.02, ram: '8 MiB', {fields}
             }}"
        ),
    );
}

const SOON: &str = "update: { healthyFor: '500ms', healthyWithin: '20s' }";

#[test]
fn an_undo_goes_to_the_last_successful_or_a_named_version() {
    let cell = Cell::start();
    sleeps(&cell, "one", 2, "exec sleep 1001", SOON);
    sleeps(&cell, "two", 2, "exec sleep 1002", SOON);
    sleeps(&cell, "bad", 2, "exit 3", SOON);
    cell.ok("bourg run one.bcl && bourg run two.bcl");
    let said = cell.fails(5, "bourg update bad.bcl");
    assert!(said.contains("\nundone: 2/2 tasks back on version 2 in "), "{said}");
    assert_eq!(versions(&cell), [2, 2]);

    // A number of tasks that came into force stays.
    cell.ok("bourg resize web 4");
    sleeps(&cell, "bad", 4, "exit 3", SOON);
    let said = cell.fails(5, "bourg update bad.bcl");
    assert!(said.contains("\nundone: 4/4 tasks back on version 4 in "), "{said}");
    settled(&cell, 4);

    let listed = cell.ok("bourg versions web");
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 6, "{listed}");
    let states = cell.ok("bourg versions web -o state");
    assert_eq!(states, "submitted\nsucceeded\nfailed\nsucceeded\nfailed\n", "{listed}");
    assert!(lines[2].contains("sleep 1001") && lines[2].contains("sleep 1002"), "{listed}");
    assert!(lines[4].starts_with("4 *") && lines[4].contains("tasks 2 → 4"), "{listed}");

    let said = says(&cell, "bourg update undo web --to 1");
    assert!(said.starts_with("root/web: update to version 6, which is as version 1\n"), "{said}");
    settled(&cell, 2);
    assert!(cell.ok("bourg status web -o json").contains("sleep 1001"));
    let said = says(&cell, "bourg update undo web --to 1");
    assert!(said.contains("unchanged: version 6 is as version 1"), "{said}");
    let said = cell.fails(3, "bourg update undo web --to 77");
    assert!(said.contains("version 77 of root/web is not kept"), "{said}");
    assert!(said.contains("bourg versions root/web"), "{said}");
}

#[test]
fn an_undo_continues_without_unhealthy_tasks_and_says_so() {
    let cell = Cell::start();
    let fields = "update: { healthyFor: '100ms', healthyWithin: '2s' }";
    sleeps(&cell, "bad", 3, "exit 3", fields);
    sleeps(&cell, "good", 3, "exec sleep 1d", fields);
    sleeps(&cell, "better", 3, "exec sleep 2d", fields);
    cell.ok("bourg run --detach bad.bcl");
    cell.ok("bourg update good.bcl --healthy-within 10s");
    let said = cell.fails(1, "bourg update undo web");
    assert!(said.contains("undone: 3/3 tasks back on version 1 in "), "{said}");
    assert!(said.contains(" ✗ task 0 is not healthy: exit code 3"), "{said}");
    let shown = cell.ok("bourg update status web");
    assert!(shown.contains("\nunhealthy   task 0: exit code 3"), "{shown}");

    // A new description replaces an undo.
    cell.ok("bourg update good.bcl --healthy-within 1m");
    cell.ok("bourg update undo web --detach");
    assert_eq!(cell.ok("bourg update status web -o state"), "undoing\n");
    cell.ok("bourg run better.bcl");
    settled(&cell, 3);
    assert!(cell.ok("bourg status web -o json").contains("sleep 2d"));
}

#[test]
fn an_update_continues_after_a_resize_and_never_resizes_by_itself() {
    let cell = Cell::start();
    let fields = "update: { healthyFor: '500ms', batch: 1 }";
    for (size, resized) in [(4, 6), (4, 2)] {
        sleeps(&cell, "one", size, "exec sleep 1001", fields);
        sleeps(&cell, "two", size, "exec sleep 1002", fields);
        cell.ok("bourg run one.bcl && bourg update close web || true");
        cell.ok("bourg update --detach two.bcl");
        cell.job(WEB, "has changed one", |job| job["update"]["done"].as_u64() >= Some(1));
        cell.ok(&format!("bourg resize web {resized}"));
        let status = settled(&cell, resized);
        let of_all: std::collections::BTreeSet<u64> =
            each(&status, "version").into_iter().collect();
        assert_eq!(of_all.len(), 1, "{status:#}");
        assert!(cell.ok("bourg status web -o json").contains("sleep 1002"));
        cell.ok("bourg kill web");
    }
    // A selection of tasks says nothing about the others.
    sleeps(&cell, "one", 4, "exec sleep 1001", fields);
    sleeps(&cell, "two", 2, "exec sleep 1002", fields);
    cell.ok("bourg run one.bcl");
    let before = cell.tasks(WEB);
    let plan = cell.ok("bourg plan two.bcl --tasks 0");
    assert!(!plan.contains("tasks 4"), "{plan}");
    let said = says(&cell, "bourg update two.bcl --tasks 0");
    assert!(!said.contains("tasks 4"), "{said}");
    settled(&cell, 4);
    let after = cell.tasks(WEB);
    assert_eq!(versions(&cell), [2, 1, 1, 1]);
    assert!((1..4).all(|index| before[&index] == after[&index]), "{before:?} {after:?}");
}

#[test]
fn a_dying_job_is_run_again_after_its_end() {
    let cell = Cell::start();
    let slow = "trap \\'sleep 1; exit 0\\' TERM; while :; do sleep 0.1; done";
    sleeps(&cell, "web", 1, slow, "update: { healthyFor: '100ms' }");
    sleeps(&cell, "new", 1, slow, "update: { healthyFor: '100ms' }, labels: { new: 'yes' }");
    for line in ["bourg run --detach web.bcl", "bourg run --detach new.bcl", "bourg run web.bcl"] {
        cell.ok("bourg run web.bcl");
        for change in ["bourg resize web 2", "bourg update new.bcl"] {
            cell.ok("bourg kill --detach web");
            let ended = cell.types(change);
            if ended.code != 0 {
                assert!(ended.stderr.contains("root/web is being killed"), "{change}: {ended:?}");
            }
        }
        let said = says(&cell, line);
        assert!(said.contains("being killed"), "{line}: {said}");
        assert!(!said.contains("unchanged") && !said.contains("updated"), "{line}: {said}");
        settled(&cell, 1);
        cell.ok("bourg kill web");
    }
    // A task of a job that goes on.
    sleeps(&cell, "web", 2, slow, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl && bourg kill --detach web/1 && bourg run web.bcl");
    settled(&cell, 2);
}

#[test]
fn a_task_without_a_health_check_is_up_after_a_second() {
    let cell = Cell::start_with(&["--machines", "3"]);
    let fields = "disruptions: { atOnce: 1 }, update: { healthyFor: '0s' }";
    sleeps(&cell, "one", 4, "exec sleep 1001", fields);
    sleeps(&cell, "two", 4, "exec sleep 1002", fields);
    cell.ok("bourg run one.bcl && bourg update two.bcl");
    settled(&cell, 4);
    assert_eq!(least_healthy(&cell, 4), 3);
    let names = machines(&cell);
    cell.ok(&format!("bourg drain {} {}", names[0], names[1]));
    settled(&cell, 4);
    assert_eq!(least_healthy(&cell, 4), 3);
    assert_eq!(told(&cell, "UPDATE_SUCCEED").len(), 1);
    // Removed replacements are nobody's tasks.
    cell.ok(&format!("bourg undrain {} {}", names[0], names[1]));
    cell.ok("bourg resize web 2");
    settled(&cell, 2);
}

#[test]
fn an_update_without_room_for_a_further_task_says_why() {
    let cell = Cell::start_with(&["--machines", "2"]);
    let fields = "maxPerMachine: { tasks: 1, hard: true }, disruptions: { atOnce: 0 },
                  update: { healthyFor: '0s', healthyWithin: '4s' }";
    sleeps(&cell, "one", 2, "exec sleep 1001", fields);
    sleeps(&cell, "two", 2, "exec sleep 1002", fields);
    cell.ok("bourg run one.bcl");
    let follows = cell.start("bourg", &["update", "two.bcl"]);
    until("the status says what it waits for", || {
        let shown = cell.types("bourg update status web").stdout;
        shown.contains("task 2 (started first) waits for a machine: ")
    });
    let ended = follows.ends();
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.stderr.contains("task 2 (started first"), "{ended:?}");
    settled(&cell, 2);
    assert_eq!(least_healthy(&cell, 2), 2);
    assert_eq!(versions(&cell), [1, 1]);
}
