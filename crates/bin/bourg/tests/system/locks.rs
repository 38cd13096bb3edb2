//! Locks for jobs: holders exclude each other, one that is paused loses its lock and its late write is
//! rejected, and a change of leader loses none.

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::processes;
use crate::replicas::Three;
use crate::terminal::{Background, Terminal};

/// A lock that ana holds in the background, and its sequencer.
#[track_caller]
fn held(terminal: &Terminal, path: &str, more: &[&str]) -> (Background, String) {
    let script = "echo $BOURG_LOCK_SEQUENCER; sleep 1d";
    let with = ["--cell", "./ana", "lock", "with", path];
    let command = ["--", "sh", "-c", script];
    let holder = terminal.start("bourg", &[&with, more, &command].concat());
    let sequencer = eventually("it holds the lock", || {
        holder.stdout().lines().next().map(|line| line.trim().to_owned())
    });
    (holder, sequencer)
}

/// Ends the command of a holder, which releases the lock; the exit code.
#[track_caller]
fn release(holder: Background) -> i32 {
    processes::signal(holder.pid(), Signal::SIGTERM);
    holder.ends().code
}

#[test]
fn two_holders_exclude_each_other() {
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    let (first, sequencer) = held(&cell, "/ana/leader", &[]);
    assert!(sequencer.starts_with("/ana/leader:exclusive:"), "{sequencer}");
    cell.ok(&format!("bourg --cell ./ana lock check {sequencer}"));
    for wait in ["0s", "300ms"] {
        let line = format!("bourg --cell ./ana lock with /ana/leader --wait {wait} -- true");
        let said = cell.fails(4, &line);
        assert!(said.contains("not acquired in time"), "{said}");
    }
    let with = ["--cell", "./ana", "lock", "with", "/ana/leader", "--", "sh", "-c", "exit 3"];
    let mut second = cell.start("bourg", &with);
    assert!(cell.ok("bourg --cell ./ana lock list").contains("/ana/leader"));
    assert_eq!(second.code(), None, "it waits");
    // The command gets the signal, and the lock is free at once.
    assert_eq!(release(first), 128 + 15);
    assert_eq!(second.ends().code, 3);
    cell.fails(7, &format!("bourg --cell ./ana lock check {sequencer}"));
    // Nobody else's, and shared locks are shared.
    cell.ok("bourg user add ben");
    cell.fails(3, "bourg --cell ./ben lock with /ana/leader --wait 0s -- true");
    cell.fails(3, "bourg --cell ./ben lock list /ana/");
    let shared = "bourg --cell ./ana lock with /ana/shared --wait 0s --shared --";
    cell.ok(&format!("{shared} {shared} true"));
    cell.fails(4, &format!("{shared} bourg --cell ./ana lock with /ana/shared --wait 0s -- true"));
    assert_eq!(cell.ok("bourg --cell ./ana lock list -o files").trim(), "[]");
}

#[test]
fn files_are_written_read_and_watched() {
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    cell.fails(2, "bourg --cell ./ana lock read /ana/data");
    cell.fails(2, "bourg --cell ./ana lock read ana/data");
    let watch = ["--cell", "./ana", "lock", "watch", "/ana/"];
    let watcher = cell.start("bourg", &watch);
    until("it has seen that there is nothing", || watcher.stdout().contains("nothing"));
    cell.ok("echo one | bourg --cell ./ana lock write /ana/data --expected 0");
    assert_eq!(cell.ok("bourg --cell ./ana lock read /ana/data"), "one\n");
    cell.fails(7, "echo two | bourg --cell ./ana lock write /ana/data --expected 0");
    cell.fails(2, "head -c 20000 /dev/zero | bourg --cell ./ana lock write /ana/big");
    until("the file was seen", || watcher.stdout().contains("/ana/data generation"));
    cell.ok("bourg --cell ./ana lock delete /ana/data");
    until("its deletion was seen", || watcher.stdout().matches("nothing").count() == 2);
    cell.fails(2, "bourg --cell ./ana lock show /ana/data");
    processes::signal(watcher.pid(), Signal::SIGKILL);
}

