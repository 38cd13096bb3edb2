//! Jobs that end, jobs that fit nowhere, and killed jobs.

use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

#[test]
fn a_computation_ends_and_its_logs_stay() {
    let cell = Cell::start();
    let ended = cell.types("bourg run $EXAMPLES/batch.bcl");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("job  root/pi   4 tasks  "), "{}", ended.stderr);
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    assert_eq!(cell.ok("bourg status pi -o counts.finished"), "4\n");
    assert_eq!(cell.ok("bourg status pi -o counts.pending"), "0\n", "0 is a value as any other");
    let said = cell.ok("bourg status pi");
    assert!(said.contains("  4 of 4 finished  ") && !said.contains("healthy"), "{said}");
    assert_eq!(
        cell.ok("bourg status"),
        cell.ok("bourg status | head -1"),
        "the dead are not shown"
    );
    assert_eq!(cell.ok("bourg status -a -o name"), "root/pi\n");
    for seed in 0..4 {
        let said = cell.ok(&format!("bourg logs pi/{seed}"));
        assert!(said.starts_with(&format!("seed {seed}: π is about 3.1")), "{said}");
        assert!(cell.ok("bourg logs pi").contains(&format!("pi/{seed}  seed {seed}: ")));
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(cell.ok("bourg logs -f pi | wc -l").trim(), "4", "there is nothing to wait for");
}

#[test]
fn a_job_whose_end_is_waited_for_gives_its_exit_status() {
    let cell = Cell::start();
    let job = |name: &str, tasks: u32, cmd: &str| {
        let text = format!(
            "(import 'borg.libsonnet').batch('{name}', tasks={tasks}, cmd={cmd})
               {{ ram: '16 MiB', restart: {{ failures: 0 }} }}"
        );
        cell.write(&format!("{name}.bcl"), text);
    };
    let script = |text: &str| format!("['sh', '-c', '{text}']");
    let ended = cell.types("bourg run --wait $EXAMPLES/batch.bcl");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains(" · finished 4/4 "), "{}", ended.stderr);
    assert_eq!(cell.ok("bourg status pi -o counts.finished"), "4\n", "it has ended");

    for (name, tasks, cmd, status, says) in [
        ("seven", 1, script("echo oh; exit 7"), 7, "error: root/seven failed: task 0 exit code 7"),
        ("term", 1, script("kill -TERM $$"), 128 + 15, "task 0 signal 15"),
        ("eats", 1, "['tail', '/dev/zero']".to_owned(), 128 + 9, "task 0 out of memory"),
        ("none", 1, "['no-such-program']".to_owned(), 127, "task 0 not started: "),
        // The first failed one, when all have ended.
        (
            "some",
            3,
            script("sleep 0.${task.index}; exit ${task.index}"),
            1,
            "2 of 3 tasks failed (1-2), the first with: exit code 1",
        ),
    ] {
        job(name, tasks, &cmd);
        let said = cell.fails(status, &format!("bourg run --wait {name}.bcl"));
        assert!(said.contains(says), "{name}: {said}");
    }
    assert!(cell.ok("bourg status some").contains("1 of 3 finished, 2 failed"));
    let said = cell.types("bourg run --wait seven.bcl").stderr;
    assert!(said.contains("  | oh\n"), "what it wrote is shown: {said}");

    // Of several jobs the first failed one; the others are waited for, too.
    cell.ok("sed \"s/'seven'/'five'/; s/exit 7/sleep 0.5; exit 5/\" seven.bcl > five.bcl");
    cell.write("two.bcl", "[import 'five.bcl', import 'seven.bcl']");
    let said = cell.fails(5, "bourg run --wait two.bcl");
    assert!(said.contains("root/five failed") && said.contains("root/seven failed"), "{said}");

    job("long", 1, &script("sleep 1000"));
    let said = cell.fails(1, "bourg run --wait long.bcl --timeout 1s");
    assert!(said.contains("0 of 1 tasks of root/long are finished after 1 s"), "{said}");
    let waits = cell.start("bourg", &["run", "--wait", "long.bcl"]);
    until("it waits", || waits.stderr().contains("unchanged"));
    cell.ok("bourg kill long");
    let killed = waits.ends();
    assert_eq!(killed.code, 1, "{}", killed.stderr);
    assert!(killed.stderr.contains("error: root/long killed by root"), "{}", killed.stderr);
    cell.fails(2, "bourg run --wait --detach long.bcl");
}

#[test]
fn a_job_of_which_nothing_runs_any_more_is_pending() {
    let cell = Cell::start();
    cell.write(
        "crashes.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('crashes', tasks=2, cmd=['false'])
           { restart: { failures: 'unlimited', delay: '5m' } }",
    );
    cell.ok("bourg run crashes.bcl --detach");
    let job =
        cell.job("crashes", "waits for its next incarnation", |job| job["counts"]["pending"] == 2);
    assert_eq!(job["state"], "pending");
    let said = cell.ok("bourg status crashes");
    assert!(
        said.starts_with("root/crashes  pending  ") && said.contains("0 of 2 healthy"),
        "{said}"
    );
}

