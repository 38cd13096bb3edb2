//! Jobs that refer to other jobs by name, and tasks that learn of changed addresses and secrets.

use crate::cell::Cell;
use crate::eventually::{until, within};
use std::time::Duration;

/// Longer than a task runs before it is restarted for a change, and longer than lost starts are apart.
const LONG: Duration = Duration::from_secs(150);

/// Prints its file when it starts, and again for each SIGHUP.
const PRINTS: &str =
    "trap 'echo told; cat /etc/its' HUP; cat /etc/its; while true; do sleep 0.1; done";

fn job(cell: &Cell, name: &str, cmd: &str, rest: &str) {
    let job = format!(
        "{{ name: '{name}', cmd: ['sh', '-c', {cmd:?}], cpu: 0.1, ram: '16 MiB', priority: 'free', \
         notice: '1 s', {rest} }}"
    );
    cell.write(&format!("{name}.bcl"), job);
}

fn database(cell: &Cell) {
    let job = "{ name: 'db', cmd: ['bourg', 'example-server', '--port', '${port.http}'], cpu: 0.1, \
               ram: '64 MiB', appclass: 'latency-sensitive', priority: 'production' }";
    cell.write("db.bcl", job);
    cell.ok("bourg run db.bcl");
}

#[test]
fn a_task_waits_for_a_job_and_is_told_where_its_tasks_are() {
    let cell = Cell::start();
    let file = "files: { '/etc/its': 'db=${bns.db.addresses.http} $${bns.db.host}\\n' }";
    job(&cell, "web", PRINTS, &format!("{file}, onChange: 'signal'"));
    cell.ok("bourg run --detach web.bcl");
    within(LONG, "it says what it waits for", || {
        let why = cell.types("bourg why web/0").stdout;
        (why.contains("${bns.db.addresses.http}") && why.contains("/db runs")).then_some(())
    });
    database(&cell);
    within(LONG, "it starts once the job is there", || {
        cell.types("bourg logs web/0").stdout.contains("db=").then_some(())
    });
    let first = cell.ok("bourg logs web/0");
    assert!(first.contains(" ${bns.db.host}\n") && !first.contains(','), "{first}");

    cell.ok("bourg resize db 2");
    until("it is told of the second task", || {
        let said = cell.types("bourg logs web/0").stdout;
        said.contains("told\n") && said.lines().last().is_some_and(|line| line.contains(','))
    });
    let events = cell.ok("bourg events web");
    assert!(
        events.contains("CHANGE_INPUTS") && events.contains("bns.db.addresses.http: told"),
        "{events}"
    );
    assert!(!events.contains("EVICT"), "it was not restarted: {events}");
}

#[test]
fn a_rotated_secret_is_told_or_restarts_tasks_one_after_the_other() {
    let cell = Cell::start();
    cell.ok("printf 'one\\n' | bourg secret set db");
    let secret = "secrets: { '/etc/its': 'db' }";
    job(&cell, "told", PRINTS, &format!("{secret}, onChange: 'signal'"));
    job(&cell, "kept", PRINTS, secret);
    let budget = "tasks: 2, disruptions: { atOnce: 1 }, update: { healthyFor: '1 s' }";
    job(&cell, "again", PRINTS, &format!("{secret}, {budget}, onChange: 'restart'"));
    cell.ok("bourg run told.bcl kept.bcl again.bcl");
    let said = |task: &str| cell.types(&format!("bourg logs {task}")).stdout;
    for task in ["told/0", "kept/0", "again/0", "again/1"] {
        until("it has the first version", || said(task) == "one\n");
    }
    cell.ok("printf 'number two\\n' | bourg secret set db");
    until("it is told", || said("told/0") == "one\ntold\nnumber two\n");
    for task in ["again/0", "again/1"] {
        within(LONG, "it is restarted", || (said(task) == "number two\n").then_some(()));
    }
    let events = cell.ok("bourg events again");
    assert!(events.contains("secret db version 2: restarted"), "{events}");
    let status = cell.ok("bourg status kept/0");
    assert_eq!(said("kept/0"), "one\n");
    assert!(status.contains("secret db version 1, the newest is 2"), "{status}");

    // A shorter one, and a mode that nobody has changed.
    cell.ok("printf '3\\n' | bourg secret set db");
    until("it is told again", || said("told/0").ends_with("told\n3\n"));
    let mode = cell.ok("bourg exec told/0 -- stat -c %a:%U /etc/its");
    assert_eq!(mode.trim(), "400:task");
}

#[test]
fn a_reference_that_cannot_be_one_is_rejected() {
    let cell = Cell::start();
    for (file, why) in [
        ("${bns.db}", "write ${bns.USER/JOB/INDEX.WHAT}"),
        ("${bns.db/0.addresses}", "write ${bns.USER/JOB/INDEX.WHAT}"),
    ] {
        job(&cell, "bad", "true", &format!("files: {{ '/etc/its': '{file}' }}"));
        let refused = cell.fails(2, "bourg run bad.bcl");
        assert!(refused.contains(why), "{refused}");
    }
    job(&cell, "bad", "true", "onChange: 'reload'");
    let refused = cell.fails(2, "bourg run bad.bcl");
    assert!(refused.contains("onChange"), "{refused}");
}
