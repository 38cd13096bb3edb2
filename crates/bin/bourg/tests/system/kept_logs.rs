//! The logs of ended tasks: kept in fair shares, and the errors for those that are not.

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::disk::{SmallDisk, program_mib};
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::Terminal;

#[test]
fn one_users_many_ends_do_not_take_anothers_logs() {
    // A disk with this few files keeps the logs of 60 tasks.
    let disk = SmallDisk::mount(400 - program_mib(), ",nr_inodes=6000");
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
    let text =
        "a machine keeps the logs of ended tasks for 1 d, of at most 60 tasks and 20 MiB in total";
    until("it says the bounds", || cell.types("bourg logs many").stderr.contains(text));
}

#[test]
fn a_machine_that_does_not_answer_is_no_reason_to_start_a_cell() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    processes::signal(borglet, Signal::SIGSTOP);
    let said = cell.fails(1, "bourg logs hello/0");
    processes::signal(borglet, Signal::SIGCONT);
    assert!(said.contains(" does not "), "{said}");
    assert!(!said.contains("bourg dev"), "{said}");
}
