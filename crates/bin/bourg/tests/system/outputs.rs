//! The outputs of ended tasks: kept by their machines, and fetched by their owners.

use std::fs;

use nix::sys::signal::Signal;

use crate::borglets::Machine;
use crate::cell::{Cell, Role};
use crate::eventually::until;

/// Three tasks that leave outputs, and what is none.
const RESULTS: &str = r"
local borg = import 'borg.libsonnet';
borg.batch('r', tasks=3, cmd=['sh', '-c', |||
  echo result $BORG_TASK > result.txt
  mkdir out
  echo $BORG_TASK > out/n
  echo x > scratch
|||]) { cpu: 0.02, ram: '16 MiB', restart: 'never', outputs: ['result.txt', 'out'] }";

fn read(cell: &Cell, path: &str) -> String {
    fs::read_to_string(cell.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn outputs_are_fetched_after_the_end_over_restarts_of_the_machine() {
    let cell = Cell::start();
    cell.write("r.bcl", RESULTS);
    cell.ok("bourg run --wait r.bcl");
    let said = cell.types("bourg cp r/1:result.txt got");
    assert_eq!((said.code, said.stderr.as_str()), (0, "copied 1 file, 9 B\n"));
    assert_eq!(read(&cell, "got"), "result 1\n");
    let said = cell.types("bourg results r --to all");
    assert_eq!((said.code, said.stderr.as_str()), (0, "fetched 3 tasks: 6 files, 33 B\n"));
    for task in 0..3 {
        assert_eq!(read(&cell, &format!("all/{task}/out/n")), format!("{task}\n"));
        assert!(!cell.path(&format!("all/{task}/scratch")).exists(), "it is no output");
    }
    let said = cell.types("bourg results r --to all");
    assert_eq!(said.stderr, "fetched 0 tasks: 0 files, 0 B; 3 were here\n");

    cell.kill(Role::Borglet);
    until("another process of the Borglet sends them", || {
        cell.types("bourg results r/0-1 --to again").code == 0
    });
    assert_eq!(read(&cell, "again/1/result.txt"), "result 1\n");
    assert!(!cell.path("again/2").exists(), "it was not asked for");
    cell.ok("bourg cp r/2:out/n . && bourg cp r/2:/home/task/out into");
    assert_eq!((read(&cell, "n"), read(&cell, "into/n")), ("2\n".to_owned(), "2\n".to_owned()));

    for (line, code, says) in [
        (
            "bourg cp r/1:scratch .",
            2,
            "'scratch' is no output of the task. The machine keeps only the outputs that its job names: out, \
             result.txt",
        ),
        ("bourg cp r/1:out/none .", 2, "the task has not left 'out/none'"),
        ("bourg cp r/1:../kept.json .", 2, "is no output of the task"),
        ("bourg cp got r/1:result.txt", 3, "does not run, it has ended"),
        ("bourg results r/3 --to all", 2, "r has tasks 0 to 2 only"),
        ("bourg results none --to all", 2, "none"),
        ("bourg results r --to got", 2, "cannot make the directory got"),
    ] {
        let said = cell.fails(code, line);
        assert!(said.contains(says), "{line}: {said}");
    }
    // Another user's.
    cell.ok("bourg user add ana");
    for line in [
        "bourg --cell ./ana cp root/r/1:result.txt .",
        "bourg --cell ./ana results root/r --to theirs",
    ] {
        let said = cell.types(line);
        assert_ne!(said.code, 0, "{line}");
        assert!(
            said.stderr.contains("ana may not fetch the outputs of root/r/"),
            "{}",
            said.stderr
        );
    }
    assert!(!cell.path("theirs/1").exists());

    // The same name is another job.
    cell.write("r.bcl", RESULTS.replace("result $BORG_TASK", "second $BORG_TASK"));
    cell.ok("bourg run --wait r.bcl && bourg results r --to all");
    assert_eq!(read(&cell, "all/0/result.txt"), "second 0\n");
}

#[test]
fn what_a_task_has_not_left_or_left_elsewhere_is_said() {
    let cell = Cell::start();
    cell.write(
        "jobs.bcl",
        r"local borg = import 'borg.libsonnet';
          local of(name, cmd) = borg.batch(name, tasks=2, cmd=['sh', '-c', cmd])
            { cpu: 0.02, ram: '16 MiB', restart: 'never' };
          [
            of('some', 'if [ $BORG_TASK = 1 ]; then echo x > result; else exit 4; fi') { outputs: ['result'] },
            of('links', 'mkdir out; echo x > out/n; ln -s /etc/shadow result; ln -s /etc way; ln -s n out/link')
              { outputs: ['result', 'out', 'way'] },
            of('no', 'echo x > result'),
            of('brief', 'echo x > result') { outputs: ['result'], keepOutputs: '1m' },
            of('runs', 'echo x > result; exec sleep 100000') { outputs: ['result'] },
          ]",
    );
    cell.ok("bourg run --detach jobs.bcl");
    for job in ["some", "links", "no", "brief"] {
        cell.job(job, "has ended", |job| job["state"] == "finished" || job["state"] == "failed");
    }
    cell.is_healthy("runs");
    let said = cell.types("bourg results some --to some");
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (0, "fetched 1 task: 1 file, 2 B\ntask 0 left nothing\n")
    );

    let said = cell.types("bourg results links/1 --to links");
    assert_eq!(said.code, 1, "{}", said.stderr);
    for part in
        ["task 1: skipped result: a link to what is not copied", "task 1: skipped way: a link"]
    {
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
    assert_eq!(read(&cell, "links/1/out/link"), "x\n");
    assert!(fs::symlink_metadata(cell.path("links/1/result")).is_err());
    let said = cell.fails(1, "bourg cp links/1:result shadow");
    assert!(said.contains("skipped result: a link"), "{said}");
    assert!(!cell.path("shadow").exists());
    cell.fails(2, "bourg cp links/1:way/shadow shadow");

    let said = cell.fails(2, "bourg cp no/0:result .");
    assert!(said.contains("outputs: ['result.txt', 'out']"), "{said}");
    let said = cell.fails(1, "bourg results runs --to runs");
    assert!(
        said.contains("error: tasks 0-1: still running; outputs are kept at the end"),
        "{said}"
    );
    cell.ok("bourg cp runs/0:result running");
    assert_eq!(read(&cell, "running"), "x\n");
    cell.ok("bourg kill runs");
    cell.job("runs", "is killed", |job| job["state"] == "killed");
    cell.ok("bourg results runs --to runs");
    assert_eq!(read(&cell, "runs/0/result"), "x\n");

    for (fields, says) in [
        ("outputs: ['/etc/shadow']", "is not the path of an output"),
        ("outputs: ['../x']", "is not the path of an output"),
        ("outputs: ['out', 'out/n']", "is in out, which is kept with all that is in it"),
        ("keepOutputs: '1h'", "the job has none"),
        ("outputs: ['out'], keepOutputs: '31d'", "must be 1 m to 30 d"),
    ] {
        cell.write("bad.bcl", format!("{{ name: 'bad', cmd: ['true'], {fields} }}"));
        let said = cell.fails(2, "bourg run bad.bcl");
        assert!(said.contains(says), "{fields}: {said}");
    }
}

#[test]
fn a_full_share_removes_the_oldest_of_its_user_only() {
    let cell = Cell::start();
    let first = cell.ok("bourg machines -o name");
    cell.ok(&format!("bourg machine drain {}", first.trim()));
    let mut keeper = Machine::start(&cell, "keeper");
    keeper.signal(Signal::SIGKILL);
    keeper.is_gone();
    keeper.start_with(&["--keep-outputs", "6MiB"]);
    keeper.is("up");
    let job = |name: &str, mib: u32| {
        format!(
            "(import 'borg.libsonnet').batch('{name}', cmd=['sh', '-c', 'head -c {mib}M /dev/zero > out'])
               {{ priority: 'free', ram: '32 MiB', outputs: ['out'] }}"
        )
    };
    cell.ok("bourg user add ana");
    cell.write("mine.bcl", job("mine", 1));
    cell.ok("bourg --cell ./ana run --wait mine.bcl");
    for name in ["one", "two", "three"] {
        cell.write("job.bcl", job(name, 2));
        cell.ok("bourg run --wait job.bcl");
    }
    until("the oldest of the user with most is removed", || {
        let said = cell.types("bourg cp one/0:out gone").stderr;
        said.contains("they were removed at ")
            && said.contains(" UTC: the outputs of ended tasks on the machine had more than 6 MiB")
    });
    cell.ok("bourg cp two/0:out two && bourg cp three/0:out three");
    cell.ok("bourg --cell ./ana cp mine/0:out mine");
    assert_eq!(fs::metadata(cell.path("mine")).expect("a file").len(), 1 << 20);

    // A machine that does not answer, and one that is gone.
    keeper.signal(Signal::SIGKILL);
    keeper.is_gone();
    let said = cell.fails(1, "bourg cp two/0:out again");
    assert!(said.contains("cannot be fetched now from machine keeper"), "{said}");
}
