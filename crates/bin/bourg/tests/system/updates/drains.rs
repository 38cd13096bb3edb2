//! Drains of machines: within budgets, until a time, and whatever happens meanwhile.

use nix::sys::signal::Signal;

use super::{WEB, each, least_healthy, machines, places, says, settled, write_web};
use crate::borglets::Machine;
use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::processes;

/// The flags of a master that soon marks machines unreachable.
const SOON: [&str; 4] = ["--poll-interval", "300ms", "--missed-polls", "2"];

#[test]
fn a_drain_blocked_by_a_budget_ends_unless_forced_to_evict() {
    let cell = Cell::start_with(&["--machines", "2"]);
    write_web(&cell, 2, "disruptions: { perHour: 0 }, update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    let names = machines(&cell);
    let (m, other) = (&names[0], &names[1]);
    assert_eq!(places(&cell).len(), 2);
    let pids = cell.tasks(WEB);
    let said = cell.fails(8, &format!("bourg drain {m} --by 2s --reason kernel"));
    let begun = format!(
        "simulated first: 0 tasks move, 1 waits; root/web has perHour: 0, which allows no \
         disruption\n{m}: draining\n"
    );
    assert!(said.starts_with(&begun), "{said}");
    assert!(said.contains(": waits (root/web allows no disruption)\n"), "{said}");
    let ended =
        format!("error: the drain ended at its time, and 1 task is still on {m}:\n  root/web/");
    assert!(said.contains(&ended), "{said}");
    assert!(said.contains(" (root/web allows no disruption)\nnext: bourg drain "), "{said}");
    let next = format!("next: bourg drain {m} --by TIME --force · bourg undrain {m}\n");
    assert!(said.ends_with(&next), "{said}");
    let shown = cell.ok(&format!("bourg machine show {m}"));
    assert!(shown.contains(", ended then with tasks left\n"), "{shown}");
    let told = cell.ok(&format!("bourg events --machine {m}"));
    assert!(told.contains("  DRAIN           kernel, by root\n"), "{told}");
    assert!(told.contains("  DRAIN_EXPIRED "), "{told}");
    assert_eq!(cell.tasks(WEB), pids, "nothing was stopped");

    let said = says(&cell, &format!("bourg drain {m} --by 1s --force"));
    assert!(said.ends_with(&format!("{m}: empty, safe to power off\n")), "{said}");
    assert_eq!(cell.ok(&format!("bourg machine show {m} -o state")), "drained\n");
    assert_eq!(cell.ok("bourg machines -o state"), "drained\nup\n");
    let status = cell.is_healthy(WEB);
    assert_eq!(each(&status, "generation").iter().sum::<u64>(), 3, "one was evicted: {status:#}");
    assert_eq!(places(&cell), [(other.clone(), 2)].into());
    // Nothing is placed there until it is undrained.
    cell.ok("bourg resize web 3 --timeout 30s");
    assert_eq!(places(&cell), [(other.clone(), 3)].into());
    assert_eq!(says(&cell, &format!("bourg undrain {m}")), format!("{m}: available again\n"));
    assert_eq!(cell.ok("bourg machines -o state"), "up\nup\n");
    assert_eq!(says(&cell, &format!("bourg undrain {m}")), format!("{m}: was not drained\n"));
}

#[test]
fn two_drains_of_one_jobs_machines_keep_its_budget_together() {
    let cell = Cell::start_with(&["--machines", "3"]);
    let names = machines(&cell);
    cell.ok(&format!("bourg drain {}", names[2]));
    write_web(&cell, 4, "");
    cell.ok("bourg run web.bcl");
    cell.ok(&format!("bourg undrain {}", names[2]));
    assert_eq!(places(&cell), [(names[0].clone(), 2), (names[1].clone(), 2)].into());
    let one = cell.start("bourg", &["drain", &names[0]]);
    let two = cell.start("bourg", &["drain", &names[1]]);
    for (drain, name) in [(one, &names[0]), (two, &names[1])] {
        let ended = drain.ends();
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(
            ended.stderr.ends_with(&format!("{name}: empty, safe to power off\n")),
            "{ended:?}"
        );
    }
    let status = settled(&cell, 4);
    assert_eq!(each(&status, "failures"), [0; 4]);
    assert_eq!(places(&cell), [(names[2].clone(), 4)].into());
    assert_eq!(least_healthy(&cell, 4), 3);
    // Both with one command, back to the first two.
    cell.ok(&format!("bourg undrain {} {}", names[0], names[1]));
    let said = says(&cell, &format!("bourg drain {} {}", names[2], names[1]));
    assert!(said.ends_with("all 2 machines are empty, safe to power off\n"), "{said}");
    settled(&cell, 4);
    assert_eq!(least_healthy(&cell, 4), 3);
}

#[test]
fn a_drain_goes_on_when_its_borglet_is_killed_and_runs_again() {
    let cell = Cell::start();
    let m = machines(&cell).remove(0);
    cell.write(
        "web.bcl",
        r"(import 'borg.libsonnet').service('web', cmd=[
            'sh', '-c', 'trap \'echo stays\' TERM; echo ready; while :; do sleep 0.1; done'
          ]) { notice: '5m' }",
    );
    cell.ok("bourg run web.bcl");
    until("it listens to signals", || cell.ok("bourg logs web/0") == "ready\n");
    let mut drain = cell.start("bourg", &["drain", &m]);
    until("the task is told", || drain.stderr().contains("root/web/0 is stopping"));
    let pid = cell.tasks(WEB)[&0];
    let borglet = cell.pid(Role::Borglet);
    cell.kill(Role::Borglet);
    until("another runs", || cell.pid(Role::Borglet).is_some_and(|now| Some(now) != borglet));
    assert_eq!(cell.tasks(WEB)[&0], pid, "the task goes on until its notice is over");
    assert_eq!(drain.code(), None);
    processes::signal(pid, Signal::SIGKILL);
    let ended = drain.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.ends_with(&format!("{m}: empty, safe to power off\n")), "{ended:?}");
    assert_eq!(cell.ok(&format!("bourg machine show {m} -o state")), "drained\n");
    let status = cell.status(WEB);
    assert_eq!(status["tasks"][0]["state"], "pending");
    assert_eq!(status["tasks"][0]["failures"], 0, "however it left");
}

