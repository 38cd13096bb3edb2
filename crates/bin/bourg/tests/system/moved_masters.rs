//! A cell whose masters move to other addresses: machines and schedulers learn where they are from
//! the masters that they deal with.

use nix::sys::signal::Signal;

use crate::enrolment::free_address;
use crate::eventually::until;
use crate::grown::Grown;
use crate::processes;
use crate::terminal::Background;

/// A job whose task gets a certificate of its own from a master.
const CALLS: &str = "(import 'borg.libsonnet').service('NAME', cmd=['sleep', '1000000']) { api: true, priority: 'free' }";

fn kill(of: Background) {
    processes::signal(of.pid(), Signal::SIGKILL);
    of.ends();
}

#[track_caller]
fn runs(cell: &Grown, name: &str) {
    cell.terminal.write("calls.bcl", CALLS.replace("NAME", name));
    cell.ok("run --detach calls.bcl");
    let healthy = format!("status {name} -o counts.healthy");
    until(&format!("{name} runs"), || cell.types(&healthy).stdout == "1\n");
}

fn borglet(cell: &Grown, at: &str, more: &[&str]) -> Background {
    let flags = ["borglet", "--dir", "m1", "--listen", at, "--stop-tasks"];
    cell.terminal.start("bourg", &[&flags[..], more].concat())
}

fn scheduler(cell: &Grown) -> Background {
    let flags = ["scheduler", "--credentials", "s", "--master", &cell.at[0]];
    cell.terminal.start("bourg", &flags)
}

#[test]
fn machines_and_schedulers_follow_masters_that_move() {
    let (cell, first) = Grown::found(&[]);
    cell.terminal.ok("bourg master certify scheduler/main --dir r1 --to s");
    let schedules = scheduler(&cell);
    cell.terminal.write("token", cell.ok("machine token m1"));
    let at = free_address();
    let machine = borglet(&cell, &at, &["--join", "@token"]);
    runs(&cell, "before");

    // The only replica is replaced by one at another address.
    let _second = cell.adds("r2", &cell.at[1]);
    cell.has_voters(2);
    cell.ok("master remove 1");
    first.ends();
    cell.has_voters(1);
    runs(&cell, "after");

    // What they learned outlives their processes.
    let kept = |file: &str| std::fs::read_to_string(cell.terminal.path(file)).unwrap_or_default();
    for file in ["m1/joined.toml", "s/joined.toml"] {
        let is_new = || kept(file).contains(&cell.at[1]) && !kept(file).contains(&cell.at[0]);
        until(&format!("{file} has the new address alone"), is_new);
    }
    kill(schedules);
    let schedules = scheduler(&cell);
    runs(&cell, "with-another-scheduler");
    kill(machine);
    let machine = borglet(&cell, &at, &[]);
    until("the machine is up", || cell.types("machine show m1 -o state").stdout == "up\n");
    runs(&cell, "with-another-borglet");

    // They say which masters they use.
    let says = format!("the masters are at {}", cell.at[1]);
    for process in [machine, schedules] {
        assert!(process.stderr().contains(&says), "{}", process.stderr());
        kill(process);
    }
}
