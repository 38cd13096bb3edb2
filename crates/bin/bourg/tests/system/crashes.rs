//! `kill -9` of the cell's processes at random times: tasks are not affected.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::http;
use crate::processes;
use crate::random::Random;

const ROLES: [Role; 3] = [Role::Master, Role::Scheduler, Role::Borglet];
/// How often each process is killed.
const ROUNDS: u32 = 20;

/// The pids of the tasks of both jobs of a busy cell.
type Pids = [BTreeMap<u32, i32>; 2];

fn pids(cell: &Cell) -> Pids {
    ["hello", "busy"].map(|job| cell.tasks(job))
}

/// Asserts that the tasks are unchanged.
#[track_caller]
fn are_there(cell: &Cell, before: &Pids, round: u32) {
    let now = pids(cell);
    if now != *before {
        let told = cell.types("bourg status hello; bourg status busy").stdout;
        panic!("in round {round} {before:?} became {now:?}\n{told}");
    }
}

/// A service and a batch job with long-running tasks.
fn busy_cell() -> (Cell, Pids) {
    let cell = Cell::start();
    cell.write(
        "busy.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('busy', tasks=2, cmd=['sh', '-c', 'while :; do date; sleep 0.2; done'])",
    );
    cell.ok("bourg run busy.bcl");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = pids(&cell);
    assert_eq!((before[0].len(), before[1].len()), (3, 2));
    (cell, before)
}

/// Asserts that everything works again: a new job is placed, runs and ends, and all others are
/// healthy.
#[track_caller]
fn works(cell: &Cell, round: u32) {
    let name = format!("probe-{round}");
    cell.write("probe.bcl", format!("(import 'borg.libsonnet').batch('{name}', cmd=['true'])"));
    until("a job can be submitted again", || cell.types("bourg run probe.bcl").code == 0);
    cell.job(&name, "is finished", |job| job["state"] == "finished");
    cell.is_healthy("hello");
    cell.is_healthy("busy");
}

#[test]
fn each_process_is_killed_at_random_moments() {
    let mut random = Random::new(3);
    let (cell, before) = busy_cell();
    for round in 0..ROUNDS {
        let first = usize::try_from(random.below(3)).expect("0, 1 or 2");
        for turn in 0..3 {
            random.moment(400);
            cell.kill(ROLES[(first + turn) % 3]);
            are_there(&cell, &before, round);
        }
        works(&cell, round);
        are_there(&cell, &before, round);
    }
    assert_eq!(cell.ok("bourg status hello -o tasks.2.generation"), "1\n", "all were adopted");
    assert_eq!(cell.ok("bourg status busy -o tasks.1.generation"), "1\n", "all were adopted");
}

#[test]
fn all_processes_are_killed_at_once_at_random_moments() {
    let mut random = Random::new(4);
    let (cell, before) = busy_cell();
    for round in 0..ROUNDS {
        random.moment(400);
        ROLES.iter().for_each(|role| cell.kill(*role));
        are_there(&cell, &before, round);
        works(&cell, round);
        are_there(&cell, &before, round);
    }
    assert_eq!(cell.ok("bourg status hello -o tasks.2.generation"), "1\n", "all were adopted");
}

#[test]
fn tasks_run_on_and_end_while_everything_is_dead() {
    let mut cell = Cell::start();
    cell.write(
        "ends.bcl",
        "local borg = import 'borg.libsonnet';
         local ends(name, how) = borg.batch(name, cmd=[
           'sh', '-c', 'echo waits; until [ -e $HOME/go ]; do sleep 0.1; done; ' + how
         ]) { restart: { failures: 0 } };
         [ends('seven', 'exit 7'), ends('nil', 'echo done'), ends('killed', 'kill -KILL $$')]",
    );
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.ok("bourg run ends.bcl");
    let addresses: Vec<String> = (0..3)
        .map(|task| cell.ok(&format!("bourg status hello -o tasks.{task}.ports.0.port")))
        .map(|port| format!("127.0.0.1:{}", port.trim()))
        .collect();
    let hello = cell.tasks("hello");
    // The supervisor is paused, so that nothing is restarted.
    let dev = cell.dev().pid();
    processes::signal(dev, Signal::SIGSTOP);
    ROLES.iter().for_each(|role| cell.kill(*role));
    for address in &addresses {
        let answer = http::get(address, "/").expect("an answer");
        assert!(answer.contains("hello from root/hello/"), "{answer}");
    }
    for job in ["seven", "nil", "killed"] {
        let pid = cell.tasks(job)[&0];
        let id = cell.instance_of(pid);
        cell.write(&format!("cell/borglet/tasks/{id}/home/go"), "");
        until("the task has ended", || !processes::is_there(pid));
    }
    processes::signal(dev, Signal::SIGCONT);
    let end = |job: &str| {
        let status = cell.job(job, "is dead", |job| {
            job["state"].as_str().is_some_and(|state| !["pending", "running"].contains(&state))
        });
        let task = &status["tasks"][0];
        format!("{} {}", status["state"], task["lastEndText"]).replace('"', "")
    };
    assert_eq!(end("seven"), "failed exit code 7");
    assert_eq!(end("nil"), "finished exit code 0");
    assert_eq!(end("killed"), "failed signal 9");
    until("it can be read", || cell.types("bourg logs nil/0").stdout == "waits\ndone\n");
    cell.is_healthy("hello");
    assert_eq!(cell.tasks("hello"), hello);
}