#[test]
fn a_drain_does_not_hang_when_its_machine_vanishes() {
    let cell = Cell::start_with(&SOON);
    let first = machines(&cell).remove(0);
    let mut m2 = Machine::start(&cell, "m2");
    write_web(&cell, 2, "disruptions: { perHour: 0 }");
    cell.ok(&format!("bourg drain {first}; bourg run web.bcl; bourg undrain {first}"));
    assert_eq!(places(&cell), [("m2".to_owned(), 2)].into());
    // It cannot leave before its machine is silent, and then it is moved as from any that is lost.
    let mut drain = cell.start("bourg", &["drain", "m2"]);
    until("it waits", || drain.stderr().contains("root/web allows no disruption"));
    let old = m2.tasks(WEB);
    m2.signal(Signal::SIGSTOP);
    m2.is("down");
    let ended = drain.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    cell.is_healthy(WEB);
    assert_eq!(places(&cell), [(first.clone(), 2)].into());
    m2.signal(Signal::SIGCONT);
    until("the old copies are gone", || !old.values().any(|pid| processes::is_there(*pid)));
    m2.is("drained");

    // Dead.
    cell.ok(&format!(
        "bourg undrain m2; bourg drain {first} --by 1s --force; bourg undrain {first}"
    ));
    cell.is_healthy(WEB);
    assert_eq!(places(&cell), [("m2".to_owned(), 2)].into());
    drain = cell.start("bourg", &["drain", "m2", "--by", "1h"]);
    until("it waits", || drain.stderr().contains("root/web allows no disruption"));
    m2.signal(Signal::SIGKILL);
    let ended = drain.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    cell.is_healthy(WEB);
    assert_eq!(places(&cell), [(first, 2)].into());
    m2.is_gone();
    m2.start_again();
    m2.is("drained");
    until("none of it is left there", || m2.tasks(WEB).is_empty());
    cell.ok("bourg undrain m2");
    m2.is("up");
}
