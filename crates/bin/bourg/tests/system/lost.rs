//! Machines that do not answer: cut off, dead, and so many at once that the cause must be
//! elsewhere.

use nix::sys::signal::Signal;
use rpc::{Authority, Identity};

use crate::access::client_directory;
use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

/// The flags of a master that soon marks machines unreachable.
const SOON: [&str; 4] = ["--poll-interval", "300ms", "--missed-polls", "2"];

/// A job of two tasks without ports, which exit at once on SIGTERM.
const SITS: &str = "(import 'borg.libsonnet').service('sits', tasks=2, cmd=['sleep', '1000000'])";

/// The only machine of a dev cell.
fn machine(cell: &Cell) -> String {
    cell.ok("bourg machines -o name").trim().to_owned()
}

#[test]
fn a_returning_machine_ends_the_old_copies_of_moved_tasks() {
    let cell = Cell::start_with(&SOON);
    let first = machine(&cell);
    let mut m2 = Machine::start(&cell, "m2");
    cell.write("sits.bcl", SITS);
    cell.ok(&format!("bourg machine drain {first}; bourg run sits.bcl"));
    let mut generation = 1;
    for frozen in [true, false] {
        let on = |machine: &str, generation: u64| {
            cell.job("sits", &format!("runs on {machine}"), |job| {
                let tasks = job["tasks"].as_array().into_iter().flatten();
                let mut there = tasks.map(|task| {
                    task["state"] == "running"
                        && task["machine"] == machine
                        && task["generation"] == generation
                });
                job["counts"]["healthy"] == 2 && there.all(|there| there)
            });
        };
        on("m2", generation);
        cell.ok(&format!("bourg machine undrain {first}"));
        let old = m2.tasks("sits");
        assert_eq!(old.len(), 2);
        // Its Borglet is paused at any point, or dead; the tasks keep running.
        m2.signal(if frozen { Signal::SIGSTOP } else { Signal::SIGKILL });
        m2.is("down");
        on(&first, generation + 1);
        assert!(old.values().all(|pid| processes::is_there(*pid)), "nobody could end them");
        assert_eq!(cell.tasks("sits").len(), 2);
        let status = cell.status("sits");
        let ended = "lost: machine m2 went silent";
        assert_eq!(status["tasks"][0]["lastEndText"], ended, "{status:#}");
        assert_eq!(status["tasks"][0]["failures"], 0, "it is nobody's failure");

        if frozen {
            m2.signal(Signal::SIGCONT);
        } else {
            m2.is_gone();
            m2.start_again();
        }
        until("the old copies are gone", || !old.values().any(|pid| processes::is_there(*pid)));
        m2.is("up");
        assert_eq!(m2.tasks("sits"), [].into());
        on(&first, generation + 1);
        let placed = cell.ok("bourg machine show m2 -o tasks");
        assert_eq!(placed, "0\n", "and none of them is told of in the cell");
        if frozen {
            cell.ok(&format!("bourg machine drain {first}"));
            generation += 2;
        }
    }
    let table = cell.ok("bourg events --machine m2 --all");
    let words = ["UNREACHABLE", "DOWN", "BACK"];
    let happened: Vec<&str> =
        table.split_whitespace().filter(|word| words.contains(word)).collect();
    assert_eq!(happened, [words, words].concat(), "{table}");
    // The machine is used again.
    cell.ok(&format!("bourg machine drain {first}"));
    until("they run there again", || m2.tasks("sits").len() == 2);
    cell.ok("bourg kill sits");
}

