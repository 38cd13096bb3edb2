//! One job on machines of two platforms: limits, usage and reservations in the cell's cores.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::isolation::cpu_ns;
use crate::processes;
use crate::reclamation::{FAST, milli};

/// Two tasks that would each keep one core busy, on one machine each, within one limit.
const BURN: &str = "
    local borg = import 'borg.libsonnet';
    borg.batch('burn', tasks=2, cmd=['sh', '-c', 'while :; do :; done'])
      { cpu: 0.5, cpuSlack: false, ram: '32 MiB', notice: '100ms',
        appclass: 'latency-sensitive', maxPerMachine: { tasks: 1, hard: true } }
";

/// `bourg usage burn` as JSON: the task on each machine, by the machine's name.
fn usage(cell: &Cell) -> BTreeMap<String, Value> {
    let usage = cell.ok("bourg usage burn -o json");
    let usage: Value = serde_json::from_str(&usage).expect("JSON");
    let tasks = usage["tasks"].as_array().cloned().unwrap_or_default();
    let name = |task: &Value| task["machine"].as_str().unwrap_or_default().to_owned();
    tasks.into_iter().map(|task| (name(&task), task)).collect()
}

/// The CPU time of a task by the windows of its usage: seconds of the cell's cores.
fn core_seconds(cell: &Cell, index: u32) -> f64 {
    let usage = cell.ok("bourg usage burn --since 1h -o json");
    let usage: Value = serde_json::from_str(&usage).expect("JSON");
    let windows = usage["tasks"][index as usize]["windows"].as_array().cloned();
    let seconds = |window: &Value| {
        let length = window["window"]["length"].as_str().expect("a span").trim_end_matches('s');
        let length: f64 = length.parse().expect("a number");
        milli(&window["window"]["average"]) as f64 / 1_000.0 * length
    };
    windows.unwrap_or_default().iter().map(seconds).sum()
}

/// The column of a table, by the machine that a line names.
#[track_caller]
fn column(table: &str, heading: &str, machines: [&str; 2]) -> [String; 2] {
    let mut lines = table.lines().skip_while(|line| !line.contains(heading));
    let at = lines.next().and_then(|line| line.find(heading)).expect("a column");
    let lines: Vec<&str> = lines.collect();
    machines.map(|machine| {
        let line = lines.iter().find(|line| line.split_whitespace().any(|word| word == machine));
        let line = line.unwrap_or_else(|| panic!("{machine} is not in\n{table}"));
        line[at..].split_whitespace().next().unwrap_or_default().to_owned()
    })
}

/// A file of the cgroup of a task's CPU.
fn cpu_file(cgroup: &str, name: &str) -> u64 {
    let file = PathBuf::from("/sys/fs/cgroup/cpu").join(cgroup).join(name);
    fs::read_to_string(file).expect("it runs").trim().parse().expect("a number")
}

