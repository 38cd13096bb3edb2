//! What tasks use: against the kernel's own counters, for known loads.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::borglets::Machine;
use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::pages::{Of, metrics, value};
use crate::processes;
use crate::replicas::Three;
use crate::tools::needs;

/// A job of tasks that use a known share of a core, and memory.
const LOAD: &str = "
    local borg = import 'borg.libsonnet';
    borg.batch('load', cmd=['stress-ng', '--quiet', '--cpu', '1', '--cpu-load', '40',
                            '--cpu-load-slice', '20', '--vm', '1', '--vm-bytes', '48m',
                            '--vm-keep', '--vm-hang', '0'])
      { cpu: 0.6, ram: '256 MiB', tasks: 1, processes: 64, notice: '100ms' }
";

/// The answer of `bourg usage` as JSON.
fn usage(cell: &Cell, job: &str) -> Value {
    serde_json::from_str(&cell.ok(&format!("bourg usage {job} -o json"))).expect("JSON")
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Waits until the only task of a job was measured; returns its usage.
#[track_caller]
fn measured(cell: &Cell, job: &str) -> Value {
    eventually(&format!("{job} is measured"), || {
        let task = usage(cell, job)["tasks"][0].clone();
        number(&task["used"]["cpuMilli"]).map(|_| task)
    })
}

/// The CPU time of a task's cgroup in nanoseconds, as the kernel counts it.
fn kernel_cpu_ns(cgroup: &str) -> f64 {
    let places = ["cpuacct", "cpu,cpuacct", ""]
        .map(|tree| PathBuf::from("/sys/fs/cgroup").join(tree).join(cgroup));
    let v1 = places.iter().map(|place| place.join("cpuacct.usage"));
    if let Some(text) = v1.filter_map(|path| fs::read_to_string(path).ok()).next() {
        return text.trim().parse().expect("a number");
    }
    let stat = fs::read_to_string(places[2].join("cpu.stat")).expect("a cgroup");
    let usec = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).expect("a counter");
    usec.parse::<f64>().expect("a number") * 1_000.0
}

#[test]
fn a_known_load_is_measured_as_the_kernel_counts_it() {
    needs("stress-ng", "stress-ng");
    let cell = Cell::start();
    cell.write("load.bcl", LOAD);
    cell.ok("bourg run --detach load.bcl");
    let task = measured(&cell, "load");
    let (_, pid) = cell.tasks("load").pop_first().expect("it runs");
    let (instance, cgroup) = (cell.instance_of(pid), cell.cgroup_of(pid));
    // Both ends of a span as long as a few rounds, by the kernel's counter.
    let (begin, begun) = (kernel_cpu_ns(&cgroup), std::time::Instant::now());
    let from = number(&task["at"]).expect("a time");
    let (mut sampled, mut last) = (Vec::new(), from);
    until("ten samples are there", || {
        let task = usage(&cell, "load")["tasks"][0].clone();
        let at = number(&task["at"]).unwrap_or(last);
        if at > last {
            last = at;
            sampled.extend(number(&task["used"]["cpuMilli"]));
        }
        sampled.len() >= 10
    });
    let kernel = (kernel_cpu_ns(&cgroup) - begin) / begun.elapsed().as_nanos() as f64;
    let average = sampled.iter().sum::<f64>() / sampled.len() as f64 / 1_000.0;
    assert!((average - kernel).abs() < 0.1, "{average} of {kernel} cores: {sampled:?}");

    let task = measured(&cell, "load");
    let memory = number(&task["used"]["memoryBytes"]).expect("it was measured");
    assert!((48e6..256e6).contains(&memory), "{task}");
    assert!(number(&task["used"]["memoryPeakBytes"]) >= Some(memory), "{task}");
    assert_eq!(number(&task["used"]["memoryAssignedBytes"]), Some(268_435_456.0));
    assert_eq!(task["used"].get("cyclesPerInstruction"), None);

    // The window that closes at its end has all of its CPU time: it uses none while it is stopped.
    let mut all = processes::of_instance(cell.cgroup(), &instance);
    all.retain(|pid| processes::command(*pid).iter().any(|word| word.contains("stress-ng")));
    assert!(all.len() > 2, "stress-ng and its workers: {all:?}");
    all.iter().for_each(|pid| processes::signal(*pid, Signal::SIGSTOP));
    let mut kernel = 0.0;
    until("it is stopped", || std::mem::replace(&mut kernel, kernel_cpu_ns(&cgroup)) == kernel);
    cell.ok("bourg kill load");
    let window = eventually("its window has closed", || {
        let windows = usage(&cell, "load --since 1h")["tasks"][0]["windows"].clone();
        windows.as_array()?.last().map(|window| window["window"].clone())
    });
    let seconds = window["length"].as_str().expect("a span").trim_end_matches('s').to_owned();
    let seconds: f64 = seconds.parse().expect("a number");
    let used = number(&window["average"]["cpuMilli"]).expect("measured") / 1_000.0 * seconds;
    let kernel = kernel / 1e9;
    assert!((used - kernel).abs() < 0.02 * kernel, "{used} s of {kernel} s: {window}");
    let percentiles = window["cpuMilliPercentiles"].as_array().expect("a list");
    assert_eq!(
        (percentiles.len(), window["cpuMilliTailPercentiles"].as_array().map(Vec::len)),
        (11, Some(9))
    );
}

