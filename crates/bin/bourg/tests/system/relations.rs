//! Jobs that run after others, jobs that end with others, and jobs selected by labels.

use nix::sys::signal::Signal;
use rpc::{Authority, Identity};

use crate::access::client_directory;
use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

/// Writes a file of jobs: `name`, and further fields of the description. Each finishes on SIGUSR1
/// and fails on SIGUSR2.
fn write(cell: &Cell, file: &str, jobs: &[(&str, &str)]) {
    let job = |(name, more): &(&str, &str)| {
        format!(
            "borg.batch('{name}', cmd=['sh', '-c', program]) {{ restart: {{ failures: 0 }}, {more} }}"
        )
    };
    let jobs: Vec<String> = jobs.iter().map(job).collect();
    let program = "trap 'exit 0' USR1; trap 'exit 3' USR2; echo ready; while :; do sleep 0.1; done";
    cell.write(
        file,
        format!(
            "local borg = import 'borg.libsonnet'; local program = \"{program}\"; [{}]",
            jobs.join(", ")
        ),
    );
}

/// Ends the only task of a job.
#[track_caller]
pub(crate) fn end(cell: &Cell, job: &str, signal: Signal) {
    until("it listens to signals", || cell.ok(&format!("bourg logs {job}/0")) == "ready\n");
    processes::signal(cell.tasks(job)[&0], signal);
}

#[test]
fn a_job_waits_until_the_one_before_it_has_finished() {
    let cell = Cell::start();
    write(&cell, "pipeline.bcl", &[("extract", ""), ("load", "after: ['extract']")]);
    let mut run = cell.start("bourg", &["run", "pipeline.bcl"]);
    let queued = " queued until root/extract has finished\n";
    until("it says what it waits for", || run.stderr().contains(queued));
    assert_eq!(run.code(), None, "it waits");
    assert_eq!(cell.ok("bourg status load -o state"), "queued\n");
    assert_eq!(cell.ok("bourg status load -o counts.queued"), "1\n");
    let status = cell.ok("bourg status load");
    assert!(status.contains("queued until root/extract has finished  "), "{status}");
    let why = cell.ok("bourg why load");
    assert!(why.starts_with("root/load: 1 task queued until root/extract has finished\n"), "{why}");
    let said = cell.fails(4, "bourg run pipeline.bcl --timeout 1s");
    let late = "not placed within 1 s: root/load is queued until root/extract has finished";
    assert!(said.contains(late), "{said}");

    end(&cell, "extract", Signal::SIGUSR1);
    let run = run.ends();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stderr.matches("queued until").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("healthy 1/1"), "{}", run.stderr);
    assert_eq!(cell.ok("bourg status load -o state"), "running\n");
    end(&cell, "load", Signal::SIGUSR1);
    cell.job("load", "is finished", |job| job["state"] == "finished");
}

#[test]
fn a_job_whose_predecessor_failed_is_killed_and_says_so() {
    let cell = Cell::start();
    write(&cell, "pipeline.bcl", &[("extract", ""), ("load", "after: ['extract']")]);
    let run = cell.start("bourg", &["run", "pipeline.bcl"]);
    until("it waits", || run.stderr().contains(" queued until root/extract has finished\n"));
    end(&cell, "extract", Signal::SIGUSR2);
    let run = run.ends();
    assert_eq!(run.code, 1, "{}", run.stderr);
    let why = "root/extract, which it was to run after, did not finish";
    assert!(run.stderr.contains(&format!("error: root/load killed: {why}\n")), "{}", run.stderr);
    assert_eq!(cell.ok("bourg status load -o reason"), format!("{why}\n"));
    assert!(cell.ok("bourg status load").contains(&format!("killed ({why})")));
    assert!(cell.ok("bourg status load -o wide").contains(why));
    let said = cell.ok("bourg why load");
    let because = format!("root/load: killed: {why}\n because root/extract failed (task 0: ");
    assert!(said.starts_with(&because), "{said}");
    assert!(said.contains(&format!(" 1 of 1 task: killed: {why}, ")), "{said}");

    write(&cell, "late.bcl", &[("load", "after: ['extract']")]);
    let said = cell.fails(3, "bourg run late.bcl");
    assert!(said.contains("root/extract, which has ended without finishing"), "{said}");
    write(&cell, "typo.bcl", &[("load", "after: ['extrat']")]);
    let said = cell.fails(3, "bourg run typo.bcl");
    assert!(said.contains("there is no such job; the nearest is root/extract"), "{said}");
}

