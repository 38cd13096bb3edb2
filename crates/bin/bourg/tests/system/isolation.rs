//! Who gets the CPUs: whole cores, greedy tasks, tasks without slack.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};

/// Runs `busy` loops for ever.
const BUSY: &str = "for i in $(seq LOOPS); do while :; do :; done & done; wait";

/// A job of one task that runs a shell script for ever.
fn run(cell: &Cell, name: &str, script: &str, fields: &str) {
    let file = format!("{name}.bcl");
    let job = format!(
        "local borg = import 'borg.libsonnet';
         borg.batch('{name}', cmd=['sh', '-c', |||
           {script}
         |||]) {{ ram: '32 MiB', notice: '100ms', {fields} }}"
    );
    cell.write(&file, job);
    cell.ok(&format!("bourg run --detach {file}"));
}

fn runs(cell: &Cell, name: &str) {
    cell.job(name, "runs", |job| job["state"] == "running" && job["counts"]["starting"] != 1);
    until("its process is there", || cell.tasks(name).contains_key(&0));
}

/// The CPU time that a job's task has used, in milliseconds.
pub(crate) fn cpu_ms(cell: &Cell, name: &str) -> u64 {
    cpu_ns(&cell.cgroup_of(cell.tasks(name)[&0])) / 1_000_000
}

/// The CPU time of a cgroup, in nanoseconds.
pub(crate) fn cpu_ns(cgroup: &str) -> u64 {
    let places = ["cpuacct", "cpu,cpuacct"]
        .map(|tree| PathBuf::from("/sys/fs/cgroup").join(tree).join(cgroup));
    let mut texts =
        places.iter().filter_map(|place| fs::read_to_string(place.join("cpuacct.usage")).ok());
    texts.next().expect("a counter").trim().parse().expect("a number")
}

/// On how many CPUs a job's task may run, as it sees it, and on which.
fn seen(cell: &Cell, name: &str) -> (String, String) {
    let status = cell.ok(&format!("bourg exec {name}/0 -- cat /proc/self/status"));
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let count = cell.ok(&format!("bourg exec {name}/0 -- nproc"));
    (count.trim().to_owned(), list.expect("a list").trim().to_owned())
}

fn attribute(cell: &Cell, name: &str) -> String {
    let machine = cell.ok("bourg machines -o name");
    let shown = cell.ok(&format!("bourg machine show {} -o json", machine.trim()));
    let machine: Value = serde_json::from_str(&shown).expect("JSON");
    let found = machine["report"]["attributes"][name].as_str();
    found.or(machine["attributes"][name].as_str()).unwrap_or_default().to_owned()
}

const LS: &str = "appclass: 'latency-sensitive'";

#[test]
fn a_task_owns_its_whole_cores_and_others_wait_for_theirs() {
    let cell = Cell::start();
    assert_eq!(attribute(&cell, "cpu-isolation"), "shares+cpuset", "{}", cell.said());
    let cores: u64 = attribute(&cell, "exclusive-cores").parse().expect("a number");
    assert!(cores >= 1, "this machine has at least two cores");
    let sleep = "exec sleep 100000";
    run(&cell, "before", sleep, &format!("cpu: 0.1, {LS}"));
    runs(&cell, "before");
    let (all, _) = seen(&cell, "before");
    run(&cell, "own", sleep, &format!("cpu: {cores}, cores: 'exclusive', {LS}"));
    runs(&cell, "own");
    run(&cell, "batch", sleep, "cpu: 0.1");
    runs(&cell, "batch");
    let (count, own) = seen(&cell, "own");
    assert_eq!(count, cores.to_string());
    // The other one moved when the cores were taken.
    let (rest, shared) = seen(&cell, "before");
    assert_eq!(rest.parse::<u64>().ok(), all.parse::<u64>().ok().map(|all| all - cores));
    assert_ne!(own, shared);
    assert_eq!(seen(&cell, "batch").0, all, "batch runs everywhere");

    // A restarted Borglet continues with them, and they are given back at the end.
    let borglet = cell.pid(Role::Borglet);
    cell.kill(Role::Borglet);
    until("another Borglet answers", || {
        cell.pid(Role::Borglet).is_some_and(|pid| Some(pid) != borglet)
            && cell.types("bourg exec own/0 -- nproc").code == 0
    });
    assert_eq!((seen(&cell, "own").1, seen(&cell, "before").1), (own, shared));
    cell.ok("bourg kill own");
    until("they are shared again", || seen(&cell, "before").0 == all);
}

