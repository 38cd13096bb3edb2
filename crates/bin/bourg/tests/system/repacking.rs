//! Re-packing: a pending job starts after a running task has moved.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;

/// The names of the machines, and the CPU of the smaller one in thousandths of a core.
fn machines(cell: &Cell) -> (Vec<String>, u64) {
    let text = cell.ok("bourg machines -o json");
    let listed: Value = serde_json::from_str(&text).expect("JSON");
    let listed = listed.as_array().expect("a list");
    let name = |machine: &Value| machine["name"].as_str().expect("a name").to_owned();
    let cpu = |machine: &Value| {
        let amount = &machine["capacity"]["cpuMilli"];
        amount.as_u64().or_else(|| amount.as_str()?.parse().ok()).expect("an amount")
    };
    let smaller = listed.iter().map(cpu).min().expect("two machines");
    (listed.iter().map(name).collect(), smaller)
}

/// Runs a batch job with one task of so many hundredths of a machine.
fn submit(cell: &Cell, job: &str, percent: u64, machine_milli: u64) -> String {
    let milli = machine_milli * percent / 100;
    let file = format!("{job}.bcl");
    cell.write(
        &file,
        format!(
            "(import 'borg.libsonnet').batch('{job}', cmd=['sleep', '1000'])
               {{ cpu: {}.{:03}, ram: '16 MiB', estimation: false }}",
            milli / 1_000,
            milli % 1_000
        ),
    );
    format!("bourg run {file}")
}

#[test]
fn a_pending_job_starts_after_a_move_that_is_planned_first() {
    let cell = Cell::start_with(&["--machines", "2"]);
    let (names, milli) = machines(&cell);
    let [first, second] = names.as_slice() else { panic!("{names:?}") };
    // One task on each machine, which both fit on one: the first job has no room elsewhere when it starts.
    cell.ok(&format!("bourg drain {first}"));
    cell.ok(&submit(&cell, "right", 40, milli));
    cell.ok(&submit(&cell, "fills", 55, milli));
    cell.ok(&format!("bourg undrain {first}"));
    cell.ok(&submit(&cell, "left", 40, milli));
    cell.ok("bourg kill fills");
    until("it has left", || {
        let machine = cell.ok(&format!("bourg machine show {second}"));
        !machine.contains("fills")
    });
    let before = ["left", "right"].map(|job| cell.tasks(job));
    cell.fails(4, &(submit(&cell, "train", 70, milli) + " --timeout 3s"));

    let plan = "repacker --plan --settled 1s --waited 1s";
    let said = cell.ok(&format!("bourg {plan}"));
    assert!(said.contains("train/0 fits on ") && said.contains(" → "), "{said}");
    assert!(said.contains("left/0") != said.contains("right/0"), "one of them moves: {said}");
    assert_eq!(["left", "right"].map(|job| cell.tasks(job)), before, "a plan moves nothing");
    let unsettled = cell.ok("bourg repacker --plan --waited 1s");
    assert!(unsettled.contains("no moves help") && unsettled.contains("train/0"), "{unsettled}");
    cell.ok("bourg user add ben");
    let said = cell.fails(3, &format!("bourg --cell ./ben {plan}"));
    assert!(said.contains("move-tasks"), "{said}");
    cell.ok("bourg capability grant ben move-tasks");
    cell.ok(&format!("bourg --cell ./ben {plan}"));

    let times = ["--interval", "1s", "--settled", "1s", "--waited", "1s", "--lease", "5s"];
    let arguments: Vec<&str> = ["--cell", "./ben", "repacker"].into_iter().chain(times).collect();
    let mut repacker = cell.start(env!("CARGO_BIN_EXE_bourg"), &arguments);
    until("the pending job runs", || !cell.tasks("train").is_empty());
    for job in ["left", "right", "train"] {
        cell.is_healthy(job);
    }
    let printed = repacker.stdout();
    assert!(printed.contains("/ben/repacker and moves tasks"), "{printed}");
    assert!(printed.contains("so that ") && printed.contains("train/0 fits on "), "{printed}");
    let moved: Vec<&str> = ["left", "right"]
        .into_iter()
        .filter(|job| cell.ok(&format!("bourg events {job}")).contains("moved so that "))
        .collect();
    let [moved] = moved.as_slice() else { panic!("one moves: {moved:?}\n{printed}") };
    let events = cell.ok(&format!("bourg events {moved}"));
    assert!(events.contains("train/0 fits") && events.contains("EVICT"), "{events}");
    assert!(events.contains("USE_CAPABILITY") && events.contains("move-tasks"), "{events}");
    kill(Pid::from_raw(repacker.pid()), Signal::SIGTERM).expect("it runs");
    until("it has ended", || repacker.code() == Some(0));
    let said = cell.ok(&format!("bourg {plan}"));
    assert!(said.contains("no moves are worth their cost"), "{said}");
}
