//! A cell that is restored from one replica, lost again, and restored from another one, which knows
//! nothing of the first restoration.

use nix::sys::signal::Signal;

use crate::eventually::until;
use crate::grown::{Grown, restore_epoch};
use crate::processes;
use crate::terminal::Background;

const SITS: &str =
    "(import 'borg.libsonnet').service('NAME', cmd=['sleep', '1000000']) { priority: 'free' }";

fn kill(of: Background) {
    processes::signal(of.pid(), Signal::SIGKILL);
    of.ends();
}

/// Starts a Borglet and a scheduler; the cell then runs jobs.
fn with_machine(cell: &Grown) -> [Background; 2] {
    cell.terminal.write("token", cell.ok("machine token m1"));
    let flags = ["--dir", "m1", "--listen", "127.0.0.1:0", "--join", "@token", "--stop-tasks"];
    let borglet = cell.terminal.start("bourg", &[&["borglet"], &flags[..]].concat());
    cell.terminal.ok("bourg master certify scheduler/main --dir r1 --to s");
    let masters: Vec<&str> = cell.at.iter().flat_map(|at| ["--master", at]).collect();
    let flags = [&["scheduler", "--credentials", "s"][..], &masters].concat();
    let scheduler = cell.terminal.start("bourg", &flags);
    until("the machine is up", || cell.types("machine show m1 -o state").stdout == "up\n");
    [borglet, scheduler]
}

#[track_caller]
fn runs(cell: &Grown, name: &str) {
    cell.terminal.write("sits.bcl", SITS.replace("NAME", name));
    cell.ok("run --detach sits.bcl");
    let healthy = format!("status {name} -o counts.healthy");
    until(&format!("{name} runs"), || cell.types(&healthy).stdout == "1\n");
}

/// Restores the cell from a directory, and starts its only replica.
#[track_caller]
fn restored(cell: &Grown, directory: &str, number: usize) -> (Background, String) {
    let told = cell.terminal.types(&format!("bourg master restore --dir {directory}"));
    assert_eq!(told.code, 0, "{}", told.stderr);
    let master = cell.starts(directory, &cell.at[number], &[]);
    cell.has_voters(1);
    (master, told.stderr)
}

/// Both restorations have the same counter then, and two histories.
#[test]
fn a_machine_of_another_restoration_says_so_and_obeys_when_told() {
    let (cell, replicas) = Grown::of_three();
    let [borglet, _scheduler] = with_machine(&cell);
    replicas.into_iter().rev().for_each(kill);
    let (master, _) = restored(&cell, "r1", 0);
    runs(&cell, "between");
    kill(master);

    // The machine cannot be asked.
    processes::signal(borglet.pid(), Signal::SIGSTOP);
    let (_master, second) = restored(&cell, "r2", 1);
    assert!(second.contains("0 of 1 machines"), "{second}");
    assert_eq!(restore_epoch(&second).counter, 1, "{second}");
    processes::signal(borglet.pid(), Signal::SIGCONT);
    let rejects = || cell.types("machines").stdout.contains("rejects orders");
    until("the machine says that it rejects orders", rejects);
    cell.terminal.write("sits.bcl", SITS.replace("NAME", "after"));
    cell.ok("run --detach sits.bcl");
    until("why says so", || cell.types("why after").stdout.contains("bourg machine obey m1"));
    let shown = cell.ok("machine show m1");
    assert!(shown.contains("next: bourg machine obey m1"), "{shown}");
    let events = cell.ok("events --machine m1 --all");
    assert!(events.contains("rejects-orders"), "{events}");

    cell.ok("machine obey m1");
    until("it runs", || cell.types("status after -o counts.healthy").stdout == "1\n");
    until("it rejects nothing", || !rejects());
    until("only what the cell has runs", || cell.ok("machine show m1 -o tasks") == "1\n");
    let again = cell.terminal.types("bourg --cell ana machine obey m1");
    assert!(again.code == 0 && again.stderr.contains("rejects no orders"), "{}", again.stderr);
}

#[test]
fn a_second_restoration_is_above_what_the_machines_know_of_the_first() {
    let (cell, replicas) = Grown::of_three();
    let _processes = with_machine(&cell);
    runs(&cell, "before");
    replicas.into_iter().rev().for_each(kill);

    let (master, first) = restored(&cell, "r1", 0);
    assert_eq!(restore_epoch(&first).counter, 1, "{first}");
    runs(&cell, "between");
    kill(master);

    let (_master, second) = restored(&cell, "r2", 1);
    assert!(second.contains("1 of 1 machines"), "{second}");
    assert_eq!(restore_epoch(&second).counter, 2, "{second}");
    // The machine obeys at once, and nothing of the other history is left on it.
    runs(&cell, "after");
    let listed = cell.ok("status -o name");
    assert!(!listed.contains("between"), "{listed}");
    // What this replica knows of the past outlived both restorations.
    let events = cell.ok("events --all");
    assert!(events.contains("ana/before") && !events.contains("ana/between"), "{events}");
    until("only what the cell has runs", || cell.ok("machine show m1 -o tasks") == "2\n");
}
