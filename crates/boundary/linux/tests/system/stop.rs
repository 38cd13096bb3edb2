//! Stopping tasks: with notice, by force, as a whole, and all at once.

use std::time::Instant;

use crate::support::{Tasks, wait_until};
use linux::logs::Stream;
use linux::record::ExitReason;
use linux::task::{Delivery, sweep};

#[test]
fn a_notice_is_delivered_and_a_graceful_end_is_seen() {
    let tasks = Tasks::new();
    let script = "trap 'echo got it; exit 3' TERM; echo up; while :; do sleep 0.02; done";
    let task = tasks.run("polite", script);
    task.wait_output("up");
    assert_eq!(task.directory.terminate().unwrap(), Delivery::Sent);
    assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 3 });
    assert_eq!(task.log(Stream::Stdout), "up\ngot it\n");
    assert_eq!(task.directory.terminate().unwrap(), Delivery::Gone);
}

#[test]
fn the_notice_ends_by_itself() {
    let tasks = Tasks::new();
    let mut launch = tasks.script("deaf", "trap '' TERM; echo up; while :; do sleep 0.02; done");
    launch.notice_ms = 300;
    let task = tasks.start("deaf", &launch);
    task.wait_output("up");
    let begin = Instant::now();
    task.directory.terminate().unwrap();
    assert_eq!(task.wait_end().reason, ExitReason::Signalled { signal: 9 });
    assert!(begin.elapsed().as_millis() >= 300);
}

#[test]
fn a_kill_takes_the_whole_tree() {
    let tasks = Tasks::new();
    // A daemon that has left its parent and session.
    let script = "(setsid sh -c 'trap \"\" TERM; echo up; sleep 1000' &) ; sleep 1000";
    let task = tasks.run("tree", script);
    task.wait_output("up");
    let mut before = task.cgroup.usage_reader().unwrap();
    before.read().unwrap();
    assert_eq!(task.directory.kill().unwrap(), Delivery::Sent);
    assert_eq!(task.wait_end().reason, ExitReason::Signalled { signal: 9 });
    assert!(!task.cgroup.exists(), "a group can only go when nothing is left in it");
}

#[test]
fn killing_again_while_the_shim_clears_up_is_no_error() {
    let tasks = Tasks::new();
    for round in 0..20 {
        let task = tasks.run(&format!("again-{round}"), "exec sleep 1000");
        while task.directory.kill().unwrap() == Delivery::Sent {}
        while task.directory.shim_pid().unwrap().is_some() {
            task.directory.kill().unwrap();
        }
        assert_eq!(task.wait_end().reason, ExitReason::Signalled { signal: 9 });
    }
}

#[test]
fn daemons_end_with_the_main_process() {
    let tasks = Tasks::new();
    let task = tasks.run("daemon", "(setsid sleep 1000 &); exit 5");
    assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 5 });
    assert!(!task.cgroup.exists());
}

#[test]
fn orphans_are_reaped() {
    let tasks = Tasks::new();
    let script = "i=0; while [ $i -lt 50 ]; do (sleep 0 &); i=$((i+1)); done
        while grep -sq '^State:.Z' /proc/[0-9]*/status; do :; done; echo clean";
    assert_eq!(
        tasks.output("orphans", script),
        (ExitReason::Exited { code: 0 }, "clean\n".to_owned())
    );
}

#[test]
fn a_sweep_ends_everything() {
    let tasks = Tasks::new();
    let polite = tasks.run("polite", "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done");
    let deaf = tasks.run("deaf", "trap '' TERM; echo up; while :; do sleep 0.02; done");
    let ended = tasks.run("ended", "exit 1");
    ended.wait_end();
    polite.wait_output("up");
    deaf.wait_output("up");
    // Long enough for the task with notice wherever this runs.
    let swept = sweep(tasks.base.path(), 4000).unwrap();
    assert_eq!(swept.stopped, ["deaf", "polite"]);
    assert_eq!(swept.killed, ["deaf"]);
    assert_eq!(swept.failed, []);
    assert_eq!(polite.wait_end().reason, ExitReason::Exited { code: 0 });
    assert_eq!(deaf.wait_end().reason, ExitReason::Signalled { signal: 9 });
    wait_until("the groups to be gone", || !deaf.cgroup.exists() && !polite.cgroup.exists());
}
