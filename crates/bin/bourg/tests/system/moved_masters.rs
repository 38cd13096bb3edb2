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

/// A client directory of a user that lists the masters at these addresses only.
#[track_caller]
fn directory(cell: &Grown, to: &str, masters: &[&str]) {
    let masters = masters.iter().map(|at| format!(" --master {at}")).collect::<String>();
    cell.terminal.ok(&format!("bourg master certify user/ana --dir r1 --to {to}{masters}"));
}

#[test]
fn clients_follow_masters_that_move() {
    let (cell, first) = Grown::found(&[]);
    for to in ["one", "unused", "alone", "locked"] {
        directory(&cell, to, &[&cell.at[0]]);
    }
    cell.terminal.ok("echo 'learn = false' >> alone/cell.toml");
    cell.terminal.ok("bourg --cell one user add ben --dir ben");
    let second = cell.adds("r2", &cell.at[1]);
    cell.has_voters(2);
    let third = cell.adds("r3", &cell.at[2]);
    cell.has_voters(3);
    let all = cell.at.each_ref().map(String::as_str);

    // Any command learns, whichever service it calls. A file system that is read-only is no error.
    cell.terminal.ok("mount --bind locked locked && mount -o remount,bind,ro locked");
    for line in
        ["--cell one bns list", "--cell ben status", "--cell alone status", "--cell locked status"]
    {
        cell.terminal.ok(&format!("bourg {line}"));
    }
    cell.terminal.ok("umount locked");
    let learned = |of: &str| {
        let text = std::fs::read_to_string(cell.terminal.path(&format!("{of}/masters.toml")));
        text.map(|text| all.map(|at| text.split("masters").any(|part| part.contains(at))))
    };
    for of in ["one", "ben"] {
        assert_eq!(learned(of).ok(), Some([true; 3]), "{of}");
    }
    for of in ["unused", "alone", "locked"] {
        assert!(learned(of).is_err(), "{of}");
    }
    cell.terminal.ok("bourg --cell one user add cho --dir cho");
    let cho = std::fs::read_to_string(cell.terminal.path("cho/cell.toml")).expect("it is there");
    assert!(all.iter().all(|at| cho.contains(at)), "the current ones are handed out: {cho}");

    // The only master that these directories were given is gone for good.
    cell.ok("master remove 1");
    first.ends();
    cell.has_voters(2);
    for of in ["one", "ben", "cho"] {
        for line in ["status", "master list", "bns list"] {
            cell.terminal.ok(&format!("bourg --cell {of} {line}"));
        }
        assert!(
            !cell
                .terminal
                .ok(&format!("cat {of}/masters.toml"))
                .contains(&format!("masters = [\"{}\"", all[0]))
        );
    }
    for of in ["unused", "alone"] {
        let ended = cell.terminal.types(&format!("bourg --cell {of} status"));
        assert_eq!(ended.code, 6, "{}", ended.stderr);
        let says = format!("no master answers at {}, as {of}/cell.toml says: ", all[0]);
        assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    }

    // All are off: the error names all that were tried, and where they are from.
    for replica in [second, third] {
        kill(replica);
    }
    let ended = cell.terminal.types("bourg --cell one status");
    assert_eq!(ended.code, 6, "{}", ended.stderr);
    assert!(all.iter().all(|at| ended.stderr.contains(at)), "{}", ended.stderr);
    assert!(ended.stderr.contains("one/cell.toml or one/masters.toml"), "{}", ended.stderr);
}