#[test]
fn a_task_that_fits_nowhere_stays_pending_and_why_explains_it() {
    let cell = Cell::start();
    let said = cell.fails(4, "bourg run $EXAMPLES/too-big.bcl --timeout 2s");
    assert!(said.contains("error: ") && said.contains("not placed within 2 s"), "{said}");
    assert!(said.contains("next: bourg why root/too-big"), "{said}");
    let why = cell.ok("bourg why too-big");
    assert!(why.starts_with("root/too-big: 1 of 1 task pending for "), "{why}");
    assert!(why.contains("of 1 machine  1 "), "{why}");
    assert!(why.contains("(1000 cores asked; "), "the nearest miss: {why}");
    assert_eq!(cell.ok("bourg why too-big -o groups.0.machines"), "1\n");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    assert_eq!(cell.ok("bourg why hello"), "root/hello: no task is pending\n");
    let why = cell.ok("bourg why hello --scores");
    assert!(why.starts_with(" scores of machines for task 0, lower is better:\n"), "{why}");
    assert!(why.contains(" = ") && why.contains("packing ") && why.contains("mixing "), "{why}");
    let weight = cell.ok("bourg why hello --scores 1 -o scores.0.terms.8.weight");
    assert_eq!(weight, "2\n", "of the packing");
    cell.ok("bourg kill too-big");
    assert_eq!(cell.ok("bourg status too-big -o state"), "killed\n");
}

#[test]
fn kill_asks_first_and_then_does_not() {
    let cell = Cell::start();
    cell.write(
        "two.bcl",
        r"local borg = import 'borg.libsonnet';
          local says(what) = ['sh', '-c', 'trap \'%s\' TERM; echo ready; while :; do sleep 0.1; done' % what];
          [
            borg.service('polite', cmd=says('echo goes; exit 0')),
            borg.service('deaf', tasks=2, cmd=says('echo stays')) { notice: '1s' },
          ]",
    );
    cell.ok("bourg run two.bcl");
    for task in ["polite/0", "deaf/0", "deaf/1"] {
        until("it listens to signals", || cell.ok(&format!("bourg logs {task}")) == "ready\n");
    }
    let polite = cell.types("bourg kill polite");
    assert_eq!((polite.code, polite.stderr.as_str()), (0, "root/polite: 1 task killed\n"));
    assert!(cell.ok("bourg logs polite/0").contains("\ngoes\n"), "it was asked");

    let pids = cell.tasks("deaf");
    cell.ok("bourg kill deaf/1");
    assert!(cell.ok("bourg logs deaf/1").contains("\nstays\n"), "it was asked first");
    assert!(!processes::is_there(pids[&1]), "it is gone");
    assert_eq!(cell.tasks("deaf"), [(0, pids[&0])].into(), "the other runs on");
    cell.ok("bourg kill deaf polite --timeout 30s");
    assert_eq!(cell.types("bourg kill deaf").stderr, "root/deaf: no task was alive\n");
    assert_eq!(cell.ok("bourg status -o name"), "");
}

#[test]
fn a_file_is_run_twice_and_a_changed_one_is_an_update() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let again = cell.types("bourg run $EXAMPLES/hello.bcl");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stderr.contains("  unchanged"), "{}", again.stderr);
    let index = cell.ok("bourg status hello -o tasks.0.generation");
    assert_eq!(index, "1\n", "nothing was restarted");

    cell.ok("sed 's/tasks=3/tasks=4/' $EXAMPLES/hello.bcl > changed.bcl");
    let more = cell.types("bourg run changed.bcl");
    assert_eq!(more.code, 0, "{}", more.stderr);
    assert!(more.stderr.contains("  updated: tasks 3 → 4\n"), "{}", more.stderr);
    assert_eq!(cell.ok("bourg status hello -o counts.healthy"), "4\n");
    let index = cell.ok("bourg status hello -o tasks.0.generation");
    assert_eq!(index, "1\n", "nothing was restarted");
}

/// Two thirds of the machine's CPU for each of two jobs.
#[test]
fn a_preempted_job_comes_back_after_the_more_important_one() {
    let cell = Cell::start();
    let milli: u64 =
        cell.ok("bourg machines -o capacity.cpuMilli").trim().parse().expect("a number");
    let job = |name: &str, priority: &str| {
        let cpu = milli * 2 / 3;
        let file = format!("{name}.bcl");
        let text = format!(
            "{{ name: '{name}', cmd: ['sleep', '1000'], cpuMilli: '{cpu}', notice: '1s', \
               priority: '{priority}' }}"
        );
        cell.write(&file, &text);
        cell.ok(&format!("bourg run {file}"));
    };
    job("spare", "free");
    job("web", "production");
    assert_eq!(cell.ok("bourg status web -o state"), "running\n");
    let events = cell.ok("bourg events spare");
    assert!(events.contains("EVICT"), "{events}");
    let why = cell.ok("bourg why spare");
    assert!(why.contains("preempted by root/web/0"), "{why}");
    cell.ok("bourg kill web");
    until("the less important one runs again", || {
        cell.ok("bourg status spare -o tasks.0.state") == "running\n"
    });
}