#[test]
fn whole_cores_run_out_before_cpu_does_and_why_says_so() {
    let cell = Cell::start();
    let cores = attribute(&cell, "exclusive-cores");
    let sleep = "exec sleep 100000";
    run(&cell, "own", sleep, &format!("cpu: {cores}, cores: 'exclusive', {LS}"));
    runs(&cell, "own");
    let own = seen(&cell, "own").1;
    // The one core that is left is always shared.
    run(&cell, "next", sleep, &format!("cpu: 1, cores: 'exclusive', {LS}"));
    let why = eventually("it is explained", || {
        let said = cell.ok("bourg why next");
        said.contains("whole cores").then_some(said)
    });
    assert!(why.contains("1 asked; ") && why.contains("has 0 free of the"), "{why}");
    cell.ok("bourg kill own");
    runs(&cell, "next");
    let next = seen(&cell, "next").1;
    assert!(own.contains(&next), "the last of those that were given back: {next} of {own}");
}

#[test]
fn a_wrong_wish_for_cores_is_rejected_where_it_is_written() {
    let cell = Cell::start();
    let wrong = |fields: &str| {
        let job = format!("{{ name: 'x', cmd: ['true'], {fields} }}");
        cell.write("wrong.bcl", job);
        let ended = cell.types("bourg run wrong.bcl");
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        ended.stderr
    };
    let said = wrong("cores: 'exclusive', cpu: 1");
    assert!(said.contains("for latency-sensitive tasks only"), "{said}");
    let said = wrong(&format!("cores: 'exclusive', cpu: 0.5, {LS}"));
    assert!(said.contains("must be a whole number of cores"), "{said}");
    let said = wrong(&format!("cores: 'exclusiv', {LS}"));
    assert!(said.contains("'exclusive'"), "{said}");
}

#[test]
fn a_greedy_task_does_not_starve_batch() {
    let cell = Cell::start();
    let busy = |loops: &str| BUSY.replace("LOOPS", loops);
    run(&cell, "batch", &busy("1"), "cpu: 0.5");
    runs(&cell, "batch");
    // On every CPU, and above its limit even if other programs of this host take most of them.
    run(&cell, "greedy", &busy("$(nproc)"), &format!("cpu: 0.05, {LS}"));
    runs(&cell, "greedy");
    let log = || cell.said();
    until("it is capped", || log().contains("greedy/0 generation 1 is capped at "));
    let capped = log();
    let line = capped.lines().find(|line| line.contains("is capped at")).expect("a line");
    assert!(
        line.contains("more than its limit of 0.05 cores") && line.contains("starved for"),
        "{line}"
    );
    let (begin, before) = (Instant::now(), cpu_ms(&cell, "batch"));
    // For ten seconds it has a tenth of the machine, or what other programs leave of that.
    until("batch has its share", || cpu_ms(&cell, "batch") > before + 300);
    println!("300 ms of CPU in {:?}", begin.elapsed());
    // It is lifted after ten seconds, or later if other programs of this host starve batch, too.
    let cgroup = cell.cgroup_of(cell.tasks("greedy")[&0]);
    let quota = PathBuf::from("/sys/fs/cgroup/cpu").join(cgroup).join("cpu.cfs_quota_us");
    let quota = || fs::read_to_string(&quota).expect("it runs").trim().to_owned();
    cell.ok("bourg kill batch");
    until("the cap is lifted", || quota() == "-1");
}

#[test]
fn a_task_without_slack_stays_at_its_limit() {
    let cell = Cell::start();
    run(&cell, "steady", &BUSY.replace("LOOPS", "1"), &format!("cpu: 0.2, cpuSlack: false, {LS}"));
    runs(&cell, "steady");
    until("it has begun", || cpu_ms(&cell, "steady") > 100);
    let (begin, before) = (Instant::now(), cpu_ms(&cell, "steady"));
    until("a second of CPU", || cpu_ms(&cell, "steady") >= before + 1_000);
    let used = (cpu_ms(&cell, "steady") - before) as f64 / begin.elapsed().as_millis() as f64;
    println!("{used:.3} cores of 0.2");
    assert!(used < 0.22, "{used}");
    // Other programs of this host may leave it less than its limit: then there is nothing to throttle.
    eventually("the throttling is shown, or the machine is busy", || {
        let (begin, before) = (Instant::now(), cpu_ms(&cell, "steady"));
        until("more CPU", || cpu_ms(&cell, "steady") >= before + 400);
        let used = (cpu_ms(&cell, "steady") - before) as f64 / begin.elapsed().as_millis() as f64;
        let usage = cell.ok("bourg usage steady -o json");
        let usage: Value = serde_json::from_str(&usage).expect("JSON");
        let throttled = usage["tasks"][0]["used"]["throttledPermille"].as_u64();
        println!("{used:.3} cores, {throttled:?} of 1,000 periods throttled");
        (throttled > Some(300) || used < 0.18).then_some(())
    });
}