#[test]
fn limits_and_usage_are_converted_to_the_cores_of_each_platform() {
    let cell = Cell::start_with(&FAST);
    cell.ok("bourg cell reclaim aggressive");
    let new = cell.ok("bourg machines -o name").trim().to_owned();
    let old = Machine::start(&cell, "old");
    let machines = [new.as_str(), "old"];
    // Two Borglets of one host: an operator says that the processor of one is another.
    cell.ok("bourg machine set old platform='Old CPU'");
    cell.ok("bourg machine platform 'Old CPU' 0.25");
    let text = cell.ok("bourg machine show old");
    assert!(text.contains("counts as 0.25 of the cell's cores (platform Old CPU)\n"), "{text}");
    let capacity = column(&cell.ok("bourg machines -o wide"), "  CPU  ", machines)
        .map(|cores| cores.parse::<f64>().expect("cores"));
    println!("capacities {capacity:?}");
    assert!((capacity[1] - 0.25 * capacity[0]).abs() < 1e-9, "{capacity:?}");
    assert!(capacity[0] >= 2.0, "this machine has at least two cores");

    cell.write("burn.bcl", BURN);
    cell.ok("bourg run burn.bcl");
    let (on_new, on_old) = (cell.tasks("burn"), old.tasks("burn"));
    let of_old = linux::cgroup::parent_name(old.directory());
    let tasks = [&on_new, &on_old].map(|tasks| tasks.first_key_value().expect("one on each"));
    let (indexes, pids) = (tasks.map(|(index, _)| *index), tasks.map(|(_, pid)| *pid));
    let cgroups =
        [cell.cgroup_of(pids[0]), processes::cgroup_of(&of_old, pids[1]).expect("it is a task's")];
    let enforced = |file: &str| cgroups.each_ref().map(|cgroup| cpu_file(cgroup, file));
    // Half of one of the cell's cores is two of the old ones.
    assert_eq!(enforced("cpu.cfs_period_us"), [100_000, 100_000]);
    assert_eq!(enforced("cpu.cfs_quota_us"), [50_000, 200_000]);
    assert_eq!(enforced("cpu.shares"), [512, 2_048]);
    let limits = column(&cell.ok("bourg status burn -o wide"), "CPU LIMIT", machines);
    assert_eq!(limits, ["0.5", "0.5"]);
    let taken = column(&cell.ok("bourg machines -o wide"), "CPU LIMITS", machines);
    assert_eq!(taken, ["0.5", "0.5"]);

    // On the old machine a core is busy, and on the other one half of one, or what other programs of this
    // host leave of them.
    let used = || {
        let tasks = usage(&cell);
        machines.map(|machine| milli(&tasks[machine]["used"]) as f64 / 1_000.0)
    };
    until("both are measured", || used().iter().all(|used| *used > 0.0));
    let kernel = || cgroups.each_ref().map(|cgroup| cpu_ns(cgroup) as f64);
    let (cores, cells) = eventually("usage is what the kernel counts, by the factor", || {
        let (begun, before) = (std::time::Instant::now(), kernel());
        let mut samples: Vec<[f64; 2]> = Vec::new();
        until("there are six samples", || {
            let now = used();
            if samples.last() != Some(&now) {
                samples.push(now);
            }
            samples.len() >= 6
        });
        let passed = begun.elapsed().as_nanos() as f64;
        let after = kernel();
        let cores = [0, 1].map(|machine| (after[machine] - before[machine]) / passed);
        let average = |of: usize| samples.iter().map(|s| s[of]).sum::<f64>() / samples.len() as f64;
        let cells = [average(0), average(1)];
        println!("{cores:.3?} cores by the kernel, {cells:.3?} of the cell's");
        let factors = [cells[0] / cores[0], cells[1] / cores[1]];
        let right = (factors[0] - 1.0).abs() < 0.1 && (factors[1] / 0.25 - 1.0).abs() < 0.1;
        right.then_some((cores, cells))
    });
    println!("{cores:.3?} cores are {cells:.3?} of the cell's");
    until("the status of the job shows the same", || {
        let shown = column(&cell.ok("bourg status burn -o wide"), "CPU USED", machines);
        shown == used().map(|used| used.to_string())
    });
    // Both measure this host: as machines they use the same cores.
    until("so do machines", || {
        let shown = column(&cell.ok("bourg machines -o wide"), "CPU USED", machines);
        let [new, old] = shown.map(|cores| cores.parse::<f64>().unwrap_or(0.0));
        new > 0.0 && (old / new / 0.25 - 1.0).abs() < 0.1
    });

    // Reservations follow what is used in the cell's cores.
    let reserved = eventually("reservations are a little above the usage", || {
        let tasks = usage(&cell);
        let found = machines.map(|machine| {
            let task = &tasks[machine];
            (milli(&task["used"]) as f64, milli(&task["reservation"]) as f64)
        });
        let right = |(used, reserved): &(f64, f64)| {
            *used > 0.0 && *reserved >= *used && *reserved <= used * 1.2 + 60.0
        };
        found.iter().all(right).then_some(found)
    });
    println!("used and reserved, in thousandths: {reserved:?}");

    // The factor changes while they run.
    cell.ok("bourg machine platform 'Old CPU' 0.5");
    until("the limit is one of the old cores", || {
        enforced("cpu.cfs_quota_us") == [50_000, 100_000] && enforced("cpu.shares") == [512, 1_024]
    });
    cell.ok("bourg machine platform 'Old CPU' 0.25");
    until("as before", || enforced("cpu.cfs_quota_us") == [50_000, 200_000]);
    assert_eq!((cell.tasks("burn"), old.tasks("burn")), (on_new, on_old), "none restarted");

    // What has ended counts in the same way.
    pids.iter().for_each(|pid| processes::signal(*pid, Signal::SIGSTOP));
    let mut last = [0.0; 2];
    until("they are stopped", || std::mem::replace(&mut last, kernel()) == last);
    cell.ok("bourg kill burn");
    for (index, factor, kernel) in [(indexes[0], 1.0, last[0]), (indexes[1], 0.25, last[1])] {
        let kernel = kernel / 1e9;
        let counted = eventually("the windows have all of it, by the factor", || {
            let counted = core_seconds(&cell, index);
            ((counted - kernel * factor).abs() < 0.05 * kernel * factor).then_some(counted)
        });
        println!("{kernel:.3} s by the kernel are {counted:.3} s of the cell's cores");
    }
}
