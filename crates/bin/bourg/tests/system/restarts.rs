//! Tasks that are started again: services whatever their end, what a user restarts, and what crashes again
//! and again.

use crate::cell::Cell;

/// A service of that many tasks whose program ends with 0 when it is asked to.
fn service(cell: &Cell, name: &str, tasks: u32) {
    let text = format!(
        "(import 'borg.libsonnet').service('{name}', tasks={tasks}, cmd=[
           'sh', '-c', 'trap \"exit 0\" TERM; while :; do sleep 0.1; done'
         ]) {{ ram: '16 MiB', cpu: 0.05, update: {{ healthyFor: '0s' }} }}"
    );
    cell.write(&format!("{name}.bcl"), text);
    cell.ok(&format!("bourg run {name}.bcl"));
}

fn lines(cell: &Cell, job: &str, event: &str) -> usize {
    let said = cell.ok(&format!("bourg events {job}"));
    said.lines().filter(|line| line.contains(&format!(" {event} "))).count()
}

#[test]
fn a_service_is_started_again_however_it_ends() {
    let cell = Cell::start();
    service(&cell, "zero", 2);
    cell.ok("bourg exec zero/0 -- kill -TERM 2");
    let status = cell.job("zero", "runs again", |job| {
        job["tasks"][0]["generation"] == 2 && job["counts"]["healthy"] == 2
    });
    assert_eq!(status["tasks"][0]["lastEndText"], "exit code 0");
    assert_eq!(status["tasks"][1]["generation"], 1);

    // An update to what ends at once fails, and is undone.
    cell.write("ends.bcl", "(import 'zero.bcl') { cmd: ['true'], update: { healthyFor: '5s' } }");
    let said = cell.fails(5, "bourg update ends.bcl");
    assert!(said.contains("task 2 (started first): exit code 0"), "{said}");
    cell.job("zero", "is as before", |job| job["counts"]["healthy"] == 2);
}

#[test]
fn a_restart_covers_running_and_ended_tasks() {
    let cell = Cell::start();
    service(&cell, "web", 3);
    let before = cell.tasks("web");
    let said = cell.types("bourg restart web");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("restarted: 3/3 tasks in "), "{}", said.stderr);
    let after = cell.tasks("web");
    assert!((0..3).all(|index| before[&index] != after[&index]), "{before:?} {after:?}");
    assert_eq!(lines(&cell, "web", "FAIL"), 0);

    let said = cell.types("bourg kill web/1");
    assert!(said.stderr.contains("root/web: 1 task killed\n"), "{}", said.stderr);
    let note = "note: it does not come back by itself: bourg restart root/web/1 starts it again\n";
    assert!(said.stderr.contains(note), "{}", said.stderr);
    let said = cell.types("bourg restart web/1");
    assert_eq!(said.stderr, "root/web/1: 1 task starts again\n");
    let last = cell.tasks("web");
    assert_eq!((last[&0], last[&2]), (after[&0], after[&2]), "the others run on");
    assert_eq!(cell.ok("bourg status web -o counts.healthy"), "3\n");

    // A job that has ended lives again.
    cell.ok("bourg kill web");
    let said = cell.types("bourg restart web");
    assert_eq!(said.stderr, "root/web: 3 tasks start again\n");
    assert_eq!(cell.ok("bourg status web -o counts.healthy"), "3\n");
    assert!(cell.fails(2, "bourg restart web/7").contains("tasks 0 to 2 only"));
    assert!(cell.fails(2, "bourg restart nothing").contains("nothing"));
}

#[test]
fn only_failed_tasks_of_a_batch_job_start_again() {
    let cell = Cell::start();
    cell.write(
        "odd.bcl",
        "(import 'borg.libsonnet').batch('odd', tasks=6, cmd=[
           'sh', '-c', 'exit $((${task.index} % 2 * 4))'
         ]) { ram: '16 MiB', cpu: 0.05, restart: 'never' }",
    );
    let said = cell.fails(4, "bourg run --wait odd.bcl");
    let error = "error: root/odd failed: 3 of 6 tasks failed (1,3,5), the first with: exit code 4";
    assert!(said.contains(error), "{said}");
    assert!(said.contains("bourg restart root/odd --failed"), "{said}");
    assert_eq!(
        cell.types("bourg restart odd/0-2 --failed").stderr,
        "root/odd/0-2: 1 task starts again\n"
    );
    // How often each task has run, when all have ended.
    let ran = |times: [u64; 6]| {
        let job = cell.job("odd", "has failed again", |job| {
            let tasks = job["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
            let generations = tasks.iter().map(|task| task["generation"].as_u64());
            job["state"] == "failed" && generations.eq(times.map(Some))
        });
        assert_eq!(job["counts"]["finished"], 3, "the results of the others stay");
    };
    ran([1, 2, 1, 1, 1, 1]);
    cell.ok("bourg restart odd --failed");
    ran([1, 3, 1, 2, 1, 2]);
    cell.ok("bourg restart odd");
    ran([2, 4, 2, 3, 2, 3]);
    let said = cell.types("bourg restart odd/0 --failed");
    assert_eq!((said.code, said.stderr.as_str()), (0, "root/odd/0: no task has failed for good\n"));
}

#[test]
fn a_task_that_crashes_again_and_again_evicts_another_once() {
    let cell = Cell::start();
    let cores = std::thread::available_parallelism().expect("the number of cores").get();
    cell.write(
        "jobs.libsonnet",
        format!(
            "local borg = import 'borg.libsonnet';
             {{
               low: borg.batch('low', cmd=['sleep', '1000']) {{
                 priority: 'free', cpu: {cores} - 0.5, ram: '16 MiB', notice: '1s',
               }},
               high: borg.service('high', cmd=['sh', '-c', 'exit 1']) {{
                 cpu: {cores} - 0.5, ram: '16 MiB', restart: {{ delay: '1s', delayMax: '1s' }},
               }},
             }}"
        ),
    );
    cell.write("low.bcl", "(import 'jobs.libsonnet').low");
    cell.write("high.bcl", "(import 'jobs.libsonnet').high");
    cell.ok("bourg run low.bcl");
    cell.ok("bourg run --detach high.bcl");
    cell.job("high", "has failed five times", |job| {
        job["tasks"][0]["failures"].as_u64() >= Some(5)
    });
    assert_eq!(lines(&cell, "low", "EVICT"), 1);
    assert_eq!(lines(&cell, "low", "START"), 1);
    // Events name the other job, for people and for programs.
    assert!(cell.ok("bourg events low").contains("preempted by root/high/0"));
    let json = cell.ok("bourg events low -o json");
    assert!(json.contains("\"relatedJob\": \"high\"") || json.contains("\"relatedJob\":\"high\""));
    // Between two attempts, the room is kept.
    let kept = "keeps the room for a task of higher priority that is retried soon";
    crate::eventually::until("it says why", || {
        let why = cell.ok("bourg why low");
        why.contains(kept) && why.contains("root/high/0")
    });
    cell.ok("bourg kill high");
    cell.job("low", "runs again", |job| job["counts"]["running"] == 1);
}
