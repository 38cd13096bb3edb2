//! The leader dies in the middle of an update, of an undo, of a drain: the next goes on.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{WEB, each, least_healthy, machines, places, settled, told, write_web};
use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::processes;
use crate::replicas::Three;

/// Kills the leader as soon as the job's status shows something.
#[track_caller]
fn kills_the_leader(cell: &Three, when: &str, is_so: impl Fn(&Value) -> bool) {
    let leader = cell.leader();
    let dead = cell.pid(leader);
    cell.job(WEB, when, is_so);
    processes::signal(dead, Signal::SIGKILL);
    until("the one that was killed runs again", || cell.pid(leader) != dead);
}

/// How many tasks have a generation.
fn with(job: &Value, generation: u64) -> usize {
    // Without what is only there while others leave.
    each(job, "generation").iter().take(3).filter(|is| **is == generation).count()
}

#[test]
fn updates_undos_and_drains_continue_after_a_kill_of_the_leader() {
    let cell = Three::start_with(&["--machines", "3"]);
    let names = machines(&cell);
    // All of them on the first machine; each takes a moment to be healthy.
    cell.ok(&format!("bourg drain {} {}", names[1], names[2]));
    let slowly = "cmd: ['sh', '-c', 'sleep 0.3; exec bourg example-server --quiet --port ' + borg.port('http')],";
    write_web(&cell, 3, &format!("{slowly} update: {{ healthyFor: '300ms' }}"));
    cell.ok("bourg run web.bcl");
    cell.ok(&format!("bourg undrain {} {}", names[1], names[2]));
    assert_eq!(places(&cell), [(names[0].clone(), 3)].into());

    let follows = cell.start("bourg", &["update", "env.bcl"]);
    kills_the_leader(&cell, "is updated in part", |job| matches!(with(job, 2), 1 | 2));
    let ended = follows.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    let status = settled(&cell, 3);
    assert_eq!((each(&status, "version"), each(&status, "generation")), (vec![2; 3], vec![2; 3]));

    let follows = cell.start("bourg", &["update", "undo", "web"]);
    kills_the_leader(&cell, "is undone in part", |job| matches!(with(job, 3), 1 | 2));
    let ended = follows.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    let status = settled(&cell, 3);
    assert_eq!((each(&status, "version"), each(&status, "generation")), (vec![1; 3], vec![3; 3]));

    let follows = cell.start("bourg", &["drain", &names[0], "--by", "1h", "--reason", "old"]);
    kills_the_leader(&cell, "has left in part", |job| matches!(with(job, 4), 1 | 2));
    let ended = follows.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended.stderr.ends_with(&format!("{}: empty, safe to power off\n", names[0])),
        "{ended:?}"
    );
    let status = settled(&cell, 3);
    assert_eq!((each(&status, "version"), each(&status, "generation")), (vec![1; 3], vec![4; 3]));
    assert!(!places(&cell).contains_key(&names[0]));
    let shown = cell.ok(&format!("bourg machine show {}", names[0]));
    let has = |line: &str| line.split_whitespace().eq(["state", "drained"]);
    assert!(shown.lines().any(has) && shown.contains(" by root: old\n"), "{shown}");

    assert_eq!(least_healthy(&cell, 3), 2);
    for once in ["UPDATE_OPEN", "UPDATE_SUCCEED", "UPDATE_UNDO", "UPDATE_UNDONE"] {
        assert_eq!(told(&cell, once).len(), 1, "{once}");
    }
    assert_eq!(told(&cell, "FAIL"), [""; 0]);
    assert_eq!(told(&cell, "EVICT").len(), 9, "three tasks, three times");
}

#[test]
fn a_master_alone_goes_on_where_it_was_when_it_runs_again() {
    let cell = Cell::start();
    write_web(&cell, 3, "disruptions: { atOnce: 0 }, update: { healthyFor: '300ms' }");
    cell.ok("bourg run web.bcl");
    let follows = cell.start("bourg", &["update", "env.bcl"]);
    cell.job(WEB, "is updated in part", |job| matches!(with(job, 2), 1 | 2));
    cell.kill(Role::Master);
    let ended = follows.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    let status = settled(&cell, 3);
    assert_eq!((each(&status, "version"), each(&status, "generation")), (vec![2; 3], vec![2; 3]));
    assert_eq!(least_healthy(&cell, 3), 3);
    assert_eq!(told(&cell, "UPDATE_SUCCEED").len(), 1);
}
