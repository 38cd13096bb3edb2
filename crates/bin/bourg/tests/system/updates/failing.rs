//! Updates whose tasks do not become healthy.

use std::net::TcpListener;

use nix::sys::signal::Signal;

use super::{WEB, change, each, says, told, versions, write_web};
use crate::cell::Cell;
use crate::eventually::until;
use crate::http;
use crate::processes;

/// Says two lines and fails.
const FAILS: &str = "cmd: ['sh', '-c', 'echo one; echo going down >&2; exit 3'], healthCheck: null";

#[test]
fn an_update_that_fails_undoes_itself_and_says_why() {
    let cell = Cell::start();
    write_web(&cell, 3, "update: { healthyFor: '5m' }");
    cell.ok("bourg run web.bcl");
    let pids = cell.tasks(WEB);
    let table: &[(&str, &str, &[&str])] = &[
        (FAILS, " ✗ task 0: exit code 3\n", &["  | one\n", "  | going down\n"]),
        (
            "cmd: ['no-such-program'], healthCheck: null",
            " ✗ task 0: not started: no such file: no-such-program (not in the directories of PATH)",
            &[],
        ),
        (
            "cmd+: ['--unhealthy-after', '1']",
            " ✗ task 0: unhealthy: GET / → HTTP 500\n",
            &["  | listening on port "],
        ),
    ];
    for (version, (fields, says, lines)) in (2..).zip(table) {
        change(&cell, "bad", fields);
        let said = cell.fails(5, "bourg update bad.bcl");
        assert!(said.contains(says), "{fields}: {said}");
        for line in *lines {
            assert!(said.contains(line), "{fields}: the last lines of the task are not in {said}");
        }
        let why = format!(" why: bourg logs root/web/0 --version {version}\n");
        assert!(said.contains(&why), "{fields}: {said}");
        assert!(said.contains("\nundone: 3/3 tasks back on version 1 in "), "{fields}: {said}");
        assert!(said.ends_with("next: bourg update status root/web\n"), "{fields}: {said}");
        let status = cell.is_healthy(WEB);
        assert_eq!(each(&status, "version"), [1, 1, 1], "{fields}");
        let now = cell.tasks(WEB);
        assert_eq!(
            (now[&1], now[&2]),
            (pids[&1], pids[&2]),
            "{fields}: the others were not touched"
        );
        // The commands that it names work.
        let logs = cell.ok(why.trim().trim_start_matches("why: "));
        assert!(
            lines.iter().all(|line| logs.contains(line.trim_start_matches("  | ").trim())),
            "{logs}"
        );
        let text = cell.ok("bourg update status root/web");
        assert!(text.contains(&format!("to {version}  undone (failed) for ")), "{text}");
        assert!(text.contains("\nfailed      task 0: "), "{text}");
    }
    let failed = told(&cell, "UPDATE_FAIL");
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert_eq!(failed[0], "version 2: exit code 3, by master");
    // Of a changed file, too.
    change(&cell, "bad", FAILS);
    let said = cell.fails(5, "bourg run bad.bcl");
    assert!(said.contains("\nundone: 3/3 tasks back on version 1 in "), "{said}");
    assert_eq!(versions(&cell), [1, 1, 1]);
}