#[test]
fn a_task_is_lost_with_its_shim_and_restarted() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = cell.tasks("hello");
    let directory = cell.directory().join("borglet/tasks").join(cell.instance_of(before[&1]));
    let shim = processes::shim(&directory).expect("a task has a shim");
    processes::signal(shim, Signal::SIGKILL);
    let status = cell.job("hello", "has lost a task", |job| {
        job["tasks"][1]["generation"] == 2 && job["counts"]["healthy"] == 3
    });
    assert_eq!(status["tasks"][1]["lastEndText"], "lost: its shim died");
    assert!(!processes::is_there(before[&1]), "its program is gone with it");
    let after = cell.tasks("hello");
    assert_ne!(after[&1], before[&1]);
    assert_eq!((after[&0], after[&2]), (before[&0], before[&2]), "the others run on");
}

#[test]
fn a_task_that_cannot_be_adopted_never_runs_beside_its_successor() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = cell.tasks("hello");
    let tasks = cell.directory().join("borglet/tasks");
    let record = tasks.join(cell.instance_of(before[&1])).join("running.json");
    // The supervisor is paused, so that the Borglet is not restarted before everything is prepared.
    let dev = cell.dev().pid();
    processes::signal(dev, Signal::SIGSTOP);
    cell.kill(Role::Borglet);
    std::fs::write(record, "{").expect("a damaged record");
    // And one that was never started: the Borglet died after creating its directory.
    std::fs::create_dir(tasks.join("2-0-1")).expect("a task directory");
    processes::signal(dev, Signal::SIGCONT);
    let status = cell.job("hello", "has lost a task", |job| {
        job["tasks"][1]["generation"] == 2 && job["counts"]["healthy"] == 3
    });
    let end = status["tasks"][1]["lastEndText"].as_str().unwrap_or_default();
    assert!(end.starts_with("lost: its record cannot be read: "), "{end}");
    assert!(!processes::is_there(before[&1]), "its program is gone");
    let after = cell.tasks("hello");
    assert_eq!((after[&0], after[&2]), (before[&0], before[&2]), "the others run on");

    cell.write("next.bcl", "(import 'borg.libsonnet').batch('next', cmd=['true'])");
    cell.ok("bourg run next.bcl");
    let status = cell.job("next", "is finished", |job| job["state"] == "finished");
    assert_eq!(
        (&status["collection"], &status["tasks"][0]["generation"]),
        (&"2".into(), &1.into())
    );
}

#[test]
fn a_client_that_is_killed_can_do_it_again() {
    let mut random = Random::new(5);
    let cell = Cell::start();
    let hello = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/hello.bcl");
    for _ in 0..ROUNDS {
        let run = cell.start("bourg", &["run", hello]);
        random.moment(60);
        processes::signal(run.pid(), Signal::SIGKILL);
        run.ends();
    }
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    assert_eq!(cell.ok("bourg status -a -o name"), "root/hello\n");
    assert_eq!(cell.ok("bourg status hello -o collection"), "1\n", "it is the first and only job");
    assert_eq!(cell.ok("bourg status hello -o tasks.0.generation"), "1\n", "it was run once");
    assert_eq!(cell.tasks("hello").len(), 3);
}
