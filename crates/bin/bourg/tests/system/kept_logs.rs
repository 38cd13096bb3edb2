//! The logs of ended tasks: kept in fair shares, and the errors for those that are not.

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::disk::{SmallDisk, program_mib};
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::Terminal;

#[test]
fn one_users_many_ends_do_not_take_anothers_logs() {
    // A disk with this few files keeps the logs of 60 tasks, and a twentieth of its bytes.
    let whole = (program_mib() + 120).next_multiple_of(20);
    let disk = SmallDisk::mount(whole - program_mib(), ",nr_inodes=6000");
    let cell = Cell::start_in(Terminal::new(), &disk.path("cell"), &[]);
    cell.write(
        "mine.bcl",
        "(import 'borg.libsonnet').batch('mine', cmd=['echo', 'worth to keep']) { priority: 'free' }",
    );
    cell.write(
        "many.bcl",
        "(import 'borg.libsonnet').batch('many', tasks=220, cmd=['echo', 'one of many'])
             { priority: 'free', cpu: 0.05, ram: '16 MiB' }",
    );
    cell.ok("bourg user add ana");
    cell.ok("bourg --cell ./ana run mine.bcl");
    cell.job("ana/mine", "is finished", |job| job["state"] == "finished");
    cell.ok("bourg run --detach many.bcl");
    cell.job("many", "is finished", |job| job["state"] == "finished");
    until("some of the many logs are not kept", || cell.types("bourg logs many").code != 0);
    // After another round, the excess is deleted.
    let kept = |line: &str| cell.types(line).stdout.lines().count();
    until("as many are kept as may be", || kept("bourg logs many") < 60);
    let said = cell.fails(1, "bourg logs many");
    for part in [
        "error: the logs of root/many/",
        " more of its tasks are not kept any more: on machine ",
        " UTC: the machine had the logs of more than 60 ended tasks, and root had the largest share",
        "next: bourg events many shows how its tasks ended",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(kept("bourg logs many") > 50, "what is there is shown all the same");
    assert_eq!(cell.ok("bourg --cell ./ana logs mine/0"), "worth to keep\n");
    assert!(cell.ok("bourg events many").contains("FINISH"));

    // Another process of the Borglet knows the bounds only.
    cell.kill(Role::Borglet);
    let text = format!(
        "a machine keeps the logs of ended tasks for 1 d unless their job says otherwise, of at \
         most 60 tasks and {} MiB in total",
        whole / 20
    );
    until("it says the bounds", || cell.types("bourg logs many").stderr.contains(&text));
}

#[test]
fn an_unresponsive_machine_does_not_suggest_starting_a_cell() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    processes::signal(borglet, Signal::SIGSTOP);
    let said = cell.fails(1, "bourg logs hello/0");
    processes::signal(borglet, Signal::SIGCONT);
    assert!(said.contains(" does not "), "{said}");
    assert!(!said.contains("bourg dev"), "{said}");
}

#[test]
fn log_retention_follows_the_settings_of_job_and_cell() {
    let cell = Cell::start();
    cell.write(
        "jobs.bcl",
        "local borg = import 'borg.libsonnet';
         local says(name) = borg.batch(name, cmd=['echo', name]);
         [
           says('usual'),
           says('short') { logs: { keep: '0s' } },
           says('long') { logs: { keep: '7d' } },
           borg.batch('wordy', cmd=['seq', '300000']) { logs: { max: '64 KiB', keep: '7d' } },
         ]",
    );
    let serves = |keep: &str| {
        format!(
            "(import 'borg.libsonnet').service('serves', cmd=['sh', '-c', 'echo up; exec sleep 10000'])
               {{ logs: {{ keep: '{keep}' }} }}"
        )
    };
    cell.write("serves.bcl", serves("0s"));
    cell.ok("bourg run --detach jobs.bcl");
    cell.ok("bourg run serves.bcl");
    for job in ["usual", "short", "long", "wordy"] {
        cell.job(job, "is finished", |job| job["state"] == "finished");
    }
    let gone = |job: &str| {
        let said = cell.types(&format!("bourg logs {job}"));
        said.code == 1 && said.stderr.contains(" UTC: logs of ended tasks are kept for 0 s")
    };
    until("the log of short is deleted", || gone("short"));
    assert_eq!(cell.ok("bourg logs usual"), "usual/0  usual\n");
    let kept = cell.ok("bourg logs wordy");
    let kept: Vec<&str> = kept.lines().filter_map(|line| line.strip_prefix("wordy/0  ")).collect();
    assert!(kept.ends_with(&["299999", "300000"]), "the newest");
    let bytes = kept.join("\n").len();
    assert!((8 << 10..=32 << 10).contains(&bytes), "{bytes} bytes");

    // Of a running task, in place; the cell's setting is for those whose job says nothing.
    let task = cell.tasks("serves")[&0];
    cell.write("serves.bcl", serves("7d"));
    let said = cell.ok("bourg plan serves.bcl");
    assert!(said.contains("logs keep 0 s → keep 7 d   in place, no restart"), "{said}");
    cell.ok("bourg update serves.bcl");
    assert_eq!(cell.tasks("serves")[&0], task);
    let said = cell.ok("bourg cell logs --keep 0s --max 1MiB --machine 2GiB");
    let shown = "\
logs                         unless their job says otherwise
kept after the end           0 s
of each task                 1 MiB
of ended tasks on a machine  2 GiB
";
    assert_eq!(said, shown);
    assert_eq!(cell.ok("bourg cell logs"), shown);
    until("the log of usual is deleted", || gone("usual"));
    cell.ok("bourg kill serves");
    assert_eq!(cell.ok("bourg logs serves"), "serves/0  up\n");
    assert_eq!(cell.ok("bourg logs long"), "long/0  long\n");
    let events = cell.ok("bourg events");
    assert!(events.contains("0 s, 1 MiB of each task, 2 GiB on each machine"), "{events}");

    let said = cell.fails(2, "bourg cell logs --keep 400d");
    assert!(said.contains("400 d is longer than logs can be kept: 365 d"), "{said}");
    cell.ok("bourg user add ana");
    let said = cell.fails(3, "bourg --cell ./ana cell logs --machine default");
    assert!(said.contains("ana may not set how long logs are kept"), "{said}");
    cell.write("bad.bcl", serves("7d").replace("keep: '7d'", "max: '1 KiB', keeps: '7d'"));
    let said = cell.fails(2, "bourg run bad.bcl");
    assert!(said.contains("'keeps' is not a field of a policy for logs"), "{said}");
}