#[test]
fn an_update_that_fails_can_pause_instead_and_is_resumed_or_undone() {
    let cell = Cell::start();
    write_web(&cell, 3, "update: { healthyFor: '500ms' }");
    cell.ok("bourg run web.bcl");
    // It fails until somebody makes it work, by a server of which it needs an answer.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.expect("a free port").port().to_string();
    let needs = format!("curl --silent --fail http://127.0.0.1:{port}/ || exit 3; exec bourg");
    let serves = "example-server --quiet --port ' + (import 'borg.libsonnet').port('http')";
    change(&cell, "bad", &format!("cmd: ['sh', '-c', '{needs} {serves}]"));
    let said = cell.fails(1, "bourg update bad.bcl --on-failure pause");
    assert!(said.contains(" ✗ task 0: exit code 3\n"), "{said}");
    assert!(said.contains("error: the update of root/web failed and is paused\n"), "{said}");
    let next = "next: bourg update undo root/web · bourg update resume root/web\n";
    assert!(said.ends_with(next), "{said}");
    assert_eq!(versions(&cell), [2, 1, 1]);
    assert_eq!(cell.ok("bourg update status web -o state"), "paused\n");
    assert_eq!(told(&cell, "UPDATE_PAUSE"), ["version 2, by master"]);

    let _server = cell.start("bourg", &["example-server", "--port", &port]);
    until("it answers", || http::get(&format!("127.0.0.1:{port}"), "/").is_ok());
    cell.ok("bourg update resume web");
    let said = says(&cell, "bourg update status web --watch");
    assert!(said.contains("updated: 3/3 tasks on version 2 in "), "{said}");
    assert_eq!(versions(&cell), [2, 2, 2]);
    assert_eq!(told(&cell, "UPDATE_RESUME"), ["version 2, by root"]);

    change(&cell, "bad", FAILS);
    cell.fails(1, "bourg update bad.bcl --on-failure pause --healthy-for 5m");
    // It was asked for, and done.
    let undone = cell.types("bourg update undo web");
    assert!(undone.stderr.contains("\nundone: 3/3 tasks back on version 2 in "), "{undone:?}");
    assert_eq!(versions(&cell), [2, 2, 2]);
    cell.is_healthy(WEB);
    assert_eq!(undone.code, 0, "an undo that somebody asked for has succeeded: {undone:?}");
}

/// Of tasks that may not fail even once, too.
#[test]
fn the_old_version_runs_everywhere_after_an_update_fails_for_good() {
    let cell = Cell::start();
    cell.write(
        "web.bcl",
        "(import 'borg.libsonnet').service('web', tasks=2, cmd=['sleep', '1d'])
           { restart: { failures: 0 }, update: { healthyFor: '200ms' } }",
    );
    cell.ok("bourg run web.bcl");
    change(&cell, "bad", "cmd: ['sh', '-c', 'exit 3']");
    let said = cell.fails(5, "bourg update bad.bcl --healthy-for 5m");
    assert!(said.contains("undone: 2/2 tasks back on version 1 in "), "{said}");
    let status = cell.is_healthy(WEB);
    assert_eq!(each(&status, "version"), [1, 1]);
}

/// What one version did is not held against another.
#[test]
fn failures_of_an_undone_version_do_not_count_for_the_old_one() {
    let cell = Cell::start();
    cell.write(
        "web.bcl",
        "(import 'borg.libsonnet').service('web', cmd=['sleep', '1d'])
           { restart: { failures: 2 }, update: { healthyFor: '100ms' } }",
    );
    cell.ok("bourg run web.bcl");
    change(&cell, "bad", "cmd: ['sh', '-c', 'exit 3']");
    for _ in 0..4 {
        cell.fails(5, "bourg update bad.bcl --healthy-for 5m");
        cell.job(WEB, "runs again", |job| job["tasks"][0]["state"] == "running");
    }
    processes::signal(cell.tasks(WEB)[&0], Signal::SIGKILL);
    let status =
        cell.job(WEB, "has failed once more", |job| job["tasks"][0]["lastEnd"]["signalled"] == 9);
    assert_ne!(status["tasks"][0]["state"], "failed", "{status:#}");
}

#[test]
fn a_task_that_is_not_healthy_in_time_fails_the_update() {
    let cell = Cell::start();
    write_web(&cell, 2, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    change(
        &cell,
        "bad",
        "cmd: ['sh', '-c', 'sleep 1d #' + (import 'borg.libsonnet').port('http')]",
    );
    let said = cell.fails(5, "bourg update bad.bcl --healthy-within 1s");
    assert!(said.contains(" ✗ task 0 was not healthy in time\n"), "{said}");
    assert!(said.contains("\nundone: 2/2 tasks back on version 1 in "), "{said}");
    assert_eq!(each(&cell.is_healthy(WEB), "version"), [1, 1]);
}