#[test]
fn a_paused_holder_loses_the_lock_and_its_late_write_is_rejected() {
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    let (paused, old) = held(&cell, "/ana/leader", &["--lease", "5s"]);
    let write = |text: &str, sequencer: &str| {
        let ana = "bourg --cell ./ana lock write /ana/data --sequencer";
        format!("echo {text} | {ana} {sequencer}")
    };
    cell.ok(&write("first", &old));
    processes::signal(paused.pid(), Signal::SIGSTOP);
    // What it started still runs, and writes late.
    let (next, new) = held(&cell, "/ana/leader", &["--wait", "60s"]);
    let said = cell.fails(7, &write("late", &old));
    assert!(said.contains("not valid any more"), "{said}");
    cell.ok(&write("second", &new));
    assert_eq!(cell.ok("bourg --cell ./ana lock read /ana/data"), "second\n");
    processes::signal(paused.pid(), Signal::SIGCONT);
    let ended = paused.ends();
    assert_eq!(ended.code, 7, "{}", ended.stderr);
    assert!(ended.stderr.contains("is lost"), "{}", ended.stderr);
    let events = cell.ok("bourg events");
    assert!(events.contains("LOCK_EXPIRED"), "{events}");
    cell.ok(&format!("bourg --cell ./ana lock check {new}"));
    release(next);
}

#[test]
fn a_change_of_leader_loses_no_lock() {
    let cell = Three::start();
    cell.ok("bourg user add ana");
    let (mut holder, sequencer) = held(&cell, "/ana/leader", &[]);
    for round in 0..3 {
        let leader = cell.leader();
        let dead = cell.pid(leader);
        processes::signal(dead, Signal::SIGKILL);
        cell.ok(&format!("bourg --cell ./ana lock check {sequencer}"));
        until("the one that was killed runs again", || cell.pid(leader) != dead);
        cell.fails(4, "bourg --cell ./ana lock with /ana/leader --wait 1s -- true");
        assert_eq!(holder.code(), None, "in round {round}: {}", holder.stderr());
    }
    release(holder);
}

#[test]
fn three_tasks_elect_a_leader_and_another_when_it_is_paused() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/leader.bcl");
    let logs = || cell.types("bourg logs elected --stream stdout").stdout;
    let leads = || logs().matches(" leads: ").count();
    until("one leads", || leads() == 1);
    let file = eventually("the leader has written", || {
        let list = cell.ok("bourg lock list");
        let line = list.lines().find(|line| line.contains("/state"))?.to_owned();
        line.split_whitespace().next().map(str::to_owned)
    });
    let first = cell.ok(&format!("bourg lock read {file}"));
    let index: u32 = first.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("an index");
    let pid = cell.tasks("elected")[&index];
    processes::signal(pid, Signal::SIGSTOP);
    until("another leads and has written", || {
        leads() >= 2 && cell.ok(&format!("bourg lock read {file}")) != first
    });
    processes::signal(pid, Signal::SIGCONT);
    cell.ok("bourg kill elected");
}

/// However its client ends, and also what the command has started.
#[test]
fn a_command_ends_with_its_client() {
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    let with =
        ["--cell", "./ana", "lock", "with", "/ana/leader", "--lease", "5s", "--", "sh", "-c"];
    let holder = cell.start("bourg", &[&with[..], &["sleep 1d & echo $$ $!; wait"]].concat());
    let running: Vec<i32> = eventually("the command says what runs", || {
        let said = holder.stdout();
        let pids =
            said.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect::<Vec<_>>();
        (pids.len() == 2).then_some(pids)
    });
    processes::signal(holder.pid(), Signal::SIGKILL);
    // Their new parent may not have reaped them yet.
    until("they have ended", || {
        running.iter().all(|pid| processes::command(*pid).concat().is_empty())
    });
    // The lock is free when the lease has passed.
    cell.ok("bourg --cell ./ana lock with /ana/leader --wait 60s -- true");
}