#[test]
fn usage_of_an_alloc_sums_its_tasks_and_the_cells_its_machines() {
    let cell = Cell::start();
    cell.write(
        "all.bcl",
        "local borg = import 'borg.libsonnet';
         [borg.allocSet('set', allocs=1) { cpu: 1, ram: '256 MiB' },
          borg.batch('busy', cmd=['sh', '-c', 'while :; do :; done'])
            { allocSet: 'set', cpu: 0.3, ram: '64 MiB' }]",
    );
    cell.ok("bourg run --detach all.bcl");
    let task = measured(&cell, "busy");
    assert!(number(&task["used"]["cpuMilli"]) > Some(50.0), "{task}");
    let alloc = measured(&cell, "set");
    assert!(number(&alloc["used"]["cpuMilli"]) > Some(50.0), "{alloc}");
    let all = usage(&cell, "busy")["cell"].clone();
    assert!(number(&all["used"]["memoryBytes"]) > Some(1e7), "{all}");
    let (used, system) = (number(&all["used"]["cpuMilli"]), number(&all["system"]["cpuMilli"]));
    assert!(used >= system && used.is_some(), "{all}");
    assert_eq!(number(&all["tasks"]["measured"]), Some(1.0), "an alloc does not count again");
}

#[test]
fn windows_outlive_the_borglet_and_the_master() {
    let cell = Cell::start();
    cell.write(
        "brief.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('brief', cmd=['sh', '-c', 'sleep 3'])",
    );
    cell.ok("bourg run brief.bcl");
    let windows = |cell: &Cell| {
        let tasks = usage(cell, "brief --since 1h")["tasks"].clone();
        tasks[0]["windows"].as_array().cloned().unwrap_or_default()
    };
    until("its window is there", || windows(&cell).len() == 1);
    let before = windows(&cell);
    cell.kill(Role::Borglet);
    cell.kill(Role::Master);
    until("it is there again", || windows(&cell) == before);
}

#[test]
fn metrics_name_jobs_with_what_they_use() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let name = "bourg_job_memory_bytes{user=\"root\",job=\"hello\",band=\"production\"}";
    until("the job is in the metrics", || value(&metrics(&cell, Of::Master), name) > Some(1e6));
    let page = metrics(&cell, Of::Master);
    assert!(value(&page, "bourg_machines_memory_bytes{of=\"all\"}") > Some(1e6), "{page}");
    assert!(!page.contains("bourg_task_"), "nobody has asked for tasks");
}

#[test]
fn every_replica_knows_all_usage_and_names_missing_replicas() {
    let cell = Three::start();
    let _machines = ["m2", "m3"].map(|name| Machine::start(&cell, name));
    cell.write(
        "wide.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('wide', tasks=6, cmd=['sleep', '1000']) { maxPerMachine: { tasks: 2, hard: true } }",
    );
    cell.ok("bourg run --detach wide.bcl");
    let measured = |at: &str| {
        let told = cell.types(&format!("bourg --cell {at} usage wide -o json"));
        let answer: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
        let tasks = answer["tasks"].as_array().cloned().unwrap_or_default();
        let has = |task: &&Value| number(&task["used"]["memoryBytes"]) > Some(0.0);
        (tasks.iter().filter(has).count(), told.stderr)
    };
    let only = [1, 2, 3].map(|id| cell.only(id).display().to_string());
    for at in &only {
        until("it knows of all tasks", || measured(at).0 == 6);
    }
    // Another replica polls its machines when it has been silent for long enough.
    let frozen = cell.leader() % 3 + 1;
    processes::signal(cell.pid(frozen), Signal::SIGSTOP);
    let asked = &only[usize::try_from(frozen % 3).expect("few")];
    let note = format!("replica {frozen}");
    until("the one that is silent is named", || measured(asked).1.contains(&note));
    until("others have measured its tasks", || measured(asked).0 == 6);
    processes::signal(cell.pid(frozen), Signal::SIGCONT);
    until("all answer", || !measured(asked).1.contains(&note));
}

