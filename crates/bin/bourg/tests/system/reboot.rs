//! A machine that loses power under a cell, and starts again.

use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::processes;

/// The file with the kernel's id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[test]
fn tasks_of_the_boot_before_are_lost_and_run_again() {
    let mut cell = Cell::start();
    cell.write(
        "ends.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('ends', cmd=['sh', '-c', 'echo waits; until [ -e $HOME/go ]; do sleep 0.1; done'])",
    );
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.ok("bourg run ends.bcl");
    let before = cell.tasks("hello");
    let groups: Vec<String> = before.values().map(|pid| cell.cgroup_of(*pid)).collect();

    // One more ends, and no process could report it to the master.
    let ends = cell.tasks("ends")[&0];
    let directory = cell.directory().join("borglet/tasks").join(cell.instance_of(ends));
    processes::signal(cell.pid(Role::Borglet).expect("it runs"), nix::sys::signal::SIGSTOP);
    std::fs::write(directory.join("home/go"), "").expect("a file for the task");
    until("its end is written down", || directory.join("exit.json").exists());
    cell.lose_power();
    for group in &groups {
        assert!(!processes::cgroups(group).is_empty(), "{group} was left behind");
    }

    cell.start_over(BOOT_ID, "00000000-0000-4000-8000-000000000000\n", &[]);
    let status = cell.job("hello", "is healthy again", |job| {
        job["tasks"][0]["generation"] == 2 && job["counts"]["healthy"] == 3
    });
    for task in 0..3 {
        let task = &status["tasks"][task];
        assert_eq!(task["lastEndText"], "lost: its machine was restarted", "{task}");
        assert_eq!(task["generation"], 2, "{task}");
        assert_eq!(task["failures"], 0, "it is not the task's failure: {task}");
    }
    assert!(cell.ok("bourg status hello").contains("lost: its machine was restarted"));
    let after = cell.tasks("hello");
    assert!(after.values().all(|pid| !before.values().any(|old| old == pid)), "{after:?}");
    for group in &groups {
        assert!(processes::cgroups(group).is_empty(), "{group} is still there");
    }
    // Tasks that had ended stay ended, even if nobody knew of it.
    cell.job("ends", "is finished", |job| job["state"] == "finished");
    assert_eq!(cell.ok("bourg status ends -o tasks.0.generation"), "1\n");
    assert_eq!(cell.ok("bourg status pi -o state"), "finished\n");
    assert_eq!(cell.ok("bourg logs hello/0 | grep -c listening"), "1\n", "the new incarnation's");
    assert_eq!(cell.ok("bourg logs ends/0"), "waits\n", "logs outlive a reboot");

    // The same again, with records that had not reached the disk, because they are not synced.
    let instances: Vec<String> = after.values().map(|pid| cell.instance_of(*pid)).collect();
    cell.lose_power();
    for (instance, record) in instances.iter().zip(["running.json", "launch.json", "lock"]) {
        let path = cell.directory().join("borglet/tasks").join(instance).join(record);
        std::fs::write(path, "").expect("a record that is torn");
    }
    cell.start_again(&[]);
    let status = cell.job("hello", "is healthy once more", |job| {
        job["counts"]["healthy"] == 3 && job["tasks"][0]["generation"] == 3
    });
    for task in 0..3 {
        let task = &status["tasks"][task];
        assert_eq!(task["generation"], 3, "{task}");
        assert!(
            task["lastEndText"].as_str().is_some_and(|end| end.starts_with("lost: ")),
            "{task}"
        );
    }
    assert_eq!(cell.tasks("hello").len(), 3, "nothing of an older incarnation runs");
    cell.stop();
}