#[test]
fn a_child_ends_with_its_parent() {
    let cell = Cell::start();
    write(&cell, "family.bcl", &[("parent", ""), ("child", "parent: 'parent'"), ("other", "")]);
    cell.ok("bourg run family.bcl");
    cell.ok("bourg kill parent");
    let child = cell.job("child", "is killed", |job| job["state"] == "killed");
    assert_eq!(child["reason"], "its parent root/parent ended");
    assert_eq!(cell.ok("bourg status -o name"), "root/other\n");
    write(&cell, "late.bcl", &[("late", "parent: 'parent'")]);
    let said = cell.fails(3, "bourg run late.bcl");
    assert!(said.contains("parent names root/parent, but that job has ended"), "{said}");
}

#[test]
fn jobs_are_found_by_their_labels() {
    let cell = Cell::start();
    let canary =
        "labels: { team: 'search' }, tasks: 3, overrides: { '1': { labels: { tier: 'canary' } } }";
    write(
        &cell,
        "teams.bcl",
        &[
            ("web", canary),
            ("index", "labels: { team: 'search', tier: 'back' }"),
            ("bids", "labels: { team: 'ads' }"),
        ],
    );
    cell.ok("bourg run teams.bcl");
    assert_eq!(cell.ok("bourg status -l team=search -o name"), "root/index\nroot/web\n");
    let wide = cell.ok("bourg status -o wide");
    assert!(wide.contains("  team=search,tier=back\n"), "{wide}");
    let wide = cell.ok("bourg status web -o wide");
    assert_eq!(wide.matches("  team=search\n").count(), 2, "{wide}");
    assert!(wide.contains("  team=search,tier=canary\n"), "{wide}");
    assert_eq!(cell.ok("bourg why -l team=search"), "no task of 2 jobs is pending\n");
    assert_eq!(cell.ok("bourg why -l team=search -o job"), "index\nweb\n");
    until("all are ready", || cell.ok("bourg logs -l team=search | wc -l").trim() == "4");
    let logs = cell.ok("bourg logs -l team=search | sort");
    assert_eq!(logs, "index/0  ready\nweb/0  ready\nweb/1  ready\nweb/2  ready\n");
    assert_eq!(cell.ok("bourg logs -l tier=canary"), "web/1  ready\n", "the task that has it");

    // Labels select among the caller's jobs.
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "eve", &authority, &Identity::User("eve".to_owned()));
    for command in ["kill", "logs"] {
        let said = cell.fails(2, &format!("bourg --cell ./eve {command} -l team=search"));
        assert!(said.contains("error: no job of yours ") && said.contains("team=search"), "{said}");
    }
    let pids = cell.tasks("web");
    let killed = cell.types("bourg kill -l tier=canary");
    assert_eq!(killed.stderr, "root/web has the labels tier=canary\nroot/web: 1 task killed\n");
    assert_eq!(cell.tasks("web"), [(0, pids[&0]), (2, pids[&2])].into(), "the others run on");
    let killed = cell.types("bourg kill -l team=search");
    assert_eq!(
        (killed.code, killed.stderr.as_str()),
        (
            0,
            "root/index, root/web have the labels team=search\nroot/index: 1 task killed\n\
             root/web: 2 tasks killed\n"
        )
    );
    assert_eq!(cell.ok("bourg status -o name"), "root/bids\n");
    let said = cell.fails(2, "bourg kill -l team=search");
    assert!(
        said.contains("no job of yours that is alive matches the labels team=search"),
        "{said}"
    );
    assert_eq!(
        cell.ok("bourg logs -l team=search,tier | cut -d' ' -f1 | sort"),
        "index/0\nweb/1\n"
    );
    let said = cell.fails(2, "bourg kill");
    assert!(said.contains("required arguments"), "{said}");
}