/// The samples of the cell's history.
fn history(cell: &Cell) -> Vec<Value> {
    let answer = cell.ok("bourg usage --since 1h -o json");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    answer["history"].as_array().cloned().expect("a list")
}

#[test]
fn the_history_of_usage_and_evictions_lasts_until_a_master_restart() {
    let cell = Cell::start_with(&["--usage-history-interval", "500ms"]);
    let run = |version: u8| {
        cell.write(
            "steady.bcl",
            format!(
                "local borg = import 'borg.libsonnet';
                 borg.service('steady', cmd=['sleep', '1000'])
                   {{ cpu: 0.25, ram: '64 MiB', tasks: 1, env: {{ V: '{version}' }}, notice: '100ms' }}"
            ),
        );
        cell.ok("bourg run steady.bcl");
    };
    run(1);
    measured(&cell, "steady");
    run(2);
    let updated = |sample: &Value| number(&sample["evictions"]["updated"]).unwrap_or_default();
    until("the update's eviction is in it", || history(&cell).iter().any(|s| updated(s) > 0.0));
    let all = eventually("the next incarnation is measured", || {
        let all = history(&cell);
        let last = all.last().map(|sample| sample["bands"][0].clone())?;
        let polls = number(&all.last()?["work"]["polls"]).unwrap_or_default();
        (number(&last["measured"]) == Some(1.0) && polls > 0.0).then_some(all)
    });
    assert_eq!(all.iter().map(updated).sum::<f64>(), 1.0, "{all:?}");
    let times: Vec<u64> = all.iter().filter_map(|s| s["time"].as_str()?.parse().ok()).collect();
    assert!(times.iter().all(|time| time % 500_000 == 0) && times.is_sorted(), "{times:?}");
    let last = all.last().expect("a sample");
    assert_eq!(last["machinesUp"], 1, "{last}");
    assert!(number(&last["capacity"]["cpuMilli"]) >= Some(1_000.0), "{last}");
    assert!(number(&last["used"]["memoryBytes"]) > Some(1e6), "{last}");
    let band = &last["bands"][0];
    assert_eq!((&band["band"], &band["running"]), (&"production".into(), &1.into()), "{last}");
    for amount in ["limit", "reservation"] {
        assert_eq!(number(&band[amount]["cpuMilli"]), Some(250.0), "{last}");
    }
    assert!(number(&band["used"]["memoryBytes"]) > Some(0.0), "{last}");
    let shown = cell.types("bourg usage");
    let note = "passes of schedulers with a proposal: ";
    assert!(
        shown.stderr.contains("polls of machines: ") && shown.stderr.contains(note),
        "{shown:?}"
    );
    let shown = shown.stdout;
    assert!(shown.contains("\nproduction  1  ") && shown.contains("  1 updated\n"), "{shown}");
    let counter = "bourg_evictions_total{cause=\"updated\"}";
    assert_eq!(value(&metrics(&cell, Of::Master), counter), Some(1.0));

    // The first placement is in a sample, or was before the first one.
    let accepted = |sample: &Value| number(&sample["work"]["accepted"]).unwrap_or_default();
    let placed = history(&cell).iter().map(accepted).sum::<f64>();
    cell.ok("bourg resize steady 2");
    until("it is placed", || history(&cell).iter().map(accepted).sum::<f64>() == placed + 1.0);

    // The log is read again, and its evictions do not count twice.
    let before = times.last().copied();
    cell.kill(Role::Master);
    let again = eventually("it begins anew", || {
        let all = history(&cell);
        let first = all.first()?["time"].as_str()?.parse::<u64>().ok();
        (first > before).then_some(all)
    });
    assert_eq!(again.iter().map(updated).sum::<f64>(), 0.0, "{again:?}");
    assert_eq!(value(&metrics(&cell, Of::Master), counter), Some(0.0));
}