#[test]
fn a_mostly_silent_cell_marks_no_machine_down_without_an_operator() {
    let cell = Cell::start_with(&SOON);
    let first = machine(&cell);
    let mut machines = ["m2", "m3", "m4"].map(|name| Machine::start(&cell, name));
    cell.write("sits.bcl", SITS);
    cell.ok(&format!("bourg machine drain {first}; bourg machine drain m3 m4"));
    cell.ok("bourg run sits.bcl");
    cell.ok(&format!("bourg machine undrain {first} m3 m4"));
    let old = machines[0].tasks("sits");
    let text = cell.ok("bourg cell");
    assert!(text.contains("\nrescheduling  allowed\n"), "{text}");
    let said = cell.fails(3, "bourg cell resume-rescheduling");
    assert!(said.contains("rescheduling is not stopped: there is nothing to resume"), "{said}");

    machines.iter().for_each(|machine| machine.signal(Signal::SIGSTOP));
    until("rescheduling is stopped", || cell.ok("bourg cell -o rescheduling.state") == "stopped\n");
    machines.iter().for_each(|machine| machine.is("unreachable"));
    let index = cell.ok("bourg cell -o index");
    let text = cell.ok("bourg cell status");
    assert!(text.contains("\nmachines      1 of 4 up, 3 unreachable ("), "{text}");
    assert!(text.contains("\nrescheduling  stopped "), "{text}");
    assert!(text.contains(" of 4 machines were unreachable: none is marked down"), "{text}");
    assert!(text.contains("; to override: bourg cell resume-rescheduling\n"), "{text}");
    let table = cell.ok("bourg machines");
    assert_eq!(table.matches("  unreachable for ").count(), 3, "{table}");
    let text = cell.ok("bourg machine show m2");
    assert!(text.contains("its tasks stay assigned to it, and no others are placed\n"), "{text}");
    assert!(text.contains("\nroot/sits/0  running "), "{text}");
    let reason = cell.ok("bourg status sits -o tasks.0.reason");
    assert_eq!(reason, "its machine is unreachable\n");
    cell.ok("bourg run --detach $EXAMPLES/too-big.bcl");
    let why = cell.ok("bourg why too-big");
    assert!(why.contains("  3 are unreachable\n"), "{why}");
    let events = cell.ok("bourg events --all");
    let line = events.lines().find(|line| line.contains("STOP_RESCHEDULING"));
    let line = line.unwrap_or_else(|| panic!("no such event in\n{events}"));
    assert!(line.contains(" of 4 machines are unreachable") && line.contains("master"), "{line}");
    assert_eq!(cell.ok("bourg status sits -o tasks.0.generation"), "1\n", "they stay");

    // One answers again: two are not too many.
    machines[2].signal(Signal::SIGCONT);
    until("rescheduling is allowed", || cell.ok("bourg cell -o rescheduling.state") == "allowed\n");
    machines[2].is("up");
    machines[0].is("down");
    cell.job("sits", "runs elsewhere", |job| {
        job["counts"]["healthy"] == 2 && job["tasks"][0]["generation"] == 2
    });
    machines.iter().for_each(|machine| machine.signal(Signal::SIGCONT));
    machines.iter().for_each(|machine| machine.is("up"));
    until("the old copies are gone", || !old.values().any(|pid| processes::is_there(*pid)));

    machines.iter().for_each(|machine| machine.signal(Signal::SIGKILL));
    until("rescheduling is stopped", || cell.ok("bourg cell -o rescheduling.state") == "stopped\n");
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "eve", &authority, &Identity::User("eve".to_owned()));
    let said = cell.fails(3, "bourg --cell ./eve cell resume-rescheduling");
    assert!(said.contains("eve may not resume rescheduling: an administrator may"), "{said}");
    let ended = cell.types("bourg cell resume-rescheduling");
    assert!(ended.code == 0 && ended.stderr.contains("rescheduling resumed: "), "{ended:?}");
    assert!(
        ended.stderr.contains(" unreachable and will be marked down one by one\n"),
        "{ended:?}"
    );
    machines.iter().for_each(|machine| machine.is("down"));
    until("rescheduling is allowed", || cell.ok("bourg cell -o rescheduling.state") == "allowed\n");
    let text = cell.ok("bourg cell");
    assert!(text.contains("\nmachines      1 of 4 up, 3 down ("), "{text}");
    let events = cell.ok("bourg events --all");
    let resumed = events.lines().find(|line| line.contains("RESUME_RESCHEDULING"));
    assert!(resumed.is_some_and(|line| line.contains("root")), "{events}");
    let past = format!("bourg cell status --at {} -o rescheduling.state", index.trim());
    assert_eq!(cell.ok(&past), "stopped\n");
    machines.iter_mut().for_each(Machine::is_gone);
}
