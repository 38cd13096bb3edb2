//! What users share: one who takes all it can holds up neither another nor the administrator.

use crate::cell::Cell;
use crate::eventually::until;
use crate::grown::Grown;
use crate::processes;
use crate::terminal::Background;
use nix::sys::signal::Signal;

/// A job of a hundred thousand tasks that no machine suits.
const PENDING: &str = "tasks: 100000, cpu: 0.001, ram: '4 MiB', priority: 'free', \
                       constraints: [{ attribute: 'nope', relation: 'present' }]";

/// A cell with ana and ben, and files of jobs of theirs.
fn with_two() -> Cell {
    let cell = Cell::start();
    for user in ["ana", "ben"] {
        cell.ok(&format!("bourg user add {user}"));
    }
    for name in ["big", "more", "most"] {
        cell.write(
            &format!("{name}.bcl"),
            format!("{{ name: '{name}', cmd: ['true'], {PENDING} }}"),
        );
    }
    let web = "{ name: 'web', cmd: ['sleep', '1000'], cpu: 0.1, ram: '16 MiB', priority: 'free', \
               notice: '1s' }";
    cell.write("web.bcl", web);
    cell
}

#[test]
fn a_user_with_too_many_task_changes_waits_alone() {
    let cell = with_two();
    for name in ["big", "more"] {
        cell.ok(&format!("bourg --cell ./ana run {name}.bcl --detach"));
    }
    let held: Background = cell.start("bourg", &["--cell", "./ana", "run", "most.bcl", "--detach"]);
    until("it waits for its share", || held.stderr().contains("overloaded"));
    cell.ok("bourg --cell ./ben run web.bcl");
    cell.ok("bourg run web.bcl");
    processes::signal(held.pid(), Signal::SIGKILL);
}

#[test]
fn holders_of_limits_are_shown_to_administrators_and_to_themselves() {
    let cell = with_two();
    cell.ok("bourg --cell ./ana run big.bcl --detach");
    let row = |said: &str, limit: &str| {
        let row = said.lines().find(|line| line.split_whitespace().next() == Some(limit));
        row.map(|row| row.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
    };
    let said = cell.ok("bourg limits");
    assert_eq!(row(&said, "tasks").as_deref(), Some("100000 10000000 4950000 ana 100000"));
    assert_eq!(row(&said, "waiting-tasks").as_deref(), Some("100000 4000000 1950000 ana 100000"));
    let said = cell.ok("bourg --cell ./ben limits");
    assert_eq!(
        row(&said, "tasks").as_deref(),
        Some("100000 10000000 4325000"),
        "not whose they are"
    );
    let said = cell.ok("bourg --cell ./ana limits -o json");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let tasks = said["limits"].as_array().expect("a list").iter().find(|of| of["name"] == "tasks");
    assert_eq!(tasks.expect("tasks")["holders"][0]["user"], "ana");
}

#[test]
fn an_owner_can_forget_an_ended_job() {
    let cell = with_two();
    cell.ok("bourg --cell ./ana run big.bcl --detach");
    let said = cell.fails(3, "bourg --cell ./ana forget big");
    assert!(said.contains("kill it first (bourg kill ana/big)"), "{said}");
    cell.ok("bourg --cell ./ana kill big --detach");
    let said = cell.fails(3, "bourg --cell ./ben forget ana/big");
    assert!(said.contains("ana or an administrator may"), "{said}");
    let tasks = || cell.ok("bourg cell status -o tasks").trim().to_owned();
    let before = tasks();
    cell.ok("bourg forget ana/big");
    assert_ne!(tasks(), before);
    cell.fails(2, "bourg --cell ./ana forget big");
    cell.fails(2, "bourg --cell ./ana forget big/3");
}

#[test]
fn a_scheduler_goes_on_with_the_records_that_it_lacks() {
    let (cell, master) = Grown::found(&[]);
    cell.terminal.ok("bourg master certify scheduler/main --dir r1 --to s");
    let flags = ["scheduler", "--credentials", "s", "--master", &cell.at[0]];
    let scheduler = cell.terminal.start("bourg", &flags);
    until("it follows", || scheduler.stderr().contains("following the master from index"));
    processes::signal(master.pid(), Signal::SIGKILL);
    let before = master.ends();
    assert!(before.stderr.contains("follows from index"), "{}", before.stderr);
    let master = cell.starts("r1", &cell.at[0], &[]);
    until("it follows again", || {
        scheduler.stderr().matches("following the master from index").count() > 1
    });
    let said = master.stderr();
    assert!(said.contains("goes on from index"), "{said}");
    assert!(!said.contains("follows from index"), "the cell is loaded again: {said}");
}
